"""Kendall's rank correlation tau-b of the signed maps: pairs in the same order less pairs in opposite order.

Pairs that are tied in one map count in neither; tau-b divides by the number of pairs untied in the first map and in
the second, in geometric mean. O(n log n) in n entries.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.stats import kendalltau

from attrcert.metrics.metric import measurable
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class Kendall:
    """Kendall's tau-b, -1 to 1; undefined for a constant map."""

    rising: ClassVar[bool] = False

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        pairs = zip(measurable(g).numpy(), measurable(reference).numpy(), strict=True)
        return torch.tensor([kendalltau(a, b).statistic for a, b in pairs], dtype=torch.float64)
