"""The draws of a batch: smoothed attributions, their length from below, and the cosine that follows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import acos, degrees, inf

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.bounded import length, make_bounding
from attrcert.bounds.smoothed import RULES
from attrcert.bounds.smoothed.cosine_bounds import CosineRule
from attrcert.bounds.smoothed.lengths import CHUNK, Estimate, clt_length, lower_length, unit_noise
from attrcert.bounds.smoothed.noise_overlap import Gaussian, Noise, UniformBall
from attrcert.columns import Cell
from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import Layout, explainer
from attrcert.running.evaluating.samples import sample_cells
from attrcert.running.evaluating.subjects import explained_class
from attrcert.settings.certifying import Certifying
from attrcert.statistics import CONFIDENCES
from attrcert.statistics.confidence import Projections, pilot_size
from attrcert.types import Batch
from attrcert.vocabulary import CLT, Guarantee, Status

LOOK_EVERY = 4  # chunks between two looks at whether a sample may stop


@dataclass(frozen=True)
class Seen:
    """What the draws at one radius showed of a sample: |h| from below and as estimated, what the draws that are left may at
    best make of the lower bound, and M.
    """

    lower: float
    estimate: float
    hoped: float
    M: float
    samples: int

    @property
    def c(self) -> float:
        return min(1.0, self.lower / self.M) if self.M > 0 else 0.0


@dataclass(frozen=True)
class Drawing:
    """The draws of a batch and what follows from them."""

    f: Classifier
    batch: Batch
    logits: Float[Tensor, "b k"]
    config: Certifying
    layout: Layout
    points: int
    all_samples: int

    @property
    def target(self) -> Int64[Tensor, " b"]:
        return explained_class(self.logits, self.batch, self.config.explanation.target)

    @property
    def d(self) -> int:
        return self.batch.images[0].numel()

    @property
    def failure(self) -> float:
        """Of one test: the run's, shared by all samples and radii that must hold together, or by the radii that a choice is made from.

        `descend` needs no share: a radius is tried only after all larger ones passed, so the first that is wrong to pass decides. What then
        holds is the threshold at every radius that passed, not the cosines above it.
        """
        config, simultaneous = self.config, self.config.smoothing.simultaneous
        q = config.arithmetic.failure / (self.all_samples if simultaneous else 1)
        return q / (len(config.spread) if config.choosing or simultaneous else 1)

    def noise(self, spread: float) -> Noise:
        return UniformBall(spread) if self.config.smoothing.smooth == "uniform" else Gaussian(spread)

    def samples(self) -> Iterator[tuple[int, dict[float, Seen]]]:
        """Each sample's place in the batch and what was seen at every radius, as the samples finish."""
        config = self.config
        active = torch.arange(len(self.batch.indices), device=self.logits.device)
        estimates = {spread: self._begun(spread) for spread in config.spread}
        drawn = 0
        for number, m in enumerate(_chunks(config.smoothing.samples)):
            unit = self._unit(active, m, number)
            for spread, estimate in estimates.items():
                estimate.add(self.maps(active, spread * unit))
            drawn += m
            due = number % LOOK_EVERY == LOOK_EVERY - 1 and drawn > pilot_size(config.smoothing.samples)
            looking = config.smoothing.stop_when == "certified" and due
            if drawn < config.smoothing.samples and not looking:
                continue
            seen = self._seen(estimates)
            over = [drawn >= config.smoothing.samples or self._decided(one) for one in seen]
            yield from ((int(active[j]), one) for j, one in enumerate(seen) if over[j])
            keep = torch.tensor([j for j, done in enumerate(over) if not done], dtype=torch.int64, device=active.device)
            active = active[keep]
            if not len(active):
                return
            for estimate in estimates.values():
                estimate.select(keep)

    def smoothed(self, spread: float) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n"], list[Seen]]:
        """The smoothed attributions themselves, their standard errors, and what was seen of their length."""
        everyone = torch.arange(len(self.batch.indices), device=self.logits.device)
        estimate = self._begun(spread)
        for number, m in enumerate(_chunks(self.config.smoothing.samples)):
            estimate.add(self.maps(everyone, spread * self._unit(everyone, m, number)))
        return estimate.mean, estimate.standard_error, [one[spread] for one in self._seen({spread: estimate})]

    def maps(self, active: Int64[Tensor, " a"], noise: Float[Tensor, "a m n"]) -> Float[Tensor, "a m n"]:
        """The attributions at the noisy images, `points` at a time."""
        x = self.batch.images[active]
        noisy = (x[:, None] + noise.view(len(x), -1, *x.shape[1:])).flatten(0, 1)
        classes = self.target[active].repeat_interleave(noise.shape[1])
        attribution = explainer(self.config, self.f.mean, self.layout)
        pieces = zip(noisy.split(self.points), classes.split(self.points), strict=True)
        return torch.cat([attribution.value(self.f, z, y) for z, y in pieces]).view(noise.shape)

    def _begun(self, spread: float) -> Estimate:
        """An estimate with its M; the pilot that tells M is drawn apart and thrown away."""
        config, everyone = self.config, torch.arange(len(self.batch.indices), device=self.logits.device)
        bounding, flat = make_bounding(config.smoothing.bounded), self._flat(everyone)
        lengths = flat.new_zeros(len(flat), 0, dtype=torch.float64)
        if bounding.pilot:
            unit = unit_noise(config.smoothing.smooth, self._draws(everyone), "smooth-limit", bounding.pilot, like=flat)
            chunks = self.maps(everyone, spread * unit).split(CHUNK, dim=1)
            lengths = torch.cat([length(g)[:, :, 0] for g in chunks], dim=1)
        fixed = config.smoothing.confidence == "empirical-bernstein"
        return Estimate(bounding, bounding.limit(lengths), config.smoothing.samples, fixed_direction=fixed, like=flat)

    def _unit(self, active: Int64[Tensor, " a"], m: int, number: int) -> Float[Tensor, "a m n"]:
        """The noise of chunk `number` at radius or sigma 1."""
        draws = self._draws(active)
        return unit_noise(self.config.smoothing.smooth, draws, "smooth", m, like=self._flat(active), part=number)

    def _draws(self, active: Int64[Tensor, " a"]) -> Draws:
        return Draws(self.config.arithmetic.seed, self.batch.indices).select(active)

    def _flat(self, active: Int64[Tensor, " a"]) -> Float[Tensor, "a n"]:
        return self.batch.images[active].flatten(1)

    def _seen(self, estimates: dict[float, Estimate]) -> list[dict[float, Seen]]:
        by_spread = {}
        for spread, estimate in estimates.items():
            largest = estimate.largest.tolist()
            by_spread[spread] = [
                self._read(one, estimate, j, largest[j]) for j, one in enumerate(estimate.projections())
            ]
        return [dict(zip(by_spread, parts, strict=True)) for parts in zip(*by_spread.values(), strict=True)]

    def _read(self, one: Projections, estimate: Estimate, j: int, largest: float) -> Seen:
        if self.config.smoothing.confidence == CLT:
            lower = clt_length(estimate.mean[j], estimate.standard_error[j], self.failure)
        elif self.config.smoothing.rule == "published":
            lower = one.mean_norm  # as the paper does; it bounds nothing
        else:
            lower = self._lower(one)
        left = self.config.smoothing.samples - one.total
        hoped = self._lower(one.continued(left)) if left and self.config.smoothing.stop_when == "certified" else lower
        M = largest if self.config.smoothing.bounded == "sample-max" else one.M
        return Seen(lower, one.mean_norm, hoped, M, one.total)

    def _lower(self, one: Projections) -> float:
        return lower_length(CONFIDENCES.make(self.config.smoothing.confidence), one, self.failure, self.logits.dtype)

    @property
    def rule(self) -> CosineRule:
        return RULES.make(self.config.smoothing.rule)

    def cosine(self, seen: Seen, spread: float, eps: float) -> float | None:
        """What is kept within eps, if anything is."""
        return self.rule.cosine(seen.c, self.noise(spread).tau(eps, self.d))

    def _decided(self, seen: dict[float, Seen]) -> bool:
        """Whether every case is certified, or is out of reach: even if all draws left were as long as can be hoped for, the bound would
        be too short.
        """
        for eps in self.config.perturbation.eps:
            for T in self.config.smoothing.min_cosine:
                for r, one in seen.items():
                    hoped = replace(one, lower=one.hoped)
                    if meets(self.cosine(one, r, eps), T) != meets(self.cosine(hoped, r, eps), T):
                        return False
        return True

    def common(self, i: int) -> dict[str, Cell]:
        """The cells that all rows of a sample share."""
        smoothing, classes = self.config.smoothing, (int(self.logits[i].argmax()), int(self.target[i]))
        published = smoothing.rule == "published"
        return {
            **sample_cells(self.config, self.batch.indices[i], self.batch.labels[i], *classes),
            "status": Status.OK.value,
            "guarantee": (Guarantee.EMPIRICAL if smoothing.confidence == CLT else self.rule.guarantee).value,
            "noise": smoothing.smooth,
            "rule": smoothing.rule,
            "confidence": "none" if published else smoothing.confidence,
            "failure": None if published else self.config.arithmetic.failure,
        }

    def told(self, seen: Seen, spread: float) -> dict[str, Cell]:
        """The cells that say what was drawn."""
        M = seen.M if inf > seen.M else None
        return {"radius": spread, "samples": seen.samples, "C_hat": seen.estimate, "C_lower": seen.lower, "M": M}

    def kept(self, cosine: float | None, spread: float, eps: float) -> dict[str, Cell]:
        """The cells that say what is kept within eps."""
        angle = None if cosine is None else degrees(acos(cosine)) * (1 + 1e-12)
        return {"tau": self.noise(spread).tau(eps, self.d), "cosine": cosine, "angle_deg": angle}


def _chunks(samples: int) -> Iterator[int]:
    """The sizes of the chunks that the draws come in."""
    for drawn in range(0, samples, CHUNK):
        yield min(CHUNK, samples - drawn)


def meets(cosine: float | None, T: float) -> bool:
    return cosine is not None and cosine >= T
