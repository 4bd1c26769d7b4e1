"""Spearman's rank correlation of the signed maps: Pearson's correlation of ranks, ties at their average rank."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.stats import rankdata

from attrcert.metrics.metric import measurable
from attrcert.metrics.pearson import correlation
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class Spearman:
    """The correlation of average ranks, -1 to 1; undefined for a constant map."""

    rising: ClassVar[bool] = False

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        return correlation(_ranks(g), _ranks(reference))


def _ranks(g: Flat) -> Flat:
    return torch.from_numpy(rankdata(measurable(g).numpy(), axis=1))
