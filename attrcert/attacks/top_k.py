"""Drive the k most important features out of the top: IFIA's top-k attack [ghorbani2019interpretation].

The set of features is that of the original map throughout; recomputing it at each step, as some code does, lets the attack
undo its own work.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.attacks.ascent import Maps
from attrcert.linalg.steps import StepRule, steepest
from attrcert.metrics.top_k import common, largest, share


@dataclass(frozen=True)
class TopK:
    """Lower the share of |g| that the original top k features hold; the best iterate has the smallest intersection."""

    k: int
    step_size: float | None = None
    anchor: ClassVar[float] = 0.0

    @property
    def rule(self) -> StepRule:
        return steepest(self.step_size)

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return -share(maps.moved, largest(maps.original, self.k))

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        """Features driven out, and among equals the smaller share."""
        return -common(maps.moved, maps.original, self.k) + self.objective(maps)
