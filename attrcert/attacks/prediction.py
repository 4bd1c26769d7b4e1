"""Change the prediction: projected gradient ascent on the cross-entropy, and on the margin [madry2018towards, carlini2017towards].

To the loop, the logits are the map; the attacked class's own stands first in it. Either objective finds samples that the other misses:
the cross-entropy looks at all classes, the margin at the nearest one. The point with the smallest margin is kept.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.ascent.attack import Maps, Steepest
from attrcert.attributions.own import Model, Own


@dataclass(frozen=True)
class PredictionAttack(Steepest):
    """Climb the cross-entropy of the label, or without one of the class predicted at x, and the margin of the others; it keeps no label."""

    keeps_label: ClassVar[bool] = False

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        # by margins, so that its gradient does not vanish where the class is nearly certain
        lead = (maps.moved[:, 1:] - maps.moved[:, :1]).logsumexp(dim=1)
        return torch.nn.functional.softplus(lead, threshold=100.0)

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        return -margin(maps.moved)


@dataclass(frozen=True)
class MarginAttack(PredictionAttack):
    """Its second half: climb what is kept, the margin itself."""

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return self.score(maps)


def margin(logits: Float[Tensor, "rows k"]) -> Float[Tensor, " rows"]:
    """By how much the first logit is above all others."""
    return logits[:, 0] - logits[:, 1:].amax(dim=1)


def class_first(logits: Float[Tensor, "rows k"], y: Int64[Tensor, " rows"]) -> Float[Tensor, "rows k"]:
    """The logits, that of class y before the others."""
    places = torch.arange(logits.shape[1], device=y.device).repeat(len(y), 1)
    others = places[places != y[:, None]].view(len(y), -1)
    return logits.gather(1, torch.cat([y[:, None], others], dim=1))


def _logits(model: Model, x: Tensor, y: Tensor) -> Tensor:
    return class_first(model(x), y)


LOGITS = Own(_logits, "the logits")
