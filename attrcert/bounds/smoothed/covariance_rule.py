"""The rules that know the variance of what is averaged: `moments`, and `auto`, the better of it and `tight`."""

from dataclasses import dataclass
from math import sqrt

from attrcert.bounds.smoothed import ball_moments, moments
from attrcert.bounds.smoothed.averaged import Averaged
from attrcert.bounds.smoothed.cosine_bounds import BELOW, Tight
from attrcert.bounds.smoothed.noise_overlap import Gaussian
from attrcert.vocabulary import Guarantee


@dataclass(frozen=True)
class Moments:
    """From |h|, M and the largest variance: for Gaussian noise the best that they allow, for a ball a weaker form."""

    guarantee: Guarantee = Guarantee.CONFIDENCE
    covariance: bool = True

    def kept(self, known: Averaged, eps: float) -> float | None:
        variance, noise = known.largest_variance, known.noise
        if isinstance(noise, Gaussian):
            sine = moments.largest_angle_sine(eps / noise.sigma * (1 + BELOW), known.C, variance, known.M)
        else:
            sine = ball_moments.largest_angle_sine(noise.tau(eps, known.d), known.C, variance, known.M)
        return None if sine is None else sqrt((1 - sine) * (1 + sine)) * (1 - BELOW)

    def reach(self, known: Averaged, T: float) -> float:
        variance, noise = known.largest_variance, known.noise
        T = min(1.0, T + 10 * BELOW / T)  # so that the cosine at that eps is not below T after its own rounding
        sine = sqrt((1 - T) * (1 + T))
        if isinstance(noise, Gaussian):
            return moments.largest_shift(known.C, variance, known.M, sine) * noise.sigma * (1 - 4 * BELOW)
        return noise.eps(ball_moments.largest_overlap(known.C, variance, known.M, sine), known.d)


@dataclass(frozen=True)
class Best:
    """The better of `moments` and `tight`, which hold together: both rest on the same bound of |h|."""

    guarantee: Guarantee = Guarantee.CONFIDENCE
    covariance: bool = True

    def kept(self, known: Averaged, eps: float) -> float | None:
        return max((rule.kept(known, eps) for rule in RIVALS.values()), key=_worth)

    def reach(self, known: Averaged, T: float) -> float:
        return max(rule.reach(known, T) for rule in RIVALS.values())


def deviation(known: Averaged, eps: float) -> float:
    """An upper bound of |h(x + delta) - h(x)| within eps: 2 M tau, and for Gaussian noise K(s, lambda, 2 M), as no Z is larger."""
    by_overlap = 2 * known.M * known.noise.tau(eps, known.d)
    if not isinstance(known.noise, Gaussian):
        return by_overlap
    s = eps / known.noise.sigma * (1 + BELOW)
    return min(by_overlap, moments.most_moved(s, known.largest_variance, 2 * known.M))


def winner(known: Averaged, eps: float) -> str:
    """Which of the rules that `auto` takes keeps more at eps."""
    return max(RIVALS, key=lambda name: _worth(RIVALS[name].kept(known, eps)))


def _worth(cosine: float | None) -> float:
    return -1.0 if cosine is None else cosine


RIVALS: dict[str, Moments | Tight] = {"moments": Moments(), "tight": Tight()}
