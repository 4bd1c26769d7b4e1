"""What a bounded deviation says of the other metrics: the k largest entries, the correlation, the centre of mass."""

from collections.abc import Sequence
from functools import cached_property
from math import inf

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from attrcert.columns import Cell
from attrcert.geometry.correlation import least_correlation
from attrcert.geometry.mass_centre import Masses
from attrcert.geometry.top_k import length_keeping, share_kept, swap_lengths


class Consequences:
    """For maps g, each with `k` largest entries that are watched."""

    def __init__(self, g: Float[Tensor, "b n"], shape: tuple[int, ...], k: int) -> None:
        self._g, self._shape, self._k = g.detach().cpu().double(), shape, min(k, g.shape[1])

    def cells(self, T: Sequence[float | None], suffix: str = "") -> dict[str, list[Cell]]:
        """The figures that follow from |g' - g|_2 <= T, under their columns' names; empty where there is no T."""
        known = torch.tensor([inf if t is None else t for t in T], dtype=torch.float64)
        moved = self._masses.displacement(known).tolist() if self._masses else [None] * len(T)
        figures: dict[str, list[Cell]] = {
            "top_k_bound": share_kept(self._lengths, known, self._k).tolist(),
            "pearson_bound": [least_correlation(t, c) for t, c in zip(known.tolist(), self._centred, strict=True)],
            "mass_centre_bound": [None if one != one else one for one in moved],
        }
        return {
            name + suffix: [None if t == inf else cell for t, cell in zip(known.tolist(), cells, strict=True)]
            for name, cells in figures.items()
        }

    def deviation_keeping(self, share: float) -> Float64[Tensor, " b"]:
        """The largest deviation that keeps this share of the k largest entries; infinite where all do."""
        return length_keeping(self._lengths, share, self._k)

    @cached_property
    def _lengths(self) -> Float64[Tensor, "b most"]:
        return swap_lengths(self._g, self._k)

    @cached_property
    def _centred(self) -> list[float]:
        return (self._g - self._g.mean(dim=1, keepdim=True)).norm(dim=1).tolist()

    @cached_property
    def _masses(self) -> Masses | None:
        """Of images alone."""
        return Masses(self._g, self._shape) if len(self._shape) == 3 else None
