"""Means over windows and axes: average pooling, adaptive average pooling, mean."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attrcert.bounds.proved.affine import NonNegative
from attrcert.bounds.proved.building import Building, Ref, Unsupported


@dataclass(frozen=True, eq=False)
class Pooling(NonNegative):
    """`pool` takes means, each of at most `terms` entries."""

    pool: Callable[[Tensor], Tensor]
    terms: int

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        return self.pool(x)


def average_pool(
    building: Building,
    input: Ref,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Ref:
    if divisor_override is not None:
        raise Unsupported("average pooling with a divisor of its own", "divide the result instead")
    window = kernel_size, stride, padding, ceil_mode, count_include_pad
    return building.add(Pooling(lambda x: F.avg_pool2d(x, *window), prod(input.shape)), input)


def adaptive_average_pool(building: Building, input: Ref, output_size: Any) -> Ref:
    return building.add(Pooling(lambda x: F.adaptive_avg_pool2d(x, output_size), prod(input.shape)), input)


def mean(building: Building, input: Ref, dim: Any = None, keepdim: bool = False, **other: Any) -> Ref:
    axes = (dim,) if isinstance(dim, int) else dim
    if axes is None or other or 0 in (axis % (len(input.shape) + 1) for axis in axes):
        raise Unsupported("a mean over the batch", "take means within a sample")
    return building.add(Pooling(lambda x: x.mean(dim, keepdim), prod(input.shape)), input)
