"""Pearson's correlation of the signed maps: the cosine of what is left of them without their means."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from attrcert.metrics.cosine import cosine
from attrcert.metrics.metric import measurable


@dataclass(frozen=True)
class Pearson:
    """The correlation coefficient, -1 to 1; undefined for a constant map."""

    rising: ClassVar[bool] = False

    def __call__(
        self, g: Float[Tensor, "b n"], reference: Float[Tensor, "b n"], shape: tuple[int, ...]
    ) -> Float[Tensor, " b"] | None:
        return correlation(measurable(g), measurable(reference))


def correlation(g: Float[Tensor, "b n"], reference: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
    """The correlation coefficient; NaN for a constant map."""
    return cosine(_centred(g), _centred(reference)).clamp(-1, 1)


def _centred(g: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    # a constant map less its mean need not be 0 in floating point; less its first entry it is
    shifted = g - g[:, :1]
    return shifted - shifted.mean(dim=1, keepdim=True)
