"""The Euclidean distance |g' - g|_2 of two maps."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.metrics.metric import length, measurable


@dataclass(frozen=True)
class Euclidean:
    """The length of the difference of the maps."""

    rising: ClassVar[bool] = True

    def __call__(
        self, g: Float[Tensor, "b n"], reference: Float[Tensor, "b n"], shape: tuple[int, ...]
    ) -> Float[Tensor, " b"] | None:
        return length(measurable(g) - measurable(reference))
