"""What a curve has beyond its tangent, rem(t) = s(z+t) - s(z) - s'(z) t over |t| <= r, held below a constant and a square.

For either sign and every theta in [0, 1]

    +-rem(t) <= A(theta) + theta psi t^2 / 2,    psi >= sup +-2 rem(t) / t^2,    A(theta) >= sup (+-rem(t) - theta psi t^2 / 2).

Both suprema are taken over cells. On a cell [a, b] a function h with h'' >= -c is at most max(h(a), h(b)) + c (b - a)^2 / 8, and rem'' is
s'' itself, whose range over a cell is that of its ends and of the critical points inside. In the innermost cell, and wherever it is
smaller, 2 rem / t^2 is taken as what it is: a mean of s'' between z and z + t. Nothing is sampled.

Notation: `rise` is psi, `excess` is A, `largest` is A(0).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import CANCELLATION, Curve, Vector, extent, steepest

CELLS, RATIO = 20, 1.25  # on either side, each so much longer than the one before it


@dataclass(frozen=True)
class OneSided:
    """Of one sign: the nodes of the cells, the remainder there, and the least and largest s'' of each cell."""

    t: Float[Tensor, "b n _ _"]
    value: Float[Tensor, "b n _ _"]
    flattest: Float[Tensor, "b n _ _"]
    rise: Vector

    @property
    def largest(self) -> Vector:
        """The largest remainder, A(0)."""
        return self.excess(0.0)

    def excess(self, theta: float) -> Vector:
        """A(theta)."""
        if theta == 1:
            return torch.zeros_like(self.rise)
        square = theta * self.rise[:, :, None, None]
        h = self.value - square * self.t.square() / 2
        width = self.t[..., 1:] - self.t[..., :-1]
        between = (square - self.flattest).clamp_min(0) * width.square() / 8
        cells = torch.maximum(h[..., 1:], h[..., :-1]) + between
        below = (1 - theta) * self.rise[:, :, None, None] * self.t[..., 1:].square() / 2  # as rem <= psi t^2 / 2
        return torch.minimum(cells, below).amax(dim=(2, 3)).clamp_min(0)


@dataclass(frozen=True)
class Remainder:
    """Of every neuron, for both signs."""

    up: OneSided
    down: OneSided

    @property
    def rise(self) -> Vector:
        """psi of the modulus."""
        return torch.maximum(self.up.rise, self.down.rise)


def remainder(curve: Curve, z: Vector, r: Vector) -> Remainder:
    """At z as it was computed; what the error of z adds is for the caller."""
    share = RATIO ** -torch.arange(CELLS - 1, -1, -1, dtype=z.dtype, device=z.device)
    t = torch.cat([torch.zeros_like(share[:1]), share]) * r[:, :, None, None]
    signed = t * torch.tensor([[1.0], [-1.0]], dtype=z.dtype, device=z.device)
    at, s, slope = z[:, :, None, None], curve.value(z)[:, :, None, None], curve.slope(z)[:, :, None, None]
    far = at + signed
    there = curve.value(far)
    value = there - s - slope * signed
    steep = (steepest(curve, z, r) + torch.zeros_like(z))[:, :, None, None]
    blur = CANCELLATION * (there.abs() + s.abs() + slope.abs() * t + steep * (t + at.abs()))
    blur = torch.where(t == 0, 0.0, blur)
    moved = CANCELLATION * (at.abs() + t)
    inner, outer = far[..., :-1], far[..., 1:]
    cells = extent(
        curve.bend,
        curve.flexes,
        torch.minimum(inner - moved[..., :-1], outer - moved[..., 1:]),
        torch.maximum(inner + moved[..., :-1], outer + moved[..., 1:]),
    )
    return Remainder(_side(t, value + blur, cells.low, cells.high), _side(t, blur - value, -cells.high, -cells.low))


def _side(t: Tensor, value: Tensor, flattest: Tensor, steepest: Tensor) -> OneSided:
    """psi is that of the nodes, and what the cells between them may have beyond it."""
    means = torch.cummax(steepest, dim=-1).values  # 2 rem / t^2 is a mean of s'' up to t
    ends = torch.minimum((2 * value[..., 1:] / t[..., 1:].square()).nan_to_num(torch.inf, torch.inf), means)
    first = means[..., :1].amax(dim=2, keepdim=True)
    most = torch.maximum(ends.amax(dim=(2, 3), keepdim=True), first).clamp_min(0)
    inner, width = t[..., 1:-1], t[..., 2:] - t[..., 1:-1]
    beyond = (most - flattest[..., 1:]).clamp_min(0) * (width / torch.where(inner > 0, inner, torch.inf)).square() / 4
    rise = torch.minimum(
        most + beyond.amax(dim=(2, 3), keepdim=True), means.amax(dim=(2, 3), keepdim=True).clamp_min(0)
    )
    return OneSided(t, value, flattest, rise[:, :, 0, 0])
