"""What a metric is: one figure for each sample, in float64 on the CPU."""

from math import isfinite
from typing import Protocol

from jaxtyping import Float64
from torch import Tensor

from attrcert.columns import Cell
from attrcert.types import Figures, Flat


class Metric(Protocol):
    """Compares the moved maps `g` with the originals, both flattened row by row from `shape`.

    `rising` metrics grow as a map moves away, the others fall.

    NaN where the metric is undefined for a sample, None where it does not apply to the shape.
    """

    @property
    def rising(self) -> bool: ...
    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None: ...


def measurable(g: Flat) -> Float64[Tensor, "b n"]:
    """The maps as figures are computed from them: float64, on the CPU, without a graph."""
    return g.detach().cpu().double()  # first to the CPU: not every device has float64


def length(v: Flat) -> Figures:
    """|v|_2, with a graph."""
    # `norm` adds up one by one and loses 4e-13 over 150,528 entries; `sum` adds in pairs
    return (v * v).sum(dim=1).sqrt()


def cells_of(figures: Tensor | None, b: int) -> list[Cell]:
    """A metric of b samples as cells, empty where it is not defined."""
    if figures is None:
        return [None] * b
    return [value if isfinite(value) else None for value in figures.tolist()]
