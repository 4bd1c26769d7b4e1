"""Turn the attribution as far as possible: climb the cosine distance, which is what T_c bounds [wang2023practical]."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Maps, Steepest
from attrcert.metrics.cosine import cosine


@dataclass(frozen=True)
class CosineAttack(Steepest):
    """Projected gradient ascent on 1 - cos(g(x + d), g(x))."""

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return 1 - cosine(maps.moved, maps.original)

    score = objective
