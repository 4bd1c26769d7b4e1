"""How fast the gradient of a Gaussian-smoothed bounded function can change, anywhere [wang2020smoothed, sharpened].

Let |f| <= F everywhere and g(x) = grad E f(x + eta), eta normal of standard deviation sigma. Then for every x and d

    |g(x + d) - g(x)|_2 <= (F / sigma) min(4 phi(1) |d|_2 / sigma, 2 sqrt(2/pi)),   4 phi(1) = 0.9678828981.

Proved for the exact expectation; F must bound f itself (probabilities are, logits are not). For lo <= f <= hi take F = (hi - lo) / 2: a
constant does not change the gradient.

Departures: the paper's constant is 2 where 4 phi(1) = E|u^2 - 1| is enough.
"""

from dataclasses import dataclass
from math import exp, inf, pi, sqrt

SLOPE = 4 * exp(-0.5) / sqrt(2 * pi)
MOST = 2 * sqrt(2 / pi)
BELOW = 1e-12  # relative, towards the weaker claim


@dataclass(frozen=True)
class SmoothGradLipschitz:
    """The bound above for |f| <= `F` and noise `sigma`."""

    F: float
    sigma: float

    def deviation(self, eps: float) -> float:
        """An upper bound of the deviation within eps."""
        return self.F / self.sigma * min(SLOPE * eps / self.sigma, MOST) * (1 + BELOW)

    def largest_eps(self, deviation: float) -> float:
        """The largest eps whose bound is at most that deviation; infinite where no perturbation can exceed it."""
        if deviation >= self.F / self.sigma * MOST * (1 + BELOW):
            return inf
        return deviation * self.sigma**2 / (self.F * SLOPE) * (1 - 2 * BELOW)
