"""An attack whose best iterate is chosen by a metric instead of by its own score."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Attack, Maps
from attrcert.ascent.steps import StepRule
from attrcert.metrics import METRICS


@dataclass(frozen=True)
class Scored:
    """`attack`, judged by the metric of that name."""

    attack: Attack
    metric: str
    k: int
    targeted: ClassVar[bool] = False

    @property
    def rule(self) -> StepRule:
        return self.attack.rule

    @property
    def output_weight(self) -> float:
        return self.attack.output_weight

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return self.attack.objective(maps)

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        metric = METRICS.make(self.metric, k=self.k)
        figure = metric(maps.moved, maps.original, maps.shape)
        if figure is None:  # the metric does not apply to such inputs: the attack's own score must do
            return self.attack.score(maps)
        sign = 1.0 if metric.rising else -1.0
        return (sign * figure.nan_to_num(nan=-sign * torch.inf)).to(maps.moved)
