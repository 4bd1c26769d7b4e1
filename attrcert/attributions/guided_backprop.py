"""Guided backpropagation: the gradient, but activations pass back what is positive alone [springenberg2015striving]."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.attributions.backward import Backward
from attrcert.networks.classifier import Classifier
from attrcert.networks.guided import Guided
from attrcert.networks.ruled import RuledTwins


@dataclass(frozen=True)
class GuidedBackprop(Backward):
    """The gradient without what activations get that is negative; smooth where ReLUs run as softplus, see networks.guided."""

    chunk: int | None = None
    held: int | None = None
    name = "guided-backprop"

    def rules(self, f: Classifier, leaf: Tensor) -> RuledTwins:
        return Guided(f.beta)

    def begin(self, logits: Tensor) -> Tensor:
        return torch.ones_like(logits)
