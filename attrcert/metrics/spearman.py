"""Spearman's rank correlation of the signed maps: Pearson's correlation of ranks, ties at their average rank."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from scipy.stats import rankdata
from torch import Tensor

from attrcert.metrics.metric import measurable
from attrcert.metrics.pearson import correlation


@dataclass(frozen=True)
class Spearman:
    """The correlation of average ranks, -1 to 1; undefined for a constant map."""

    rising: ClassVar[bool] = False

    def __call__(
        self, g: Float[Tensor, "b n"], reference: Float[Tensor, "b n"], shape: tuple[int, ...]
    ) -> Float[Tensor, " b"] | None:
        return correlation(_ranks(g), _ranks(reference))


def _ranks(g: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    return torch.from_numpy(rankdata(measurable(g).numpy(), axis=1))
