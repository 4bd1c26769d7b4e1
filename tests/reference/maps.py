"""Maps and starts that a test needs: diagonal maps, and a start that is given instead of drawn."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.draws import Draws
from attrcert.types import LinearMap


@dataclass(frozen=True)
class Diagonal(LinearMap):
    """b diagonal matrices. With a start uniform on the sphere, as good as any symmetric ones of that spectrum."""

    entries: Tensor
    symmetric: bool = False

    @property
    def like(self) -> Tensor:
        return self.entries

    def matvec(self, v: Tensor) -> Tensor:
        return self.entries * v

    rmatvec = matvec

    def select(self, keep: Tensor) -> "Diagonal":
        return Diagonal(self.entries[keep], self.symmetric)


@dataclass(frozen=True)
class FixedStart(Draws):
    """Every draw is the vector of ones."""

    def normal(self, purpose: str, *shape: int, like: object) -> Tensor:
        return torch.ones(len(self.indices), *shape, dtype=torch.float64)
