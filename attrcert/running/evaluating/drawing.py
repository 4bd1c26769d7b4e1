"""The draws of a batch: smoothed attributions, their length from below, and the cosine that follows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import acos, degrees, inf, prod, sqrt

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.bounded import length, make_bounding
from attrcert.bounds.smoothed import RULES
from attrcert.bounds.smoothed.averaged import Averaged, CosineRule
from attrcert.bounds.smoothed.covariance_rule import deviation, winner
from attrcert.bounds.smoothed.lengths import Estimate, unit_noise
from attrcert.bounds.smoothed.noise_overlap import Gaussian, Noise, UniformBall
from attrcert.columns import Cell
from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.consequences import Consequences
from attrcert.running.evaluating.evidence import Reading, Seen
from attrcert.running.evaluating.methods import Layout, explainer
from attrcert.running.evaluating.samples import sample_cells
from attrcert.running.evaluating.subjects import explained_class
from attrcert.settings.certifying import Certifying
from attrcert.settings.smoothing import CHUNK, WORTH
from attrcert.types import Batch
from attrcert.vocabulary import CLT, Guarantee, Status

USUAL_COSINE = 0.9  # at which what is certified is watched where no threshold is given


@dataclass(frozen=True)
class Group:
    """Samples that finish drawing together: their places in the batch and in the `estimates`, and what was seen of each."""

    places: list[int]
    rows: list[int]
    seen: list[dict[float, Seen]]
    estimates: dict[float, Estimate]


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
    rows: int  # of a sample's draws that are kept

    @property
    def target(self) -> Int64[Tensor, " b"]:
        return explained_class(self.logits, self.batch, self.config.explanation.target)

    @property
    def d(self) -> int:
        return self.batch.images[0].numel()

    @cached_property
    def map_shape(self) -> tuple[int, ...]:
        """Of one map, channels first."""
        return explainer(self.config, self.f.mean, self.layout).map_shape(self.f, self.batch.images)

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
        return UniformBall(spread) if self.config.smoothing.noise == "uniform" else Gaussian(spread)

    def samples(self) -> Iterator[tuple[int, dict[float, Seen]]]:
        """Each sample's place in the batch and what was seen at every radius, as the samples finish."""
        for group in self.finished():
            yield from zip(group.places, group.seen, strict=True)

    def finished(self) -> Iterator["Group"]:
        """The samples that finish together."""
        active = torch.arange(len(self.batch.indices), device=self.logits.device)
        estimates = {spread: self._begun(spread) for spread in self.config.spread}
        before: dict[int, dict[float, Seen]] = {}
        drawn = number = 0
        for look, until in enumerate(self.config.smoothing.looks):
            while drawn < until:
                unit = self.unit(min(CHUNK, until - drawn), number)
                for spread, estimate in estimates.items():
                    estimate.add(self.maps(active, spread * unit))
                drawn, number = drawn + len(unit), number + 1
            seen = dict(zip(active.tolist(), self._seen(estimates, look, active), strict=True))
            last = until == self.config.smoothing.looks[-1]
            over = [last or self._enough(one, before.get(i)) for i, one in seen.items()]
            done, going = ([j for j, ended in enumerate(over) if ended is which] for which in (True, False))
            if done:
                places = list(seen)
                yield Group([places[j] for j in done], done, [seen[places[j]] for j in done], estimates)
            keep = torch.tensor(going, dtype=torch.int64, device=active.device)
            active, before = active[keep], seen
            if not len(active):
                return
            for estimate in estimates.values():
                estimate.select(keep)

    def smoothed(
        self, spread: float, watch: Callable[[Float[Tensor, "b m n"]], None] | None = None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n"], list[Seen]]:
        """The smoothed attributions themselves, their standard errors, and what was seen of their length; `watch` sees every draw."""
        everyone = torch.arange(len(self.batch.indices), device=self.logits.device)
        estimate = self._begun(spread, errors=True)
        for number, start in enumerate(range(0, most := self.config.smoothing.looks[-1], CHUNK)):
            g = self.maps(everyone, spread * self.unit(min(CHUNK, most - start), number))
            estimate.add(g)
            if watch:
                watch(g)
        look = len(self.config.smoothing.looks) - 1
        seen = self._seen({spread: estimate}, look, everyone)
        return estimate.mean, estimate.standard_error, [one[spread] for one in seen]

    def maps(self, active: Int64[Tensor, " a"], noise: Float[Tensor, "m n"]) -> Float[Tensor, "a m entries"]:
        """The attributions at the noisy images, `points` at a time."""
        x = self.batch.images[active]
        noisy = (x[:, None] + noise.view(-1, *x.shape[1:])).flatten(0, 1)
        classes = self.target[active].repeat_interleave(len(noise))
        attribution = explainer(self.config, self.f.mean, self.layout)
        pieces = zip(noisy.split(self.points), classes.split(self.points), strict=True)
        return torch.cat([attribution.value(self.f, z, y) for z, y in pieces]).view(len(x), len(noise), -1)

    def _begun(self, spread: float, *, errors: bool = False) -> Estimate:
        """An estimate with its M; the pilot that tells M is drawn apart and thrown away."""
        smoothing, everyone = self.config.smoothing, torch.arange(len(self.batch.indices), device=self.logits.device)
        bounding, flat = make_bounding(smoothing.bounded), self.batch.images.flatten(1)
        lengths = flat.new_zeros(len(flat), 0, dtype=torch.float64)
        if bounding.pilot:
            unit = unit_noise(smoothing.noise, self._noise, "smooth-limit", bounding.pilot, like=flat[:1])[0]
            chunks = self.maps(everyone, spread * unit).split(CHUNK, dim=1)
            lengths = torch.cat([length(g)[:, :, 0] for g in chunks], dim=1)
        return Estimate(
            bounding,
            bounding.limit(lengths),
            smoothing.looks,
            fixed_direction=smoothing.confidence == "empirical-bernstein",
            like=flat.new_zeros(len(flat), prod(self.map_shape)),
            rows=self.rows if smoothing.covariance else 0,
            errors=errors or smoothing.confidence == CLT,
        )

    def unit(self, m: int, number: int, purpose: str = "smooth") -> Float[Tensor, "m n"]:
        """The noise of chunk `number` at radius or sigma 1, the same for all samples."""
        like = self.batch.images[:1].flatten(1)
        return unit_noise(self.config.smoothing.noise, self._noise, purpose, m, like=like, part=number)[0]

    @property
    def _noise(self) -> Draws:
        """Every sample has the same: what is claimed of each holds all the same, and a draw costs little more than its gradient."""
        return Draws(self.config.arithmetic.seed, (0,))

    def _seen(
        self, estimates: dict[float, Estimate], look: int, active: Int64[Tensor, " a"]
    ) -> list[dict[float, Seen]]:
        config = self.config
        reading = Reading(config.smoothing, self.failure, config.arithmetic.seed, self.logits.dtype, self.d)
        indices = [self.batch.indices[i] for i in active.tolist()]
        by_spread = {spread: reading(estimate, look, indices) for spread, estimate in estimates.items()}
        return [dict(zip(by_spread, parts, strict=True)) for parts in zip(*by_spread.values(), strict=True)]

    def cosine(self, seen: Seen, spread: float, eps: float) -> float | None:
        """What is kept within eps, if anything is."""
        return self.rule.kept(seen.known(self.noise(spread)), eps)

    def reach(self, seen: Seen, spread: float, T: float) -> float:
        """The largest eps at which the cosine T is kept."""
        return self.rule.reach(seen.known(self.noise(spread)), T)

    @property
    def rule(self) -> CosineRule:
        return RULES.make(self.config.smoothing.rule)

    def _enough(self, seen: dict[float, Seen], before: dict[float, Seen] | None) -> bool:
        """Whether a sample may stop drawing."""
        if self.config.smoothing.stop_when == "certified":
            return self._decided(seen)
        return before is not None and self._settled(seen, before)

    def _decided(self, seen: dict[float, Seen]) -> bool:
        """Whether every case is certified, or is out of reach: even if the draws left were all that can be hoped for, it would not be."""
        for eps in self.config.perturbation.eps:
            for T in self.config.smoothing.min_cosine:
                for r, one in seen.items():
                    if meets(self.cosine(one, r, eps), T) != meets(self.cosine(one.at_best, r, eps), T):
                        return False
        return True

    def _settled(self, seen: dict[float, Seen], before: dict[float, Seen]) -> bool:
        """Whether twice as many draws added little to what is certified."""
        for T in self.config.smoothing.min_cosine or (USUAL_COSINE,):
            now = {r: self.reach(one, r, T) for r, one in seen.items()}
            then = {r: self.reach(one, r, T) for r, one in before.items()}
            pairs = (
                [(max(now.values()), max(then.values()))]
                if self.config.choosing
                else zip(now.values(), then.values(), strict=True)
            )
            if any(farther > (1 + WORTH) * eps or farther == 0 for farther, eps in pairs):
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
            "noise": smoothing.noise,
            "rule": smoothing.rule,
            "confidence": "none" if published else smoothing.confidence,
            "failure": None if published else self.config.arithmetic.failure,
        }

    def told(self, seen: Seen, spread: float, eps: float) -> dict[str, Cell]:
        """The cells that say what was drawn, and which rule speaks at eps."""
        cells: dict[str, Cell] = {
            "radius": spread,
            "samples": seen.samples,
            "C_hat": seen.estimate,
            "C_lower": seen.lower,
        }
        if seen.top is not None:
            cells |= {"lambda_hat": seen.top, "lambda_upper": seen.known(self.noise(spread)).largest_variance}
        if self.config.smoothing.rule == "auto":
            cells["rule_used"] = winner(seen.known(self.noise(spread)), eps)
        return {**cells, "M": seen.M if inf > seen.M else None}

    def kept(self, seen: Seen, cosine: float | None, spread: float, eps: float) -> dict[str, Cell]:
        """The cells that say what is kept within eps."""
        angle = None if cosine is None else degrees(acos(cosine)) * (1 + 1e-12)
        turned: dict[str, Cell] = {"tau": self.noise(spread).tau(eps, self.d), "cosine": cosine, "angle_deg": angle}
        return {**turned, **self.consequences(seen, spread, eps)}

    def instead(self, seen: Seen, spread: float, ask: Callable[[Averaged], float]) -> dict[str, Cell]:
        """The cells that say what twice as many draws, or Gaussian noise that is much like the ball's, would give, as far as draws tell."""
        if seen.top is None:
            return {}
        cells: dict[str, Cell] = {"twice": ask(seen.with_twice.known(self.noise(spread)))}
        if self.config.smoothing.noise == "uniform":
            sigma = spread / sqrt(self.d)
            cells |= {"gaussian_sigma": sigma, "gaussian": ask(seen.known(Gaussian(sigma)))}
        return {name: None if cell == inf else cell for name, cell in cells.items()}

    def consequences(self, seen: Seen, spread: float, eps: float) -> dict[str, Cell]:
        """Of the mean of the draws against the smoothed map at every point within eps."""
        if seen.error == inf:
            return {}
        shape, k = self.map_shape, self.config.largest.of(prod(self.map_shape))
        moved = deviation(seen.known(self.noise(spread)), eps) + seen.error
        return {name: cells[0] for name, cells in Consequences(seen.mean[None], shape, k).cells([moved]).items()}


def meets(cosine: float | None, T: float) -> bool:
    return cosine is not None and cosine >= T
