"""Maps that a backward pass with rules of its own leaves at the input."""

from abc import abstractmethod

import torch
from torch import Tensor

from attrcert.attributions.differentiated import Differentiated, classifier_of
from attrcert.attributions.gradient import TALLY
from attrcert.errors import AttributionError
from attrcert.networks.classifier import Classifier
from attrcert.networks.ruled import RuledTwins, Unruled
from attrcert.networks.tracing import Called
from attrcert.types import Classes, Inputs, Logits


class Backward(Differentiated):
    """What arrives at the input when a class's logit is passed back under rules."""

    @abstractmethod
    def rules(self, f: Classifier, leaf: Tensor) -> RuledTwins:
        """Those of one pass."""

    @abstractmethod
    def begin(self, logits: Tensor) -> Tensor:
        """What is passed back, of the logits of the classes."""

    def maps(self, f: Logits, x: Inputs, y: Classes, *, twice: bool) -> tuple[Tensor, Tensor]:
        TALLY.derivatives += len(x)
        classifier, leaf = classifier_of(f, self.name), x.detach().clone().requires_grad_()
        rules = self.rules(classifier, leaf)
        with torch.enable_grad():
            logits = self._run(classifier, rules, leaf).gather(1, y[:, None])
            (g,) = torch.autograd.grad(logits, leaf, self.begin(logits), create_graph=twice, materialize_grads=True)
        rules.once.open = False
        return leaf, g

    def _run(self, f: Classifier, rules: RuledTwins, leaf: Tensor) -> Tensor:
        """The logits; what has no rule is refused by its name and place."""
        try:
            logits = f.under(rules, leaf)
            rules.finish(logits)
            return logits
        except Unruled as missing:
            called = Called(f.network)
            with torch.no_grad():
                f.under(called, leaf)
            _, place = called.names[rules.calls - 1]
            raise AttributionError(
                f"{self.name} has no rule for {missing} in {place}",
                hint="saliency, input-x-gradient and integrated-gradients take every network that has a gradient",
            ) from missing
