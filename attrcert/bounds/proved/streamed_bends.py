"""How far the sensitivities F move over a ball, and what is left of the gradient's change, from streamed rows of Jacobians at x.

With D s'(z_l) = kappa_l t_l, q_l = kappa_l F_l(x'), t_l = B_l delta + e_l (`streamed_ranges`) and any c_l near q_l, from the last layer to
the first

    D F_m = sum_{l>m} N_lm^T (q_l t_l + ds_l D F_l) = U_m delta + sum_{l>m} N_lm^T (c_l e_l + (q_l - c_l) t_l + ds_l D F_l),

U_m = sum_{l>m} N_lm^T diag(c_l) B_l. At the input the same sum is D grad f, and U is M. c_l is s''(z) F_l at x, the same for every ball;
ds_l is what rounding leaves open of s'(z_l). Both sides are bounded entry by entry.

Rounding: F and U are off by local errors that go through N too: columns of weights, as in `streams`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import Range, bends, secants
from attrcert.bounds.proved.network import Carried
from attrcert.bounds.proved.point import Point
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.rounding import EPS, FEW
from attrcert.bounds.proved.streamed_ranges import BESIDE, Moved
from attrcert.bounds.proved.streams import SMALLEST, Columns, Streams
from attrcert.bounds.proved.sweeps import Curvature


@dataclass(frozen=True)
class Bent:
    """Of an activation over the balls, a column each: |q - c| <= radius, |rem| <= loose |t|, |ds D F| <= unsure; norms of the rows of U,
    and its error in float64.
    """

    radius: Columns
    loose: Columns
    unsure: Columns
    rows: Float[Tensor, " n"]
    lost: Float[Tensor, " n"]


@dataclass(frozen=True)
class Bends:
    """By the number of the activation; `each` bounds the entries of D grad f, a column for a ball, `off` is the error of grad f."""

    found: dict[int, Bent]
    each: Columns
    off: Float[Tensor, " d"]


def bends_over(
    streams: Streams, point: Point, curvature: Curvature, moved: dict[int, Moved], reaches: Sequence[Reach]
) -> Bends:
    """From the ranges of z and what U, M and F are at x; the doubts of `point` are not used."""
    backwards = _Backwards(streams, point, curvature, moved, reaches)
    network = streams.network
    last = len(network.steps) - 1
    given = torch.zeros(1, BESIDE + len(reaches), network.steps[last].size).to(backwards.radius)
    given[0, 1] = streams.gamma[last] * streams.exact * point.explained[0]
    chained = network.magnitude.pull(last, Carried(given), backwards.bend)
    assert chained is not None
    total = backwards.into[0] + chained.centre[0].mT
    rows = curvature.rows + total[:, 0]
    return Bends(backwards.found, backwards.radius * rows[:, None] + total[:, BESIDE:], total[:, 1])


class _Backwards:
    """From the last activation to the first."""

    def __init__(
        self, streams: Streams, point: Point, curvature: Curvature, moved: dict[int, Moved], reaches: Sequence[Reach]
    ) -> None:
        self.streams, self.point, self.curvature, self.moved = streams, point, curvature, moved
        self.radius = torch.cat([reach.radius for reach in reaches])
        sizes = {0: streams.network.inputs} | {i: part.shape[1] for i, part in point.z.items()}
        self.into = {i: self.radius.new_zeros(n, BESIDE + len(reaches)) for i, n in sizes.items()}
        self.found: dict[int, Bent] = {}

    def bend(self, i: int, carried: Carried | None) -> Carried:
        """Local errors of the layers behind an activation, at its result; returns what those before it get."""
        streams, moved, c = self.streams, self.moved[i], self.curvature.c[i][0].abs()
        slope, F = streams.slope[i][0].abs(), self.point.F[i][0].abs()
        local = torch.zeros_like(self.into[i]) if carried is None else carried.centre[0].mT
        total = self.into[i] + local
        rows = self.curvature.turned[i] + total[:, 0]
        turned = self.radius * rows[:, None] + total[:, BESIDE:]
        unsure = moved.slope_off[:, None] * turned
        radius, loose = self.over(i, turned, total[:, 1])
        self.found[i] = Bent(radius, loose, unsure, rows, total[:, 0])
        balls = c[:, None] * moved.apart + radius * moved.each + unsure
        weights = torch.cat([(c * moved.lost)[:, None], (moved.slope_off * (F + total[:, 1]))[:, None], balls], dim=1)
        weights = weights + slope[:, None] * local
        before = self.into[i]
        streams.scatter(i, weights, self.into)
        gamma = streams.gamma[streams.network.before(i)]
        chained = gamma * (slope[:, None] * before + weights) + SMALLEST * weights.sum(dim=0)
        chained[:, 0] += gamma * streams.exact * self.curvature.carried[i]
        chained[:, 1] += gamma * streams.exact * slope * F
        return Carried(chained.mT[None])

    def over(self, i: int, turned: Columns, off: Float[Tensor, " n"]) -> tuple[Columns, Columns]:
        """How far q is from c, and secants from the slope at x."""
        curve, z, slope = self.streams.network.curve(i), self.point.z[i], self.streams.slope[i]
        F, c, moved = self.point.F[i], self.curvature.c[i], self.moved[i]
        inexact = moved.off[None]
        found = []
        for r, away in zip(moved.each.mT[:, None], turned.mT[:, None], strict=True):
            q = bends(curve, z, r, inexact) * Range(F - away - off, F + away + off)
            sigma = secants(curve, z, r, inexact)
            radius = torch.maximum(q.high - c, c - q.low) + FEW * EPS * (c.abs() + q.largest)
            loose = torch.maximum(sigma.high - slope, slope - sigma.low) + FEW * EPS * slope.abs()
            found.append(torch.cat([radius, loose]))
        radii, looses = torch.stack(found, dim=2)
        return radii, looses
