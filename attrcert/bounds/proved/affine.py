"""What the bound needs of an affine operation x -> W x + b: itself, its adjoint, and the same with the moduli of W."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

Shape = tuple[int, ...]


class Operation(Protocol):
    """Applied to batches of samples; `adjoint` is W^T onto inputs of the given shape, `linear` is without b, `absolute` has |W| for W.

    `terms` is at least how many entries a row or a column of W has. `moves` says that entries are only moved, so that the result may be a
    view of the input. `lost` is what rounding took of b when it was computed.
    """

    @property
    def terms(self) -> int: ...
    @property
    def moves(self) -> bool: ...
    @property
    def lost(self) -> Tensor | float: ...
    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]: ...
    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]: ...
    def linear(self) -> "Operation": ...
    def absolute(self) -> "Operation": ...


class Usual:
    """What most operations are: their result is new, and b was given."""

    moves = False
    lost: Tensor | float = 0.0


@dataclass(frozen=True)
class NonNegative(Usual):
    """An operation without bias whose W has no negative entry, with the adjoint that autograd knows."""

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        raise NotImplementedError

    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]:
        with torch.enable_grad():
            x = u.new_zeros(len(u), *shape, requires_grad=True)
            (pulled,) = torch.autograd.grad(self.apply(x), x, u)
        return pulled

    def linear(self) -> Any:
        return self

    def absolute(self) -> Any:
        return self
