"""Centre smoothing: how far the centre of half of the maps under Gaussian noise can turn within eps [kumar2021center].

Claim. Let G_x be the map at x + sigma n, n standard normal, and d a metric of maps. The centre z(x) is that of k draws of G_x whose
distances to n further draws have the least median. R is the j-th smallest of the distances between z(x) and m more draws of G_x, with

    Delta = sqrt(ln(2 (k + 1) / a1) / 2n),  2^-k <= a1 / 2,   p = Phi(Phi^-1(1/2 + Delta) + eps / sigma),
    j the least with P(Binomial(m, p) >= j) <= a2.

With probability 1 - a2 over the draws at x, for every |delta|_2 <= eps: d(z(x), z(x + delta)) <= 3 R with probability 1 - a1 over the
draws at x + delta, which are drawn afresh.

Proof. The ball B of radius R about z(x) has a mass of at least p at x, but with probability a2: that is when the p-quantile of the
distances is not above R. So at x + delta it has at least 1/2 + Delta (Neyman and Pearson). One of the k draws there is in B, but with
probability 2^-k; the ball of 2 R about it contains B, so half of the n draws are in that (Hoeffding), and the least median is at most 2 R.
Then the ball of 2 R about z(x + delta) has a mass of at least 1/2 - Delta (Hoeffding, for all k at once), and meets B.

Here d is the angle between two maps, at most 180 degrees; a map that is 0 is at 180 degrees from every other. 1 - cosine is above 1 where
3 R is above 90 degrees: that is vacuous, and with the many directions that maps have it nearly always is.

Not claimed: anything of the mean of the maps, which --smooth gaussian certifies; that one draw of the noise serves every delta at once.

Departures: the paper checks the centre on fresh draws and abstains where it fails; a union over the k candidates needs no check. It adds
Hoeffding's slack to p, and takes an interpolated quantile; j is exact. 1 - cosine obeys the triangle inequality only with a factor 2,
which makes 10 R of 3 R; the angle obeys it.
"""

from dataclasses import dataclass
from math import ceil, log, log2, pi, sqrt

import torch
from jaxtyping import Float, Float64, Int64
from scipy.special import ndtr, ndtri
from scipy.stats import binom
from torch import Tensor

from attrcert.attributions.bounded import unit

LEAST_CANDIDATES = 30
FACTOR = 3  # of R
OUTWARDS = 1e-9  # relative: more than the rounding of quantiles, and what makes two masses add up to more than 1
ROUNDING = 1e-7  # radians: of the arc cosine of products that are off by some 1e-15


@dataclass(frozen=True)
class Shares:
    """How many of the draws are candidates, how many choose the centre, and how many measure its distances; half of `q` is a1, half a2."""

    candidates: int
    choosing: int
    measuring: int
    q: float

    @staticmethod
    def of(draws: int, q: float) -> "Shares":
        """Of so many draws in all."""
        k = min(max(LEAST_CANDIDATES, ceil(log2(4 / q))), draws - 2)
        return Shares(k, (draws - k) // 2, draws - k - (draws - k) // 2, q)

    @property
    def slack(self) -> float:
        """Delta."""
        return sqrt(log(4 * (self.candidates + 1) / self.q) / (2 * self.choosing))

    def rank(self, shift: float) -> int | None:
        """j for eps = `shift` sigma, from 1; None where no draw is far enough, or there are too few candidates."""
        half = 0.5 + self.slack * (1 + OUTWARDS)
        if half >= 1 or 2.0**-self.candidates > self.q / 4:
            return None
        p = min(1.0, float(ndtr(float(ndtri(half)) + shift)) * (1 + OUTWARDS))
        j = int(binom.isf(self.q / 2, self.measuring, p)) + 1
        while j <= self.measuring and binom.sf(j - 1, self.measuring, p) > self.q / 2:
            j += 1
        return j if j <= self.measuring else None


def angles(maps: Float[Tensor, "b m n"], centres: Float[Tensor, "b k n"]) -> Float64[Tensor, "b k m"]:
    """Radians between each centre and each map; pi where one of them is 0, and 0 where both are."""
    found = torch.einsum("bkn,bmn->bkm", unit(centres), unit(maps)).clamp(-1, 1).arccos()
    still, gone = ((part == 0).all(dim=2) for part in (centres, maps))
    found = torch.where(still[:, :, None] | gone[:, None], pi, found)
    return torch.where(still[:, :, None] & gone[:, None], 0.0, found)


def chosen(distances: Float64[Tensor, "b k n"]) -> Int64[Tensor, " b"]:
    """The candidate of each sample that has half of the draws within the least distance."""
    return distances.kthvalue(ceil(distances.shape[2] / 2), dim=2).values.argmin(dim=1)


def largest_angle(distances: Float64[Tensor, " m"], shares: Shares, shift: float) -> float | None:
    """3 R in radians; None where that is pi or more, so that nothing follows."""
    rank = shares.rank(shift)
    if rank is None:
        return None
    found = FACTOR * (float(distances.kthvalue(rank).values) + ROUNDING)
    return found if found < pi else None
