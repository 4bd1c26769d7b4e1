"""Move the attribution as far as possible: climb |g(x + d) - g(x)|_2, the deviation that T_e bounds [wang2023practical]."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.attacks.ascent import Maps
from attrcert.linalg.steps import StepRule, steepest


@dataclass(frozen=True)
class Euclidean:
    """Projected gradient ascent on the deviation itself."""

    step_size: float | None = None
    anchor: ClassVar[float] = 0.0

    @property
    def rule(self) -> StepRule:
        return steepest(self.step_size)

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        # twice its gradient is J^T (g' - g); the norm's own gradient has no limit at x
        return (maps.moved - maps.original).square().sum(dim=1)

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        return (maps.moved - maps.original).norm(dim=1)
