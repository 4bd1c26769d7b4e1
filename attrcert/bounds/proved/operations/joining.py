"""Results beside each other: concatenation, stacks.

A concatenation is a sum of its parts, each with zeros where the others are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.affine import NonNegative, Shape
from attrcert.bounds.proved.building import Building, Ref, Unsupported, constant
from attrcert.bounds.proved.operations import moving, scaling


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


def concatenated(building: Building, tensors: Sequence[Any], dim: int = 0) -> Ref:
    """Of results, and constants of a batch of one."""
    parts = list(tensors)
    shapes = [part.shape if isinstance(part, Ref) else tuple(part.shape[1:]) for part in parts]
    axis = dim % (len(shapes[0]) + 1)
    if axis == 0 or any(len(part) != 1 for part in parts if isinstance(part, Tensor)):
        raise Unsupported("a concatenation of samples", "keep the first axis for the batch")
    if any(_without(shape, axis) != _without(shapes[0], axis) for shape in shapes):
        raise Unsupported(f"a concatenation of shapes {shapes}", "they differ on another axis")
    sizes = [shape[axis - 1] for shape in shapes]
    insets = [Inset(axis, sum(sizes[:i]), sum(sizes)) for i in range(len(sizes))]
    pairs = list(zip(insets, parts, strict=True))
    found = building.sum(*(building.add(inset, part) for inset, part in pairs if isinstance(part, Ref)))
    for inset, part in pairs:
        if isinstance(part, Tensor):
            found = scaling.scaled(building, found, shift=inset.apply(constant(part)))
    return found


def _without(shape: Shape, axis: int) -> Shape:
    return shape[: axis - 1] + shape[axis:]


def stacked(building: Building, tensors: Sequence[Any], dim: int = 0) -> Ref:
    some = next(part for part in tensors if isinstance(part, Ref))
    axis = dim % (len(some.shape) + 2)
    if axis == 0:
        raise Unsupported("a stack of samples", "keep the first axis for the batch")
    parts = (
        moving.unsqueezed(building, part, axis) if isinstance(part, Ref) else part.unsqueeze(axis) for part in tensors
    )
    return concatenated(building, list(parts), axis)
