"""Input x gradient: g(x) = x * grad f_y(x) [shrikumar2017learning]."""

from dataclasses import dataclass

from jaxtyping import Int64
from torch import Tensor

from attrcert.attributions.gradient import Hessian, gradient
from attrcert.draws import Draws
from attrcert.types import Attribution, Classes, Explained, Flat, Inputs, LinearMap, Logits


@dataclass(frozen=True)
class ProductRule(LinearMap):
    """J v = grad * v + x * (H v) and J^T u = grad * u + H (x * u)."""

    slope: Flat
    weight: Flat
    curvature: Hessian

    @property
    def like(self) -> LinearMap:
        return self.curvature

    def matvec(self, v: Flat) -> Flat:
        return self.slope * v + self.weight * self.curvature.matvec(v)

    def rmatvec(self, u: Flat) -> Flat:
        return self.slope * u + self.curvature.matvec(self.weight * u)

    def select(self, keep: Int64[Tensor, " kept"]) -> "ProductRule":
        return ProductRule(self.slope[keep], self.weight[keep], self.curvature.select(keep))


@dataclass(frozen=True)
class InputTimesGradient(Attribution):
    """The saliency times the input, pixel by pixel. `chunk` and `held` as in Hessian."""

    chunk: int | None = None
    held: int | None = None

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        return x.flatten(1) * gradient(f, x, y, chunk=self.chunk)

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        H = Hessian(f, x, y, chunk=self.chunk, held=self.held)
        slope, weight = H.gradient(), x.flatten(1)
        return Explained(weight * slope, ProductRule(slope, weight, H))
