"""Dense layers: x -> W x + b over the last axis."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attrcert.bounds.proved.affine import Shape, Usual
from attrcert.bounds.proved.building import Building, Ref, constant


@dataclass(frozen=True, eq=False)
class Linear(Usual):
    weight: Float[Tensor, "m n"]
    bias: Float[Tensor, " m"] | None = None

    @property
    def terms(self) -> int:
        return max(self.weight.shape)

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        return F.linear(x, self.weight, self.bias)

    def adjoint(self, u: Float[Tensor, "b *out"], shape: Shape) -> Float[Tensor, "b *inner"]:
        return u @ self.weight

    def linear(self) -> "Linear":
        return Linear(self.weight)

    def absolute(self) -> "Linear":
        return Linear(self.weight.abs())


def linear(building: Building, input: Ref, weight: Tensor, bias: Tensor | None = None) -> Ref:
    return building.add(Linear(constant(weight), None if bias is None else constant(bias)), input)
