"""Results beside each other and results repeated: concatenation, stacks, broadcasting.

A concatenation is a sum of its parts, each with zeros where the others are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.affine import NonNegative, Shape
from attrcert.bounds.proved.building import Building, Ref, Unsupported
from attrcert.bounds.proved.operations import moving


@dataclass(frozen=True, eq=False)
class Inset(NonNegative):
    """At `start` of an axis of length `total`, zeros elsewhere; `dim` counts from the batch."""

    dim: int
    start: int
    total: int
    terms = 1

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        sizes = list(x.shape)
        sizes[self.dim] = self.total
        whole = x.new_zeros(sizes)
        whole.narrow(self.dim, self.start, x.shape[self.dim]).copy_(x)
        return whole

    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]:
        return u.narrow(self.dim, self.start, shape[self.dim - 1])


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


def concatenated(building: Building, tensors: Sequence[Any], dim: int = 0) -> Ref:
    parts = list(tensors)
    if not all(isinstance(part, Ref) for part in parts):
        raise Unsupported("a concatenation with a constant", "add it to a result that is padded with zeros")
    axis = dim % (len(parts[0].shape) + 1)
    if axis == 0:
        raise Unsupported("a concatenation of samples", "keep the first axis for the batch")
    if any(_without(part.shape, axis) != _without(parts[0].shape, axis) for part in parts):
        raise Unsupported(f"a concatenation of shapes {[part.shape for part in parts]}", "they differ on another axis")
    sizes = [part.shape[axis - 1] for part in parts]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    placed = [building.add(Inset(axis, start, sum(sizes)), part) for start, part in zip(starts, parts, strict=True)]
    return building.sum(*placed)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[: axis - 1] + shape[axis:]


def stacked(building: Building, tensors: Sequence[Any], dim: int = 0) -> Ref:
    if not all(isinstance(part, Ref) for part in tensors):
        raise Unsupported("a stack with a constant", "add it to a result that is padded with zeros")
    axis = dim % (len(tensors[0].shape) + 2)
    if axis == 0:
        raise Unsupported("a stack of samples", "keep the first axis for the batch")
    return concatenated(building, [moving.unsqueezed(building, part, axis) for part in tensors], axis)


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
