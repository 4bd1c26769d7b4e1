"""Norms over the entries of one sample: layer norm, group norm, instance norm, RMS norm.

    c = x - mean(x),   v = mean(c^2) + eps,   c v^(-1/2),

exactly: affine, squares, a power that is only asked for at v >= eps, and products (`products`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attrcert.bounds.proved.affine import Shape, Usual
from attrcert.bounds.proved.building import Building, Ref, Unsupported, constant
from attrcert.bounds.proved.operations import moving, pooling, products, scaling

SINGLE = "its entries are all the same after it: leave it out"


@dataclass(frozen=True, eq=False)
class Centred(Usual):
    """x - mean(x) over axes that count from the end; W = 1 - 1/n on the diagonal and -1/n beside it."""

    axes: tuple[int, ...]
    terms: int
    modulus: bool = False

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        mean = x.mean(self.axes, keepdim=True)
        return (1 - 2 / self.terms) * x + mean if self.modulus else x - mean

    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]:
        return self.apply(u)

    def linear(self) -> "Centred":
        return self

    def absolute(self) -> "Centred":
        return Centred(self.axes, self.terms, modulus=True)


def normalised(building: Building, input: Ref, axes: tuple[int, ...], eps: float, *, centred: bool = True) -> Ref:
    """Over axes that count from the end."""
    if eps <= 0:
        raise Unsupported(f"a norm with eps {eps}", "its derivatives are infinite at constant samples: use eps > 0")
    n = prod(input.shape[axis] for axis in axes)
    if n == 1 and centred:
        raise Unsupported("a norm over single entries", SINGLE)
    c = building.add(Centred(axes, n), input) if centred else input
    squares = products.squared(building, c)
    v = building.add(pooling.Pooling(lambda x: x.mean(axes, keepdim=True), n), squares)
    return products.product(building, c, products.inverse_root(building, scaling.scaled(building, v, shift=eps)))


def _affine(building: Building, input: Ref, weight: Tensor | None, bias: Tensor | None, axes: int = 0) -> Ref:
    """With a weight and a bias that this many axes follow."""
    if weight is None and bias is None:
        return input
    parts = [
        (otherwise if part is None else constant(part).reshape(*part.shape, *[1] * axes))
        for part, otherwise in ((weight, 1.0), (bias, 0.0))
    ]
    return scaling.scaled(building, input, parts[0], parts[1])


def _last(input: Ref, normalized_shape: Any) -> tuple[int, ...]:
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if tuple(input.shape[len(input.shape) - len(sizes) :]) != sizes:
        raise Unsupported(f"a norm over {sizes} of samples of shape {input.shape}", "it mixes samples")
    return tuple(range(-len(sizes), 0))


def layer_norm(
    building: Building,
    input: Ref,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Ref:
    return _affine(building, normalised(building, input, _last(input, normalized_shape), eps), weight, bias)


def rms_norm(
    building: Building,
    input: Ref,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Ref:
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    axes = _last(input, normalized_shape)
    return _affine(building, normalised(building, input, axes, eps, centred=False), weight, None)


def group_norm(
    building: Building,
    input: Ref,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Ref:
    grouped = moving.reshaped(building, input, lambda x: x.reshape(1, num_groups, -1))
    normal = normalised(building, grouped, (-1,), eps)
    whole = moving.reshaped(building, normal, lambda x: x.reshape(1, *input.shape))
    return _affine(building, whole, weight, bias, axes=len(input.shape) - 1)


def instance_norm(building: Building, module: nn.modules.instancenorm._InstanceNorm, input: Ref) -> Ref:
    """With the statistics of the sample."""
    if module.track_running_stats:
        raise Unsupported("an instance norm with running statistics", "write it as a batch norm")
    return group_norm(building, input, input.shape[0], module.weight, module.bias, module.eps)
