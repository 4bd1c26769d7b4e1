"""Move the centre of mass of the map: IFIA's mass-centre attack [ghorbani2019interpretation]."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.attacks.ascent import Maps
from attrcert.linalg.steps import StepRule, steepest
from attrcert.metrics.mass_centre import centre


@dataclass(frozen=True)
class MassCentre:
    """Projected gradient ascent on the distance, in pixels, between the centres of |g| before and after."""

    step_size: float | None = None
    anchor: ClassVar[float] = 0.0

    @property
    def rule(self) -> StepRule:
        return steepest(self.step_size)

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        # squared: the distance itself has no gradient at x
        return (centre(maps.moved, maps.shape) - centre(maps.original, maps.shape)).square().sum(dim=1)

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        return self.objective(maps).sqrt()
