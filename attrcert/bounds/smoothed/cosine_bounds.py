"""Least cosine between smoothed attributions h(x) and h(x + delta), given |h(x)| = C, |g| <= M and tau [wang2024certified].

h(x) = R1 + R2 and h(x + delta) = R2 + R3 with |R1|, |R3| <= M tau and |R2| <= M (1 - tau): the parts of the noise that are
at x only, at both, at x + delta only. With c = C/M <= 1 the largest angle between such sums is

    vacuous                          where c <= 2 tau
    asin(2 tau / c)                  where c^2 <= (1 - tau)^2 + 3 tau^2
    phi + asin(u)                    otherwise: u = tau/(1-tau), phi = 2 asin sqrt(om/2),
                                     om = (1-c)(2 tau - (1-c)) / (2 c (1-tau))

It rises with tau and falls with c, so an upper bound of tau and a lower bound of c are sound to put in. It is attained by some g bounded by
M: from (c, tau) alone nothing better follows.

Departures: the published cosine, C / sqrt(C^2 + (2 M tau)^2), minimises at a right angle where the minimum is elsewhere,
and is false: a network of four ReLUs breaks it. It is here for comparison, and is never called a certificate.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from attrcert.bounds.smoothed.averaged import Averaged
from attrcert.vocabulary import Guarantee

BELOW = 1e-12  # relative, towards the weaker claim
ULPS = 1e-15  # relative: more than the roundings of a product of a few factors


class ByOverlap(ABC):
    """A lower bound of the cosine from c = C/M and tau, and the largest tau that a threshold T in (0, 1) allows."""

    covariance: ClassVar[bool] = False

    @abstractmethod
    def cosine(self, c: float, tau: float) -> float | None:
        """None where nothing follows."""

    @abstractmethod
    def largest_tau(self, c: float, T: float) -> float: ...

    def kept(self, known: Averaged, eps: float) -> float | None:
        return self.cosine(known.c, known.noise.tau(eps, known.d))

    def reach(self, known: Averaged, T: float) -> float:
        return known.noise.eps(self.largest_tau(known.c, T), known.d)


@dataclass(frozen=True)
class Tight(ByOverlap):
    """The largest angle that c and tau allow: valid, and attained by some bounded attribution."""

    guarantee: Guarantee = Guarantee.CONFIDENCE

    def cosine(self, c: float, tau: float) -> float | None:
        if c <= 2 * tau:
            return None
        if _far(c, tau):
            return _tangent(c, tau)
        # cos(phi + asin u) with cos(phi) = 1 - om and cos(asin u) = sqrt(1 - 2 tau) / (1 - tau): no digit is lost near a right
        # angle but in the difference, whose parts are rounded towards the weaker claim
        om = max(0.0, (1 - c) * (2 * tau - (1 - c)) / (2 * c * (1 - tau)) * (1 + ULPS))
        difference = (1 - om) * sqrt(1 - 2 * tau) * (1 - ULPS) - tau * sqrt(om * (2 - om)) * (1 + ULPS)
        return max(0.0, difference / (1 - tau) * (1 - BELOW))

    def largest_tau(self, c: float, T: float) -> float:
        T = _above(T)
        s = sqrt(1 - T * T)
        t = c * s / 2
        if _far(c, t):
            return t * (1 - BELOW)
        p, q = (1 + c * c) / (2 * c), (1 - c * c) / (2 * c)
        u = (p * (q + s) - T * sqrt(2 * q * s)) / (p * p + 2 * q * s)
        return u / (1 + u) * (1 - BELOW)


@dataclass(frozen=True)
class Tangent(ByOverlap):
    """sqrt(1 - (2 tau / c)^2): valid, and up to twice the angle of `tight`."""

    guarantee: Guarantee = Guarantee.CONFIDENCE

    def cosine(self, c: float, tau: float) -> float | None:
        return None if c <= 2 * tau else _tangent(c, tau)

    def largest_tau(self, c: float, T: float) -> float:
        return c * sqrt(1 - _above(T) ** 2) / 2 * (1 - BELOW)


@dataclass(frozen=True)
class Published(ByOverlap):
    """c / sqrt(c^2 + (2 tau)^2): false, for comparison only. Not a certificate."""

    guarantee: Guarantee = Guarantee.EMPIRICAL

    def cosine(self, c: float, tau: float) -> float | None:
        return None if c <= 0 else c / sqrt(c * c + 4 * tau * tau)

    def largest_tau(self, c: float, T: float) -> float:
        return c / 2 * sqrt(1 / (T * T) - 1)


def _above(T: float) -> float:
    """A little more than T, so that the cosine at the largest tau is not below T after its own rounding."""
    return min(1.0, T * (1 + 2 * BELOW))


def _tangent(c: float, tau: float) -> float:
    """sqrt(1 - x^2), x = 2 tau / c < 1, from below though x is close to 1."""
    x = min(1.0, 2 * tau / c * (1 + ULPS))
    return sqrt((1 - x) * (1 + x)) * (1 - BELOW)


def _far(c: float, tau: float) -> bool:
    """Where the middle part R2 is not held back by its own bound; in doubt it is not, which is the weaker claim."""
    return c * c <= ((1 - tau) ** 2 + 3 * tau * tau) * (1 + ULPS)
