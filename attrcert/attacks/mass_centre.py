"""Move the centre of mass of the map: IFIA's mass-centre attack [ghorbani2019interpretation]."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Maps, Steepest
from attrcert.metrics.mass_centre import centre


@dataclass(frozen=True)
class MassCentreAttack(Steepest):
    """Projected gradient ascent on the distance, in pixels, between the centres of |g| before and after."""

    images_only: ClassVar[bool] = True

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        # squared: the distance itself has no gradient at x
        return (centre(maps.moved, maps.shape) - centre(maps.original, maps.shape)).square().sum(dim=1)

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        return self.objective(maps).sqrt()
