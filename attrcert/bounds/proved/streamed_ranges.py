"""How far z moves over a ball, from rows of Jacobians at x that are streamed: none is held.

With the slopes at x and rem(t) = s(z+t) - s(z) - s'(z) t, D z_l = t_l obeys t_l = B_l delta + e_l, e_l = sum_{m<l} N_lm rem(t_m), exactly.
The remainders of a neuron lie in [-down, up] over its range, and those of an activation are bounded together (`streamed_rows`), so from the
first layer to the last

    |e_l| <= apart_l,        |t_l| <= |B_l delta| + apart_l.

Rounding: N and B are those of the slopes as they were computed. z and the rows of B are off by local errors that go through N as
remainders do: they are columns of weights too (`streams`). A ball costs a column, so that many balls share the rows.

Departures: `trust` maximises tangent and remainders together, which is closer where the ball is large, and holds B.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import largest_bend, steepest
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.remainders import remainder
from attrcert.bounds.proved.rounding import EPS, FEW
from attrcert.bounds.proved.streamed_rows import Earlier, RowPass, energy_beyond
from attrcert.bounds.proved.streams import SMALLEST, Columns, Streams
from attrcert.vocabulary import NormKind

USUAL, FLAT = 1.5, 1e-3  # times the linear range; the least share of the largest |s''| in a profile
BESIDE = 2  # columns before those of the balls: of the errors of B and of z


@dataclass(frozen=True)
class Moved:
    """Of an activation: |e| <= apart and |t| <= each over the balls, a column each; norms of the rows of B, and at least those that the
    affine operations before it make of earlier ones by moduli; the errors of B in float64, of z and of s'; sum profile e^2 <= beyond.
    """

    apart: Columns
    each: Columns
    rows: Float[Tensor, " n"]
    spread: Float[Tensor, " n"]
    lost: Float[Tensor, " n"]
    off: Float[Tensor, " n"]
    slope_off: Float[Tensor, " n"]
    profile: Float[Tensor, " n"]
    beyond: Float[Tensor, " k"]


def moved_over(
    streams: Streams, values: list[Tensor], straight: dict[int, Float[Tensor, " _"]], reaches: Sequence[Reach]
) -> dict[int, Moved]:
    """By the number of the activation, from the computed values of all steps and about the norms of the rows of B."""
    network, forwards = streams.network, _Forwards(streams, values, straight, reaches)
    given = torch.zeros(1, 1 + BESIDE + len(reaches), network.inputs).to(forwards.radius)
    given[0, 0] = 1.0  # the rows of the identity
    network.magnitude.push(given, forwards.bend, end=max(network.curves))
    return forwards.found


class _Forwards:
    """From the first activation to the last."""

    def __init__(
        self,
        streams: Streams,
        values: list[Tensor],
        straight: dict[int, Float[Tensor, " _"]],
        reaches: Sequence[Reach],
    ) -> None:
        self.streams, self.straight = streams, straight
        self.z = {i: values[streams.network.before(i)].flatten(1) for i in streams.slope}
        self.norm = reaches[0].norm
        self.radius = torch.cat([reach.radius for reach in reaches])
        self.rounded = local_errors(streams.network, values)
        self.found: dict[int, Moved] = {}
        self.earlier: dict[int, Earlier] = {}
        self.least: Tensor | float = 0.0

    def bend(self, i: int, moduli: Tensor) -> Tensor:
        """The rows of B and every column, by moduli from the activations before; returns what goes on."""
        streams, slope = self.streams, self.streams.slope[i][0].abs()
        spread, columns = moduli[0, 0], moduli[0, 1:].mT
        gamma, p = streams.gamma[streams.network.before(i)], self.profile(i)
        self.least = self.least + SMALLEST * columns.sum(dim=0)
        own = 2 * gamma * columns + self.least  # twice: half of up + down, and of up - down
        sums = RowPass(streams, i, self.earlier, own[:, BESIDE:], BESIDE, p).run(self.norm.dual)
        total = own + sums.weights
        apart = total[:, BESIDE:] + sums.apart
        total[:, BESIDE:] += sums.half
        lost = total[:, 0] + gamma * spread
        off, rows = total[:, 1] + self.rounded[i], sums.length + lost
        each = self.radius * rows[:, None] + apart
        bend = largest_bend(streams.network.curve(i), self.z[i], off[None])[0]
        slope_off = bend * off + FEW * EPS * slope
        beyond = torch.full_like(self.radius, torch.inf) if p is None else energy_beyond(sums, self.earlier, p, apart)
        profile = torch.ones_like(rows) if p is None else p
        self.found[i] = Moved(apart, each, rows, spread, lost * streams.exact, off, slope_off, profile, beyond)
        up, down, rise, unsure = self.remainders(i)
        half, signed = (up + down) / 2, (up - down) / 2
        z = (bend * off / 2 + FEW * EPS * slope) * off + slope * self.rounded[i] + self.rounded_curve(i)
        weights = torch.cat([(gamma * slope * spread)[:, None], z[:, None], torch.zeros_like(half)], dim=1)
        energy = torch.full_like(self.radius, torch.inf)
        if p is not None:
            square = sums.gram**0.5 + (p * lost.square()).sum().sqrt()
            steeper = (rise / p[:, None]).amax(dim=0)
            energy = steeper * (self.radius * square + beyond.sqrt()).square() / 2 * (1 + 1e-12) + unsure.sum(dim=0)
        more = 2 * gamma * slope[:, None] * columns
        self.earlier[i] = Earlier(weights + more, half, signed, energy)
        weights[:, BESIDE:] = half
        return torch.cat([(slope * rows)[:, None], slope[:, None] * total + weights], dim=1).mT[None]

    def profile(self, i: int) -> Float[Tensor, " n"] | None:
        """About the largest |s''| over the largest ball, the weights that energies are taken with; None where there are none."""
        network = self.streams.network
        if self.norm.kind is not NormKind.L2:
            return None
        p = largest_bend(network.curve(i), self.z[i], USUAL * self.radius.max() * self.straight[i][None])[0]
        return p.clamp_min(FLAT * float(p.max()) or 1.0)

    def rounded_curve(self, i: int) -> Float[Tensor, " n"]:
        z = self.z[i]
        curve, off = self.streams.network.curve(i), FEW * EPS * z.abs()
        return (steepest(curve, z, off) * off + FEW * EPS * curve.value(z).abs())[0]

    def remainders(self, i: int) -> tuple[Columns, Columns, Columns, Columns]:
        """The largest of either sign and psi, and what the errors of z and s' add to the former."""
        curve, z, known = self.streams.network.curve(i), self.z[i], self.found[i]
        sides = []
        for r in known.each.mT[:, None]:
            found = remainder(curve, z, r)
            unsure = r * (2 * known.slope_off + largest_bend(curve, z, r + known.off) * known.off)
            sides.append(torch.cat([found.up.largest + unsure, found.down.largest + unsure, found.rise, unsure]))
        up, down, rise, unsure = torch.stack(sides, dim=2)
        return up, down, rise, unsure


def local_errors(network: Network, values: list[Tensor]) -> dict[int, Float[Tensor, " _"]]:
    """What the operations since the last activations leave open of each activation's input: the roundings of every one of them."""
    error, found = [EPS * (1 + values[0].abs())], {}  # a point between a baseline and an image has been rounded
    for i, (step, value) in enumerate(zip(network.steps[1:], values[1:], strict=True), 1):
        before = [error[j] for j in step.inputs]
        if step.curve is not None:
            found[i] = before[0].flatten()
            error.append(torch.zeros_like(value))
        elif step.operation is not None:
            sizes = step.magnitude.apply(values[step.inputs[0]].abs()) + value.abs()
            error.append(step.magnitude.apply(before[0]) + (step.terms + FEW) * EPS * sizes + step.lost)
        else:
            error.append(sum(before[1:], before[0]) + FEW * EPS * value.abs())
    return found
