"""Lower confidence bounds of |h|, h the mean of vectors X_i with |X_i| <= M: `betting` and others.

All are one-sided at failure q. What they see of the vectors are projections Y_i = <X_i, u_i> on unit vectors u_i that
earlier vectors fixed: E[Y_i | past] = <h, u_i> <= |h|.

`betting` [waudbysmith2024estimating]: Z = (Y + M) / 2M in [0, 1]. For m >= (|h| + M) / 2M the capital
K_t(m) = prod_i (1 + min(lambda_i, cap/m) (Z_i - m)) is a non-negative supermartingale, so P(max_t K_t(m) >= 1/q) <= q
(Ville). It falls with m: the largest m with max_t K_t(m) >= 1/q bounds |h| from below, at any stopping time. lambda_i
depends on the past alone.

The plug-in |mean X_i| is biased upwards and bounds nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from typing import Protocol

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

CAP = 0.9  # the share of the capital that may be lost in one bet; any value below 1 is valid
PRIOR_WEIGHT = 50.0  # draws that the pilot's mean and variance count for, at most
LEAST_VARIANCE = 2.5e-7  # of Z: a pilot without spread must not bet everything
BISECTIONS = 60


@dataclass(frozen=True)
class Projections:
    """Of one sample: `pilot` and `later` projections in their order, |mean of all X|, M, for how many bets each of all that may come is
    planned, and how many X there were.
    """

    pilot: Float64[ndarray, " pilot"]
    later: Float64[ndarray, " later"]
    mean_norm: float
    M: float
    horizons: Float64[ndarray, " most"]
    total: int

    def continued(self, draws: int) -> "Projections":
        """As if `draws` more came, each as long as can be hoped for: three standard errors above |mean of all X| or the mean of the
        later projections, and M at most.

        Not a bound: it decides when to stop, and no claim rests on it.
        """
        later, hoped = self.later, self.M
        if len(later):
            hoped = min(self.M, max(self.mean_norm, float(later.mean())) + 3 * float(later.std()) / sqrt(len(later)))
        more = np.full(draws, hoped)
        return replace(self, later=np.concatenate([self.later, more]), total=self.total + draws)


class Confidence(Protocol):
    """A lower bound of |h| that fails with probability at most q."""

    def __call__(self, seen: Projections, q: float) -> float: ...


@dataclass(frozen=True)
class Betting:
    """Bets that the projections' mean is larger, and what their capital refutes; valid whenever one stops [waudbysmith2024estimating]."""

    cap: float = CAP

    def __call__(self, seen: Projections, q: float) -> float:
        if not len(seen.later):
            return 0.0
        Z = (seen.later + seen.M) / (2 * seen.M)
        prior = (seen.pilot + seen.M) / (2 * seen.M)
        mean, variance = (float(prior.mean()), float(prior.var())) if len(prior) > 1 else (0.5, 0.25)
        bets = lambdas(
            Z,
            q,
            horizons=seen.horizons[: len(Z)],
            mean=mean,
            variance=max(variance, LEAST_VARIANCE),
            weight=max(1.0, min(len(prior), PRIOR_WEIGHT)),
        )
        return max(0.0, seen.M * (2 * largest_mean(Z, bets, q, cap=self.cap) - 1))


def lambdas(
    Z: Float64[ndarray, " n"],
    q: float,
    *,
    horizons: Float64[ndarray, " n"],
    mean: float,
    variance: float,
    weight: float,
) -> Float64[ndarray, " n"]:
    """The bets: sqrt(2 ln(1/q) / (horizon s^2)), s^2 the variance that the prior and the earlier Z give."""
    t = np.arange(1, len(Z) + 1)
    means = (weight * mean + np.cumsum(Z)) / (weight + t)
    spread = (weight * variance + np.cumsum((Z - means) ** 2)) / (weight + t)
    before = np.concatenate([[variance], spread[:-1]])
    return np.sqrt(2 * log(1 / q) / (horizons * before))


def largest_mean(Z: Float64[ndarray, " n"], bets: Float64[ndarray, " n"], q: float, *, cap: float) -> float:
    """The largest m in [0, 1] whose capital reached 1/q, from below; 0 where none did."""

    def reached(m: float) -> bool:
        capital = np.cumsum(np.log1p(np.minimum(bets, cap / m) * (Z - m)))
        return float(capital.max()) >= log(1 / q)

    low, high = 1e-12, 1.0
    if not reached(low):
        return 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class EmpiricalBernstein:
    """mean - sqrt(2 V ln(2/q) / n) - 14 M ln(2/q) / 3(n-1) of projections on one direction [maurer2009empirical].

    The number of draws must be fixed in advance.
    """

    def __call__(self, seen: Projections, q: float) -> float:
        Y, n = seen.later, len(seen.later)
        if n < 2:
            return 0.0
        spread = sqrt(2 * float(Y.var(ddof=1)) * log(2 / q) / n)
        return max(0.0, float(Y.mean()) - spread - 14 * seen.M * log(2 / q) / (3 * (n - 1)))


@dataclass(frozen=True)
class McDiarmid:
    """L = |mean| - M sqrt(2 ln(1/q) / N), then sqrt((L^2 - M^2/N) / (1 - 1/N)). The number of draws must be fixed in advance."""

    def __call__(self, seen: Projections, q: float) -> float:
        N, M = seen.total, seen.M
        L = seen.mean_norm - M * sqrt(2 * log(1 / q) / N) if N else 0.0
        return sqrt(max(0.0, L * L - M * M / N) / (1 - 1 / N)) if L > 0 and N > 1 else 0.0


def bets_planned(looks: Sequence[int], pilot: int, piloted: int) -> Float64[ndarray, " most"]:
    """For each draw after the first `piloted`: the bets until the look that it comes before, of a pilot that was to have `pilot` draws."""
    draws = np.arange(piloted + 1, max(looks[-1], piloted) + 1)
    ends = np.array(looks)[np.minimum(np.searchsorted(looks, draws), len(looks) - 1)]
    return np.maximum(1.0, ends - float(pilot))


def pilot_size(draws: int) -> int:
    """A tenth, and two at least."""
    return max(2, ceil(0.1 * draws))
