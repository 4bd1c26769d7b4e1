"""Results repeated along axes of length one, as arithmetic does and `expand`."""

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.affine import NonNegative, Shape
from attrcert.bounds.proved.building import Building, Ref, Unsupported


@dataclass(frozen=True, eq=False)
class Repeated(NonNegative):
    """Along axes of length one, to a sample of this shape."""

    shape: Shape
    terms: int
    moves: bool = False

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        return x.expand(-1, *self.shape)

    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]:
        return u.sum_to_size(len(u), *shape)


def repeated(building: Building, input: Ref, shape: Shape, *, moves: bool = False) -> Ref:
    """As broadcasting repeats it."""
    if input.shape == shape:
        return input
    return building.add(Repeated(shape, prod(shape) // max(1, prod(input.shape)), moves), input)


def alike(building: Building, first: Ref, second: Ref) -> tuple[Ref, Ref]:
    """Both of the shape that arithmetic gives them."""
    if len(first.shape) != len(second.shape):
        raise Unsupported(
            f"arithmetic of shapes {first.shape} and {second.shape}", "give both as many axes: others mix samples"
        )
    try:
        shape = tuple(torch.broadcast_shapes(first.shape, second.shape))
    except RuntimeError as error:
        raise Unsupported(f"arithmetic of shapes {first.shape} and {second.shape}", "they do not fit") from error
    return repeated(building, first, shape), repeated(building, second, shape)


def expanded(building: Building, input: Ref, *sizes: Any) -> Ref:
    wanted = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    whole = building.sample(input).expand(*wanted)
    if len(whole) != 1 or whole.ndim != len(input.shape) + 1:
        raise Unsupported(f"an expansion to {tuple(wanted)}", "keep the first axis for the batch")
    return repeated(building, input, tuple(whole.shape[1:]), moves=True)
