"""The direction of an attribution: g / |g|, and 0 where g = 0."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.types import Attribution, Classes, Explained, Figures, Flat, Inputs, LinearMap, Logits


@dataclass(frozen=True)
class DirectionJacobian(LinearMap):
    """(1 - d d^T) J / |g| with d = g / |g|; 0 where g = 0, where there is no derivative."""

    base: LinearMap
    direction: Float[Tensor, "b m"]
    length: Figures

    @property
    def like(self) -> LinearMap:
        return self.base

    def matvec(self, v: Flat) -> Float[Tensor, "b m"]:
        return self._across(self.base.matvec(v))

    def rmatvec(self, u: Float[Tensor, "b m"]) -> Flat:
        return self.base.rmatvec(self._across(u))

    def select(self, keep: Int64[Tensor, " kept"]) -> "DirectionJacobian":
        return DirectionJacobian(self.base.select(keep), self.direction[keep], self.length[keep])

    def _across(self, z: Float[Tensor, "b m"]) -> Float[Tensor, "b m"]:
        """The part of z across the direction, over |g|."""
        across = z - (z * self.direction).sum(dim=1, keepdim=True) * self.direction
        return torch.where(self.length[:, None] > 0, across / self.length[:, None], 0.0)


@dataclass(frozen=True)
class Direction(Attribution):
    """`base` divided by its length."""

    base: Attribution

    @property
    def points(self) -> int:
        return self.base.points

    def map_shape(self, f: Logits, x: Inputs) -> tuple[int, ...]:
        return self.base.map_shape(f, x)

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        return _split(self.base.value(f, x, y, draws))[0]

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        explained = self.base.explain(f, x, y, draws)
        direction, length = _split(explained.value)
        return Explained(direction, DirectionJacobian(explained.jacobian, direction, length))


def _split(g: Flat) -> tuple[Flat, Figures]:
    """g / |g| and |g|; the largest entry is divided out first, or small gradients underflow when squared."""
    largest = g.abs().amax(dim=1, keepdim=True)
    scaled = g / torch.where(largest > 0, largest, 1.0)
    length = scaled.norm(dim=1, keepdim=True)
    return scaled / torch.where(length > 0, length, 1.0), (length * largest)[:, 0]
