"""tau(eps), the total variation between the noise at x and at x + delta, |delta|_2 = eps, and its inverse [wang2024certified].

Uniform on the ball of radius r in d dimensions: tau = I_{(eps/2r)^2}(1/2, (d+1)/2), the regularised incomplete beta
function, and 1 from eps = 2r on. Gaussian of standard deviation sigma: tau = 2 Phi(eps / 2 sigma) - 1.

Departures: the paper writes 1 - I_{1-(eps/2r)^2}((d+1)/2, 1/2), which cancels: at tau <= 1e-8 its inverse has no
digit left. The form here was within 1e-12 of 40-digit arithmetic for d = 1 to 10^6. The Gaussian law is not in the paper.
"""

from dataclasses import dataclass
from math import erf, inf, sqrt
from typing import Protocol

from scipy.special import betainc, betaincinv, erfinv

OUTWARDS = 1e-12  # relative, towards the weaker claim: tau is rounded up and eps down


class Noise(Protocol):
    """A noise law whose shifted copies overlap by a known amount."""

    def tau(self, eps: float, d: int) -> float: ...
    def eps(self, tau: float, d: int) -> float: ...


@dataclass(frozen=True)
class UniformBall:
    """Uniform in the l2 ball of `radius`."""

    radius: float

    def tau(self, eps: float, d: int) -> float:
        """An upper bound of the total variation at distance eps."""
        if eps >= 2 * self.radius:
            return 1.0
        return min(1.0, float(betainc(0.5, (d + 1) / 2, (eps / (2 * self.radius)) ** 2)) * (1 + OUTWARDS))

    def eps(self, tau: float, d: int) -> float:
        """A lower bound of the largest distance with that total variation; infinite from tau = 1 on."""
        if tau >= 1:
            return inf
        return 2 * self.radius * sqrt(float(betaincinv(0.5, (d + 1) / 2, max(tau, 0.0)))) * (1 - OUTWARDS)


@dataclass(frozen=True)
class Gaussian:
    """Independent normal numbers of standard deviation `sigma`."""

    sigma: float

    def tau(self, eps: float, d: int) -> float:
        """The same; it does not depend on the dimension."""
        return min(1.0, erf(eps / (2 * sqrt(2) * self.sigma)) * (1 + OUTWARDS))

    def eps(self, tau: float, d: int) -> float:
        if tau >= 1:
            return inf
        return 2 * sqrt(2) * self.sigma * float(erfinv(max(tau, 0.0))) * (1 - OUTWARDS)
