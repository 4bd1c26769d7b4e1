"""Two-dimensional convolutions with zero padding, applied as convolutions."""

from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

from attrcert.bounds.proved.affine import Shape, Usual
from attrcert.bounds.proved.building import Building, Ref, Unsupported, constant


@dataclass(frozen=True, eq=False)
class Convolution(Usual):
    """`geometry` is (stride, padding, dilation, groups)."""

    weight: Float[Tensor, "o i h w"]
    bias: Float[Tensor, " o"] | None
    geometry: tuple[Any, Any, Any, int]

    @property
    def terms(self) -> int:
        out, inner, height, width = self.weight.shape
        return max(out, inner) * height * width

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        return F.conv2d(x, self.weight, self.bias, *self.geometry)

    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]:
        return conv2d_input((len(u), *shape), self.weight, u, *self.geometry)

    def linear(self) -> "Convolution":
        return replace(self, bias=None)

    def absolute(self) -> "Convolution":
        return replace(self, weight=self.weight.abs(), bias=None)


def convolution(
    building: Building,
    input: Ref,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Ref:
    if isinstance(padding, str):
        if padding != "valid":
            raise Unsupported(f"a convolution with padding {padding!r}", "give the padding in numbers")
        padding = 0
    bias = None if bias is None else constant(bias)
    return building.add(Convolution(constant(weight), bias, (stride, padding, dilation, groups)), input)
