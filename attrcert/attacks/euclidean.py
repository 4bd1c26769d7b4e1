"""Move the attribution as far as possible: climb |g(x + d) - g(x)|_2, the deviation that T_e bounds [wang2023practical]."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Maps, Steepest


@dataclass(frozen=True)
class EuclideanAttack(Steepest):
    """Projected gradient ascent on the deviation itself."""

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        # its gradient is 2 J^T (g' - g); the norm's own has no limit at x
        return (maps.moved - maps.original).square().sum(dim=1)

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        return (maps.moved - maps.original).norm(dim=1)
