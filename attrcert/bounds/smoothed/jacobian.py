"""The Jacobian of a smoothed map from the draws that smooth it: J_h = E[(g(x + sigma n) - m) n^T] / sigma, for Gaussian noise.

Proof. h(x) = E g(x + sigma n) is g averaged with the density of the noise around x; the derivative falls on the density, whose
logarithm's is n / sigma (Stein). A constant m changes nothing, since E n = 0. So h has derivatives though g, of a ReLU network, jumps,
and none of g is needed.

Not claimed: anything about the error. With N draws in d dimensions it is of the order of sqrt(d / N) sqrt(lambda) / sigma, lambda the
largest variance of g. For noise in a ball it is a direction to try, no derivative.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.types import LinearMap


@dataclass(frozen=True)
class TurningJacobian(LinearMap):
    """The part of J_h that turns h: across the unit vectors `along`. `rows` are g - m at the `noise` that all samples share."""

    rows: Float[Tensor, "b m k"]
    noise: Float[Tensor, "m n"]
    along: Float[Tensor, "b k"]
    sigma: float

    @property
    def like(self) -> Tensor:
        return self.along

    @property
    def shape(self) -> tuple[int, int, int]:
        return *self.along.shape, self.noise.shape[1]

    def matvec(self, v: Float[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        return self._across(((v @ self.noise.T)[:, None] @ self.rows)[:, 0] / self._scale)

    def rmatvec(self, u: Float[Tensor, "b k"]) -> Float[Tensor, "b n"]:
        return (self.rows @ self._across(u)[:, :, None])[:, :, 0] @ self.noise / self._scale

    def select(self, keep: Int64[Tensor, " kept"]) -> "TurningJacobian":
        return TurningJacobian(self.rows[keep], self.noise, self.along[keep], self.sigma)

    @property
    def _scale(self) -> float:
        return len(self.noise) * self.sigma

    def _across(self, z: Float[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        return z - (z * self.along).sum(dim=1, keepdim=True) * self.along
