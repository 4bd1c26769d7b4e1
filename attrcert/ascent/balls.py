"""Norm balls cut by a box: Euclidean projection, steepest steps, random points.

Projection. Onto |d|_inf <= eps and low <= d <= high it is a clip. Onto |d|_2 <= eps and the box the optimality
conditions give d = clip(s z, low, high) with one s in [0, 1] per row, the largest for which |d|_2 <= eps. In u = s^2,
|d|_2^2 is concave, increasing and piecewise linear, so Newton's iteration from the left rises to the root, never passes it and
ends after finitely many steps; wherever it stops, the point is inside.
"""

from dataclasses import dataclass, replace
from math import sqrt

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.types import PIXELS, Box
from attrcert.vocabulary import Norm, NormKind

NEWTON_STEPS = 12  # breakpoints passed on the way are few: 3 to 6 steps suffice on images


def on_sphere(normals: Float[Tensor, "*batch n"], norm: Norm) -> Float[Tensor, "*batch n"]:
    """Normal vectors moved onto the norm's unit sphere; for linf to its corners, where maps move most."""
    return normals.sign() if norm.kind is NormKind.LINF else normals / normals.norm(p=norm.p, dim=-1, keepdim=True)


@dataclass(frozen=True)
class Ball:
    """For each row the d with |d|_p <= eps (p = 2 or infinity) and low <= d <= high; low <= 0 <= high."""

    norm: Norm
    eps: float
    low: Float[Tensor, "b n"]
    high: Float[Tensor, "b n"]

    @staticmethod
    def around(x: Float[Tensor, "b *shape"], norm: Norm, eps: float, within: Box = PIXELS) -> "Ball":
        """Perturbations that keep x within its range; no feature can move by more than that is wide."""
        flat = x.flatten(1)
        low, high = (end.to(flat) - flat for end in (within.low, within.high))
        # x itself stays inside where rounding has moved it or an end
        ball = Ball(norm, eps, low.clamp_max(0), high.clamp_min(0))
        return replace(ball, eps=min(eps, within.widest)) if norm.kind is NormKind.LINF and within.widest > 0 else ball

    @staticmethod
    def whole(x: Float[Tensor, "b *shape"], norm: Norm, eps: float) -> "Ball":
        """All perturbations of the norm ball."""
        free = torch.full_like(x.flatten(1), torch.inf)
        return Ball(norm, eps, -free, free)

    def select(self, keep: Int64[Tensor, " kept"]) -> "Ball":
        return Ball(self.norm, self.eps, self.low[keep], self.high[keep])

    def project(self, z: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """The nearest point; entries that are not a number count as 0."""
        z = z.nan_to_num(nan=0.0)
        if self.norm.kind is NormKind.LINF:
            inner = _not_above(self.eps, z.dtype)
            return self._boxed(z.clamp(-inner, inner))
        return self._boxed(self._scale(z)[:, None] * z)

    def size(self, delta: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
        """|delta| in the ball's norm."""
        return delta.double().norm(p=self.norm.p, dim=1).cpu()

    def ascent(self, gradient: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """The direction of unit norm along which a function with that gradient rises fastest; 0 where it is 0."""
        if self.norm.kind is NormKind.LINF:
            return gradient.sign()
        return gradient / gradient.norm(dim=1, keepdim=True).clamp_min(torch.finfo(gradient.dtype).tiny)

    def random(self, draws: Draws, purpose: str) -> Float[Tensor, "b n"]:
        """A point of each row: uniform in the norm ball, then projected."""
        normals = draws.normal(purpose, self.low.shape[1] + 1, like=self.low)
        uniform = torch.erf(normals / sqrt(2))
        if self.norm.kind is NormKind.LINF:
            return self.project(self.eps * uniform[:, 1:])
        length = self.eps * uniform[:, :1].abs() ** (1 / self.low.shape[1])
        return self.project(length * self.ascent(normals[:, 1:]))

    def _boxed(self, z: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return torch.minimum(torch.maximum(z, self.low), self.high)

    def _scale(self, z: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
        """The s of the module's docstring."""
        unit = z.double().abs().amax(1).clamp_min(self.eps)  # squares overflow
        squares = (z.double() / unit[:, None]) ** 2
        bounds = torch.where(z > 0, self.high, self.low).double() ** 2
        # rounding to the dtype may lengthen by this much
        room, most = (self.eps * (1 - torch.finfo(z.dtype).eps)) ** 2, unit**2
        u = torch.minimum(room / squares.sum(1).clamp_min(room / most), most)
        for _ in range(NEWTON_STEPS):
            free = u[:, None] * squares < bounds
            slope = torch.where(free, squares, 0.0).sum(1)
            left = room - torch.where(free, 0.0, bounds).sum(1)
            u = torch.where(slope > 0, left / slope, most).clamp(u, most)
        return (u.sqrt() / unit).to(z.dtype)


def _not_above(value: float, dtype: torch.dtype) -> float:
    """The largest number of the dtype that is not above the value."""
    rounded = torch.tensor(value, dtype=dtype)
    return float(rounded if float(rounded) <= value else torch.nextafter(rounded, torch.zeros_like(rounded)))
