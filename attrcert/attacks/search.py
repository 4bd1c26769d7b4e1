"""Move the attribution as far as possible by its values alone: a random search that goes on from the best it has.

For attributions without derivatives. It needs many more steps than an ascent: each is one map.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Maps
from attrcert.ascent.steps import Hops, StepRule


@dataclass(frozen=True)
class HopSearch:
    """Random hops that are kept where the Euclidean deviation grows; no gradient is taken."""

    output_weight: ClassVar[float] = 0.0
    targeted: ClassVar[bool] = False

    @property
    def rule(self) -> StepRule:
        return Hops()

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return (maps.moved - maps.original).norm(dim=1)

    score = objective
