"""The smoothing certificates of one batch, and the cells that they fill."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import acos, degrees, inf

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.bounded import length, make_bounding
from attrcert.bounds.smoothed import RULES
from attrcert.bounds.smoothed.lengths import CHUNK, Estimate, clt_length, lower_length, unit_noise
from attrcert.bounds.smoothed.noise_overlap import Gaussian, Noise, UniformBall
from attrcert.columns import Cell, Row
from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.cells import explained_class
from attrcert.running.evaluating.methods import attribution_label, explainer
from attrcert.running.settings.config import SmoothConfig
from attrcert.statistics import CONFIDENCES
from attrcert.statistics.confidence import Projections, pilot_size
from attrcert.types import Batch
from attrcert.vocabulary import Guarantee, Status

LOOK_EVERY = 4  # chunks between two looks at whether a sample may stop
TO_TRY = "no radius of the grid passed: try larger ones, more samples, a smaller eps or a lower cosine"


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


def smooth_rows(
    f: Classifier, batch: Batch, logits: Float[Tensor, "b k"], config: SmoothConfig, *, points: int, samples: int
) -> dict[int, list[Row]]:
    """Each sample's rows, one per case, by its index; `samples` is the number of samples of the whole run."""
    certify = Certify(f, batch, logits, config, points, samples)
    rows: dict[int, list[Row]] = {}
    for i, seen in certify.samples():
        common = certify.common(i)
        rows[batch.indices[i]] = [{**common, **cells} for cells in certify.cells(seen)]
    return rows


@dataclass(frozen=True)
class Certify:
    """The draws of a batch and what follows from them."""

    f: Classifier
    batch: Batch
    logits: Float[Tensor, "b k"]
    config: SmoothConfig
    points: int
    all_samples: int

    @property
    def target(self) -> Int64[Tensor, " b"]:
        return explained_class(self.logits, self.batch, self.config.target)

    @property
    def d(self) -> int:
        return self.batch.images[0].numel()

    @property
    def failure(self) -> float:
        """Of one test: the run's, shared by all samples and radii that must hold together, or by the radii that a choice is made from.

        `descend` needs no share: a radius is tried only after all larger ones passed, so the first that is wrong to pass decides. What then
        holds is the threshold at every radius that passed, not the cosines above it.
        """
        config = self.config
        choosing = config.best or (config.task == "min-radius" and config.search == "smallest")
        q = config.failure / (self.all_samples if config.simultaneous else 1)
        return q / (len(config.spread) if choosing or config.simultaneous else 1)

    def noise(self, spread: float) -> Noise:
        return UniformBall(spread) if self.config.smooth == "uniform" else Gaussian(spread)

    def samples(self) -> Iterator[tuple[int, dict[float, Seen]]]:
        """Each sample's place in the batch and what was seen at every radius, as the samples finish."""
        config = self.config
        active = torch.arange(len(self.batch.indices), device=self.logits.device)
        estimates = {spread: self._begun(spread) for spread in config.spread}
        drawn = 0
        for number, m in enumerate(_chunks(config.samples)):
            unit = self._unit(active, m, number)
            for spread, estimate in estimates.items():
                estimate.add(self.maps(active, spread * unit))
            drawn += m
            due = number % LOOK_EVERY == LOOK_EVERY - 1 and drawn > pilot_size(config.samples)
            looking = config.stop_when == "certified" and due
            if drawn < config.samples and not looking:
                continue
            seen = self._seen(estimates)
            over = [drawn >= config.samples or self._decided(one) for one in seen]
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
        for number, m in enumerate(_chunks(self.config.samples)):
            estimate.add(self.maps(everyone, spread * self._unit(everyone, m, number)))
        return estimate.mean, estimate.standard_error, [one[spread] for one in self._seen({spread: estimate})]

    def maps(self, active: Int64[Tensor, " a"], noise: Float[Tensor, "a m n"]) -> Float[Tensor, "a m n"]:
        """The attributions at the noisy images, `points` at a time."""
        x = self.batch.images[active]
        noisy = (x[:, None] + noise.view(len(x), -1, *x.shape[1:])).flatten(0, 1)
        classes = self.target[active].repeat_interleave(noise.shape[1])
        attribution = explainer(self.config, self.f.mean)
        pieces = zip(noisy.split(self.points), classes.split(self.points), strict=True)
        return torch.cat([attribution.value(self.f, z, y) for z, y in pieces]).view(noise.shape)

    def _begun(self, spread: float) -> Estimate:
        """An estimate with its M; the pilot that tells M is drawn apart and thrown away."""
        config, everyone = self.config, torch.arange(len(self.batch.indices), device=self.logits.device)
        bounding, flat = make_bounding(config.bounded), self._flat(everyone)
        lengths = flat.new_zeros(len(flat), 0, dtype=torch.float64)
        if bounding.pilot:
            unit = unit_noise(config.smooth, self._draws(everyone), "smooth-limit", bounding.pilot, like=flat)
            chunks = self.maps(everyone, spread * unit).split(CHUNK, dim=1)
            lengths = torch.cat([length(g)[:, :, 0] for g in chunks], dim=1)
        fixed = config.confidence == "empirical-bernstein"
        return Estimate(bounding, bounding.limit(lengths), config.samples, fixed_direction=fixed, like=flat)

    def _unit(self, active: Int64[Tensor, " a"], m: int, number: int) -> Float[Tensor, "a m n"]:
        """The noise of chunk `number` at radius or sigma 1."""
        draws = self._draws(active)
        return unit_noise(self.config.smooth, draws, "smooth", m, like=self._flat(active), part=number)

    def _draws(self, active: Int64[Tensor, " a"]) -> Draws:
        return Draws(self.config.seed, self.batch.indices).select(active)

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
        if self.config.confidence == "clt":
            lower = clt_length(estimate.mean[j], estimate.standard_error[j], self.failure)
        elif self.config.rule == "published":
            lower = one.mean_norm  # as the paper does; it bounds nothing
        else:
            lower = self._lower(one)
        left = self.config.samples - one.total
        hoped = self._lower(one.continued(left)) if left and self.config.stop_when == "certified" else lower
        M = largest if self.config.bounded == "sample-max" else one.M
        return Seen(lower, one.mean_norm, hoped, M, one.total)

    def _lower(self, one: Projections) -> float:
        return lower_length(CONFIDENCES.make(self.config.confidence), one, self.failure, self.logits.dtype)

    def cosine(self, seen: Seen, spread: float, eps: float) -> float | None:
        return RULES.make(self.config.rule).cosine(seen.c, self.noise(spread).tau(eps, self.d))

    def _decided(self, seen: dict[float, Seen]) -> bool:
        """Whether every case is certified, or is out of reach: even if all draws left were as long as can be hoped for, the bound would
        be too short.
        """
        for eps in self.config.eps:
            for T in self.config.min_cosine:
                for r, one in seen.items():
                    hoped = replace(one, lower=one.hoped)
                    if _meets(self.cosine(one, r, eps), T) != _meets(self.cosine(hoped, r, eps), T):
                        return False
        return True

    def common(self, i: int) -> dict[str, Cell]:
        label, predicted = self.batch.labels[i], int(self.logits[i].argmax())
        return {
            "index": self.batch.indices[i],
            "label": label,
            "predicted": predicted,
            "target": int(self.target[i]),
            "correct": None if label is None else label == predicted,
            "status": Status.OK.value,
            "guarantee": self._guarantee().value,
            "attribution": attribution_label(self.config),
            "norm": "l2",
            "noise": self.config.smooth,
            "rule": self.config.rule,
            "confidence": "none" if self.config.rule == "published" else self.config.confidence,
            "failure": None if self.config.rule == "published" else self.config.failure,
        }

    def _guarantee(self) -> Guarantee:
        return Guarantee.EMPIRICAL if self.config.confidence == "clt" else RULES.make(self.config.rule).guarantee

    def cells(self, seen: dict[float, Seen]) -> list[dict[str, Cell]]:
        """One set per case."""
        if self.config.task == "bound":
            return [self._bound(seen[r], r, eps) for r in self.config.spread for eps in self.config.eps]
        if self.config.task == "min-radius":
            return [self._radius(seen, eps, T) for eps in self.config.eps for T in self.config.min_cosine]
        if not self.config.best:
            return [self._largest(seen[r], r, T) for r in self.config.spread for T in self.config.min_cosine]
        return [self._best(seen, T) for T in self.config.min_cosine]

    def _drawn(self, seen: Seen, spread: float) -> dict[str, Cell]:
        M = seen.M if inf > seen.M else None
        return {"radius": spread, "samples": seen.samples, "C_hat": seen.estimate, "C_lower": seen.lower, "M": M}

    def _bound(self, seen: Seen, spread: float, eps: float) -> dict[str, Cell]:
        """The cosine kept at eps; with a threshold, whether it was met."""
        cosine = self.cosine(seen, spread, eps)
        cells: dict[str, Cell] = {
            **self._drawn(seen, spread),
            "eps": eps,
            "tau": self.noise(spread).tau(eps, self.d),
            "cosine": cosine,
            "angle_deg": None if cosine is None else degrees(acos(cosine)) * (1 + 1e-12),
        }
        if self.config.min_cosine:
            T = max(self.config.min_cosine)
            cells |= {"threshold_kind": "cosine", "threshold": T}
            if cosine is None or cosine < T:
                cells["status"] = Status.ABSTAINED.value
        elif cosine is None:
            cells["status"] = Status.VACUOUS.value
        return cells

    def _largest(self, seen: Seen, spread: float, T: float) -> dict[str, Cell]:
        """The largest eps at which the cosine stays at T or above."""
        eps = self.noise(spread).eps(RULES.make(self.config.rule).largest_tau(seen.c, T), self.d)
        cells: dict[str, Cell] = {
            **self._drawn(seen, spread),
            "threshold_kind": "cosine",
            "threshold": T,
            "eps_max": eps if eps < inf else None,
        }
        return cells if eps > 0 else {**cells, "status": Status.ABSTAINED.value}

    def _best(self, seen: dict[float, Seen], T: float) -> dict[str, Cell]:
        """The same at the radius of the grid where it is the largest."""
        tried = {r: self._largest(seen[r], r, T) for r in self.config.spread}
        texts = "; ".join(f"{r:g}: {_reach(cells):.6g}" for r, cells in tried.items())
        best = max(tried.values(), key=_reach)
        return {**best, "radii_tried": texts}

    def _radius(self, seen: dict[float, Seen], eps: float, T: float) -> dict[str, Cell]:
        """The smallest radius of the grid at which the threshold was certified; where none was, the best cosine that was."""
        cosines = {r: self.cosine(one, r, eps) for r, one in sorted(seen.items())}
        if self.config.search == "descend":
            cosines = _to_the_first_failure(cosines, T)
        passing = [r for r, cosine in cosines.items() if _meets(cosine, T)]
        tried = "; ".join(f"{r:g}: {'none' if c is None else f'{c:.6g}'}" for r, c in cosines.items())
        cells: dict[str, Cell] = {"eps": eps, "threshold_kind": "cosine", "threshold": T, "radii_tried": tried}
        known = {r: cosine for r, cosine in cosines.items() if cosine is not None}
        if not passing:
            best = max(known, key=lambda r: known[r]) if known else max(cosines)
            reached = {**self._drawn(seen[best], best), "cosine": cosines[best]}
            return {**cells, **reached, "status": Status.INFEASIBLE.value, "message": TO_TRY}
        r = min(passing)
        found: dict[str, Cell] = {"radius_min": r, "cosine": known[r], "tau": self.noise(r).tau(eps, self.d)}
        return {**cells, **self._drawn(seen[r], r), **found, "angle_deg": degrees(acos(known[r])) * (1 + 1e-12)}


def _reach(cells: dict[str, Cell]) -> float:
    """The largest eps; an empty cell stands for every eps."""
    eps = cells["eps_max"]
    return inf if eps is None else float(eps)


def _chunks(samples: int) -> Iterator[int]:
    """The sizes of the chunks that the draws come in."""
    for drawn in range(0, samples, CHUNK):
        yield min(CHUNK, samples - drawn)


def _meets(cosine: float | None, T: float) -> bool:
    return cosine is not None and cosine >= T


def _to_the_first_failure(cosines: dict[float, float | None], T: float) -> dict[float, float | None]:
    """The radii from the first that fails, coming from the largest, upwards: no other was tested at the stated failure."""
    failing = [r for r, cosine in cosines.items() if not _meets(cosine, T)]
    return {r: cosine for r, cosine in cosines.items() if not failing or r >= max(failing)}


def published_radii(config: SmoothConfig, d: int, ratio: float) -> list[tuple[float, float, float]]:
    """(eps, T, R) of the published closed form at a given |h|/M: R = eps / (2 sqrt(I^-1_tau(1/2, (d+1)/2))).

    Not an answer: |h| depends on the radius. For comparison.
    """
    rule = RULES.make("published")
    reach = {T: UniformBall(1.0).eps(rule.largest_tau(ratio, T), d) for T in config.min_cosine}
    return [(eps, T, eps / reach[T] if reach[T] else inf) for eps in config.eps for T in config.min_cosine]
