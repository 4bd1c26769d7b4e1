"""Input x gradient: g(x) = x * grad f_y(x) [shrikumar2017learning]."""

from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.gradient import Hessian, gradient
from attrcert.draws import Draws
from attrcert.types import Attribution, Explained, LinearMap, Logits


@dataclass(frozen=True)
class ProductRule(LinearMap):
    """J v = grad * v + x * (H v) and J^T u = grad * u + H (x * u)."""

    slope: Float[Tensor, "b n"]
    weight: Float[Tensor, "b n"]
    curvature: Hessian

    @property
    def like(self) -> LinearMap:
        return self.curvature

    def matvec(self, v: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return self.slope * v + self.weight * self.curvature.matvec(v)

    def rmatvec(self, u: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return self.slope * u + self.curvature.matvec(self.weight * u)

    def select(self, keep: Int64[Tensor, " kept"]) -> "ProductRule":
        return ProductRule(self.slope[keep], self.weight[keep], self.curvature.select(keep))


@dataclass(frozen=True)
class InputTimesGradient(Attribution):
    """The saliency times the input, pixel by pixel. `chunk` and `held` as in Hessian."""

    chunk: int | None = None
    held: int | None = None

    def value(
        self, f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], draws: Draws | None = None
    ) -> Float[Tensor, "b n"]:
        return x.flatten(1) * gradient(f, x, y, chunk=self.chunk)

    def explain(
        self, f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], draws: Draws | None = None
    ) -> Explained:
        H = Hessian(f, x, y, chunk=self.chunk, held=self.held)
        slope, weight = H.gradient(), x.flatten(1)
        return Explained(weight * slope, ProductRule(slope, weight, H))
