"""The best of N random perturbations: what sampling alone finds, and the baseline of every attack [yeh2019fidelity].

Captum's `sensitivity_max` is this figure divided by |g(x)|, without the label constraint and the pixel range.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Maps
from attrcert.ascent.steps import FreshDraws, StepRule


@dataclass(frozen=True)
class RandomSearch:
    """Uniform draws from the ball; the one with the largest Euclidean deviation is kept."""

    output_weight: ClassVar[float] = 0.0
    targeted: ClassVar[bool] = False

    @property
    def rule(self) -> StepRule:
        return FreshDraws()

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return (maps.moved - maps.original).norm(dim=1)

    score = objective
