"""Layer-wise relevance propagation: the logit, shared out layer by layer down to the pixels [bach2015pixelwise]."""

from dataclasses import dataclass

from torch import Tensor

from attrcert.attributions.backward import Backward
from attrcert.errors import AttributionError
from attrcert.networks.classifier import Classifier
from attrcert.networks.relevance import Relevance
from attrcert.networks.ruled import RuledTwins
from attrcert.vocabulary import LRP_STABILISER


@dataclass(frozen=True)
class LayerwiseRelevance(Backward):
    """z+ inside and `rule` at the input: zb (the box of pixels), z-plus or w-square, see networks.relevance. It begins with the logit."""

    rule: str = "zb"
    stabiliser: float = LRP_STABILISER
    chunk: int | None = None
    held: int | None = None
    name = "lrp"

    def rules(self, f: Classifier, leaf: Tensor) -> RuledTwins:
        if self.rule == "zb" and not f.within.widest < float("inf"):
            raise AttributionError(
                "lrp by zB needs inputs that lie in a box, and nothing bounds these",
                hint="--input-range LO,HI, or --lrp-rule w-square or z-plus",
            )
        return Relevance(f.beta, self.rule, self.stabiliser, leaf, f.within)

    def begin(self, logits: Tensor) -> Tensor:
        return logits
