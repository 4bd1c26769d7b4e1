"""What stays at the k largest entries: their intersection [ghorbani2019interpretation], their mass [wang2020smoothed].

Largest by absolute value. Of equal entries the one with the lower index comes first, so that the k largest are one
set and the same one everywhere. A zero map has no largest entries: both metrics are undefined if either map is zero.

Departures: entries are counted, where [ghorbani2019interpretation] counts pixels of a map summed over channels.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from attrcert.errors import UsageError
from attrcert.metrics.metric import measurable
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class _Largest:
    """`k` entries, or all where a map has fewer."""

    k: int = 100  # an eighth of a map of 28 x 28

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"k must be at least 1, got {self.k}", hint="k is the number of largest entries compared")


@dataclass(frozen=True)
class TopK(_Largest):
    """The share of the `k` largest entries that the maps have in common, 0 to 1 [ghorbani2019interpretation]."""

    rising: ClassVar[bool] = False

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        a, b = measurable(g), measurable(reference)
        in_both = torch.zeros_like(a).scatter(1, largest(a, self.k), 1.0).gather(1, largest(b, self.k))
        return _unless_zero(in_both.mean(dim=1), a, b)


@dataclass(frozen=True)
class TopKMass(_Largest):
    """The share of the moved map's mass at the `k` largest entries of the original, 0 to 1 [wang2020smoothed]."""

    rising: ClassVar[bool] = False

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        a, b = measurable(g), measurable(reference)
        return _unless_zero(share(a, largest(b, self.k)), a, b)


def largest(reference: Flat, k: int) -> Int64[Tensor, "b k"]:
    """Indices of the k largest entries by absolute value, in falling order; all of them where k is above n."""
    # a stable sort: `topk` leaves open which of two equal entries it takes
    return reference.abs().sort(dim=1, descending=True, stable=True).indices[:, :k]


def share(g: Flat, chosen: Int64[Tensor, "b k"]) -> Figures:
    """The share of the mass sum |g| at the chosen entries, with a graph; NaN for a zero map."""
    mass = g.abs()
    return mass.gather(1, chosen).sum(dim=1) / mass.sum(dim=1)


def _unless_zero(
    figures: Float64[Tensor, " b"], a: Float64[Tensor, "b n"], b: Float64[Tensor, "b n"]
) -> Float64[Tensor, " b"]:
    # false for NaN too: a map with NaN in it has no order either
    ordered = (a.abs().amax(dim=1) > 0) & (b.abs().amax(dim=1) > 0)
    return torch.where(ordered, figures, torch.nan)
