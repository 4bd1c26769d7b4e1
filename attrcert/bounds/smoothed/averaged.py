"""What is known of a smoothed attribution h(x) = E g(x + eta), from which a rule makes a cosine."""

from dataclasses import dataclass
from typing import Protocol

from attrcert.bounds.smoothed.noise_overlap import Noise
from attrcert.vocabulary import Guarantee


@dataclass(frozen=True)
class Averaged:
    """C <= |h(x)|, |g| <= M, and `variance` >= the variance of g in any direction, of noise in d dimensions."""

    C: float
    M: float
    variance: float
    noise: Noise
    d: int

    @property
    def c(self) -> float:
        return min(1.0, self.C / self.M) if self.M > 0 else 0.0

    @property
    def largest_variance(self) -> float:
        """The variances in all directions add up to E|g|^2 - |h|^2 <= M^2 - C^2."""
        return max(0.0, min(self.variance, (self.M - self.C) * (self.M + self.C) * (1 + 1e-12)))


class CosineRule(Protocol):
    """The cosine kept within eps, None where nothing follows, and the largest eps at which a cosine T in (0, 1) is kept.

    `covariance` says whether the variance of g is used, and must be bounded.
    """

    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def covariance(self) -> bool: ...
    def kept(self, known: Averaged, eps: float) -> float | None: ...
    def reach(self, known: Averaged, T: float) -> float: ...
