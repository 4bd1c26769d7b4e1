"""Maps certified pixel by pixel: which stay among the largest K percent, and which stay outside [anani2025pixel].

Each draw g(x + sigma n) marks the largest K percent of its pixels, by |g| summed over channels. A pixel that a draw marks (or leaves out)
with probability above p0 >= 1/2 is on that side for more than half of the noise at every x + delta with |delta|_2 <= sigma Phi^-1(p0).
Whether it is so is tested exactly by the count of the draws that marked it. All tests of a map, two for each pixel, hold together with
probability 1 - q: half of q for Holm's step-down at p0, half for lower bounds of the probabilities, from which each pixel's radius
follows. What neither test decides is abstained from. Only g is evaluated, so any attribution will do.

Not claimed: that the class stays, or that a single draw at x + delta marks the pixel.

Departures: Holm's step-down never decides less than the paper's Bonferroni; the radius of each pixel is its own.
"""

from dataclasses import dataclass
from math import ceil, log

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from scipy.special import ndtri
from scipy.stats import beta, binom
from torch import Tensor

from attrcert.vocabulary import Side

INWARDS = 1e-9  # relative: more than rounding of quantiles and radii, towards the weaker claim


def number_marked(pixels: int, share: float) -> int:
    """How many are the largest K percent."""
    return max(1, round(share * pixels))


class Marks:
    """How often each pixel was among the largest, for several maps that are drawn together."""

    def __init__(self, maps: int, pixels: int, share: float) -> None:
        self.marked = number_marked(pixels, share)
        self.counts = torch.zeros(maps, pixels, dtype=torch.int64)
        self.draws = 0

    def add(self, g: Float[Tensor, "b m n"]) -> None:
        """The attributions at m more draws, channel after channel.

        The marks must be a function of g alone: of equal pixels the first are marked. Those without mass, or without a number, are not.
        """
        pixels = self.counts.shape[1]
        mass = torch.nan_to_num(g.unflatten(2, (-1, pixels)).abs().sum(dim=2), nan=0.0)
        least = mass.kthvalue(pixels - self.marked + 1, dim=2, keepdim=True).values
        above, equal = mass > least, mass == least
        first = equal.cumsum(dim=2) <= self.marked - above.sum(dim=2, keepdim=True)
        self.counts += ((above | (equal & first)) & (mass > 0)).sum(dim=1).cpu()
        self.draws += g.shape[1]


@dataclass(frozen=True)
class PixelSides:
    """Of one map: the side of each pixel, and the l2 radius within which it stays there, 0 where it is not decided."""

    side: Int64[ndarray, " p"]
    radius: Float64[ndarray, " p"]


def certified_pixels(counts: Int64[ndarray, " p"], draws: int, *, sigma: float, q: float, level: float) -> PixelSides:
    """What the counts of `draws` draws decide, at failure q for all pixels together; `level` is p0."""
    often = np.stack([counts, draws - counts])  # that a pixel was marked, and that it was not
    rejected = holm(binom.sf(often - 1, draws, level).ravel(), q / 2).reshape(often.shape)
    lower = beta.ppf(q / 2 / often.size, np.maximum(often, 1), draws - often + 1)
    radius = np.maximum(sigma * ndtri(lower) * (1 - INWARDS), common_radius(sigma, level))
    side = np.where(rejected[0], Side.TOP, np.where(rejected[1], Side.NOT_TOP, Side.ABSTAINED))
    return PixelSides(side, np.where(rejected, radius, 0.0).max(axis=0))


def common_radius(sigma: float, level: float) -> float:
    """What every certified pixel has at least."""
    return float(sigma * ndtri(level) * (1 - INWARDS))


def least_draws(pixels: int, *, q: float, level: float) -> int:
    """As many as can decide any pixel of a map: all of them on one side, at Holm's first step."""
    return ceil(log(q / 2 / (2 * pixels)) / log(level))


def holm(p: Float64[ndarray, " tests"], q: float) -> ndarray:
    """Which hypotheses are rejected: the smallest p-value against q over their number, the next over one less, to the first failure."""
    order = p.argsort()
    passed = p[order] <= q / np.arange(len(p), 0, -1)
    rejected = np.zeros(len(p), dtype=bool)
    rejected[order[: len(p) if passed.all() else int(passed.argmin())]] = True
    return rejected
