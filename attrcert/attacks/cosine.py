"""Turn the attribution as far as possible: climb the cosine distance, which is what T_c bounds [wang2023practical]."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.attacks.ascent import Maps
from attrcert.linalg.steps import StepRule, steepest
from attrcert.metrics.cosine import cosine


@dataclass(frozen=True)
class Cosine:
    """Projected gradient ascent on 1 - cos(g(x + d), g(x))."""

    step_size: float | None = None
    anchor: ClassVar[float] = 0.0

    @property
    def rule(self) -> StepRule:
        return steepest(self.step_size)

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return 1 - cosine(maps.moved, maps.original)

    score = objective
