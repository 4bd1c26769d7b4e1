"""What the draws of a sample showed at one radius, and how the failure is shared by what is claimed of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt

import torch
from jaxtyping import Float64
from torch import Tensor

from attrcert.bounds.smoothed.averaged import Averaged
from attrcert.bounds.smoothed.lengths import Estimate, clt_length, lower_length
from attrcert.bounds.smoothed.noise_overlap import Noise
from attrcert.draws import Draws
from attrcert.settings.smoothing import Smoothing
from attrcert.statistics import CONFIDENCES
from attrcert.statistics.confidence import Projections
from attrcert.statistics.variance import largest_variance, mean_error
from attrcert.vocabulary import CLT

LENGTH, MEAN, SOLVER = 0.5, 0.05, 0.01  # of the failure, where the variance is bounded too; the rest is the variance's
LAST = 0.5  # of the variance's share for the last look; the others have the rest in equal parts


@dataclass(frozen=True)
class Seen:
    """|h| from below and as estimated, M, the largest variance as estimated and from above, what the draws that are left may at best make
    of the two bounds, and twice as many draws would about make of them; the mean of the draws and how far it may be from h.
    """

    lower: float
    estimate: float
    M: float
    samples: int
    mean: Float64[Tensor, " n"]
    top: float | None = None
    variance: float = inf
    hoped: tuple[float, float] = (0.0, inf)
    twice: tuple[float, float] = (0.0, inf)
    error: float = inf
    d: int = 0  # of the noise, where that is not of the maps' size

    def known(self, noise: Noise) -> Averaged:
        return Averaged(self.lower, self.M, self.variance, noise, self.d or len(self.mean))

    @property
    def at_best(self) -> "Seen":
        """As it may still become; no claim rests on it."""
        return replace(self, lower=self.hoped[0], variance=self.hoped[1])

    @property
    def with_twice(self) -> "Seen":
        """As it would about be with twice as many draws; no claim rests on it."""
        return replace(self, lower=self.twice[0], variance=self.twice[1])


@dataclass(frozen=True)
class Reading:
    """How a lower bound of |h| and an upper one of the variance are read off at each of the looks, at a failure of `q` in all."""

    smoothing: Smoothing
    q: float
    seed: int
    dtype: torch.dtype
    d: int = 0  # of the noise, where that is not of the maps' size

    def __call__(self, estimate: Estimate, look: int, indices: Sequence[int]) -> list[Seen]:
        tops: list[float | None] = [None] * len(indices)
        if estimate.scatter is not None:
            draws = Draws(self.seed, tuple(indices))
            tops = [float(top) for top in estimate.scatter.top(draws, SOLVER * self.q / len(self.smoothing.looks))]
        largest, centres, means = estimate.largest.tolist(), estimate.centre.norm(dim=1).tolist(), estimate.mean.cpu()
        found = []
        for j, one in enumerate(estimate.projections()):
            M = largest[j] if self.smoothing.bounded == "sample-max" else one.M
            lower = self._length(one, estimate, j)
            seen = Seen(lower, one.mean_norm, M, one.total, means[j], hoped=(self._hoped(one, lower), inf), d=self.d)
            top = tops[j]
            found.append(seen if top is None else self._varying(seen, top, centres[j] / M, len(one.later), look))
        return found

    def _varying(self, seen: Seen, top: float, centre: float, n: int, look: int) -> Seen:
        """With what n draws about a centre say of the variance; `top` and `centre` are in units of M."""
        R, square, looks = (1 + centre) ** 2, seen.M * seen.M, self.smoothing.looks

        def most(top: float, draws: int, look: int) -> float:
            return square * largest_variance(top, R, draws, self._variance_share(look))

        variance, left = most(top, n, look), looks[-1] - seen.samples
        smaller = max(0.0, top * (1 - 3 * sqrt(2 / max(n, 1))) - R / max(n, 1))
        total = max(0.0, square - seen.lower * seen.lower)
        return replace(
            seen,
            top=square * top,
            variance=variance,
            hoped=(seen.hoped[0], most(smaller, n + left, len(looks) - 1) if left else variance),
            twice=(seen.estimate - (seen.estimate - seen.lower) / sqrt(2), most(top, 2 * n, look)),
            error=mean_error(min(variance, total), total, 2 * seen.M, seen.samples, MEAN * self.q / len(looks)),
        )

    def _hoped(self, one: Projections, lower: float) -> float:
        """What the draws that are left may at best make of the length."""
        left = self.smoothing.looks[-1] - one.total
        return self._lower(one.continued(left)) if left else lower

    def _length(self, one: Projections, estimate: Estimate, j: int) -> float:
        if self.smoothing.confidence == CLT:
            return clt_length(estimate.mean[j], estimate.standard_error[j], self._length_share)
        if self.smoothing.rule == "published":
            return one.mean_norm  # as the paper does; it bounds nothing
        return self._lower(one)

    def _lower(self, one: Projections) -> float:
        return lower_length(CONFIDENCES.make(self.smoothing.confidence), one, self._length_share, self.dtype)

    @property
    def _length_share(self) -> float:
        return LENGTH * self.q if self.smoothing.covariance else self.q

    def _variance_share(self, look: int) -> float:
        whole, others = (1 - LENGTH - MEAN - SOLVER) * self.q, len(self.smoothing.looks) - 1
        if not others:
            return whole
        return LAST * whole if look == others else (1 - LAST) * whole / others
