"""Grad-CAM: g(x) = sum_k mean(df_y/dA_k) A_k, A_k the channels of a layer's output [selvaraju2017gradcam].

The map is as coarse as the layer, and signed: the paper's ReLU at the end, which leaves what speaks for the class alone, is not taken.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attrcert.attributions.differentiated import Differentiated, classifier_of
from attrcert.attributions.gradient import TALLY
from attrcert.attributions.layers import chosen, layer_of
from attrcert.errors import AttributionError
from attrcert.networks.classifier import Classifier
from attrcert.types import Classes, Inputs, Logits

OPTION = "--layer "


@dataclass(frozen=True)
class GradCam(Differentiated):
    """A layer's channels, weighted by their mean gradient; `layer` is a module's name, the last convolution where it is None."""

    layer: str | None = None
    chunk: int | None = None
    held: int | None = None
    name = "grad-cam"

    def maps(self, f: Logits, x: Inputs, y: Classes, *, twice: bool) -> tuple[Tensor, Tensor]:
        TALLY.derivatives += len(x)
        classifier, leaf = classifier_of(f, self.name), x.detach().clone().requires_grad_()
        name, module = layer_of(classifier.network, self.layer, OPTION, self.name)
        with torch.enable_grad():
            logits, A = _with_output(classifier, module, leaf)
            if A is None or A.ndim < 3:
                shape = "none" if A is None else str(tuple(A.shape))
                raise AttributionError(
                    f"{self.name} needs a layer that gives (batch, channels, ...), {name} gives {shape}",
                    hint=f"{OPTION}NAME of a convolution or pooling",
                )
            (slope,) = torch.autograd.grad(
                logits.gather(1, y[:, None]).sum(), A, create_graph=twice, materialize_grads=True
            )
            return leaf, (slope.flatten(2).mean(dim=2).view(*A.shape[:2], *[1] * (A.ndim - 2)) * A).sum(1, keepdim=True)

    def map_shape(self, f: Logits, x: Inputs) -> tuple[int, ...]:
        y = torch.zeros(1, dtype=torch.int64, device=x.device)
        return tuple(self.maps(f, x[:1], y, twice=False)[1].shape[1:])

    def note(self, f: Logits) -> str:
        if self.layer is not None:
            return ""
        return chosen(layer_of(classifier_of(f, self.name).network, None, OPTION, self.name)[0], OPTION)


def _with_output(f: Classifier, module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """The logits, and what the layer gave when it was last called; whoever writes into that writes into a copy."""
    given: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: object) -> Tensor | None:
        if not isinstance(output, Tensor):
            return None
        given.append(output)
        return output.clone()

    handle = module.register_forward_hook(keep)
    try:
        return f(x), given[-1] if given else None
    finally:
        handle.remove()
