"""Pearson's correlation of the signed maps: the cosine of what is left of them without their means."""

from dataclasses import dataclass
from typing import ClassVar

from attrcert.metrics.cosine import cosine
from attrcert.metrics.metric import measurable
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class Pearson:
    """The correlation coefficient, -1 to 1; undefined for a constant map."""

    rising: ClassVar[bool] = False

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        return correlation(measurable(g), measurable(reference))


def correlation(g: Flat, reference: Flat) -> Figures:
    """The correlation coefficient; NaN for a constant map."""
    return cosine(_centred(g), _centred(reference)).clamp(-1, 1)


def _centred(g: Flat) -> Flat:
    # a constant map less its mean need not be 0 in floating point; less its first entry it is
    shifted = g - g[:, :1]
    return shifted - shifted.mean(dim=1, keepdim=True)
