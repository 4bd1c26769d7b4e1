"""x -> scale x + shift, entry by entry: normalisation, batch norm in eval mode, arithmetic with constants."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attrcert.bounds.proved.affine import Shape, Usual
from attrcert.bounds.proved.building import Building, Ref, Unsupported, constant, number
from attrcert.bounds.proved.operations.broadcasting import alike


@dataclass(frozen=True, eq=False)
class Scaling(Usual):
    """`scale` and `shift` are broadcast over one sample, whose axes they end with."""

    scale: Float[Tensor, "..."]
    shift: Float[Tensor, "..."]
    lost: Tensor | float = 0.0  # what rounding took of the shift
    terms = 1

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        return x * self.scale + self.shift

    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]:
        return u * self.scale

    def linear(self) -> "Scaling":
        return Scaling(self.scale, torch.zeros_like(self.shift))

    def absolute(self) -> "Scaling":
        return Scaling(self.scale.abs(), torch.zeros_like(self.shift))


def scaled(building: Building, input: Ref, scale: Any = 1.0, shift: Any = 0.0, lost: Tensor | float = 0.0) -> Ref:
    """Numbers or tensors; they may have a batch axis of one, and must not make the sample larger."""
    parts = [_of_one_sample(number(part, building.device), input) for part in (scale, shift)]
    return building.add(Scaling(parts[0], parts[1], lost), input)


def _of_one_sample(part: Tensor, input: Ref) -> Tensor:
    part = part.squeeze(0) if part.ndim == len(input.shape) + 1 and part.shape[0] == 1 else part
    if torch.broadcast_shapes(part.shape, input.shape) != torch.Size(input.shape):
        raise Unsupported("arithmetic with a constant that is larger than the sample", "reshape it in the network")
    return part


def negated(building: Building, input: Ref) -> Ref:
    return scaled(building, input, -1.0)


def added(building: Building, input: Any, other: Any, *, alpha: float = 1.0) -> Ref:
    """Of two results (a residual connection), or of a result and a constant."""
    if isinstance(other, Ref) and alpha != 1:
        other = scaled(building, other, alpha)
    if isinstance(input, Ref) and isinstance(other, Ref):
        return building.sum(*alike(building, input, other))
    if isinstance(input, Ref):
        return scaled(building, input, shift=alpha * other)
    return scaled(building, other, shift=input)


def subtracted(building: Building, input: Any, other: Any, *, alpha: float = 1.0) -> Ref:
    return added(building, input, other, alpha=-alpha)


def batch_norm(building: Building, module: nn.modules.batchnorm._BatchNorm, input: Ref) -> Ref:
    """With its running statistics."""
    if module.running_mean is None or module.running_var is None:
        raise Unsupported("a batch norm without running statistics", "it couples the samples of a batch")
    scale = (constant(module.running_var) + module.eps).rsqrt()
    scale = scale if module.weight is None else scale * constant(module.weight)
    shift = -constant(module.running_mean) * scale
    shift = shift if module.bias is None else shift + constant(module.bias)
    axes = [1] * (len(input.shape) - 1)
    terms = (constant(module.running_mean) * scale).abs() + shift.abs()  # which may have cancelled
    lost = 8 * torch.finfo(torch.float64).eps * terms.view(-1, *axes)
    return scaled(building, input, scale.view(-1, *axes), shift.view(-1, *axes), lost)
