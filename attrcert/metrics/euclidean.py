"""The Euclidean distance |g' - g|_2 of two maps."""

from dataclasses import dataclass
from typing import ClassVar

from attrcert.metrics.metric import length, measurable
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class Euclidean:
    """The length of the difference of the maps."""

    rising: ClassVar[bool] = True

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        return length(measurable(g) - measurable(reference))
