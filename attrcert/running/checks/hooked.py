"""Captum's methods that work by hooks on modules: an activation that a network calls as a function is not seen by them."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attrcert.attributions import ATTRIBUTIONS
from attrcert.attributions.captum_methods import CaptumMethod
from attrcert.errors import AttributionError
from attrcert.networks.classifier import Classifier
from attrcert.networks.tracing import Called
from attrcert.vocabulary import some


@dataclass(frozen=True)
class Hooks:
    """The modules that a method changes, and whether it is another method where there are none of them."""

    kinds: tuple[type[nn.Module], ...]
    needed: bool = True
    ours: str = ""  # the attribution of attrcert that needs no modules

    @property
    def functions(self) -> tuple[str, ...]:
        """What the modules call."""
        return tuple(dict.fromkeys(FUNCTIONS[kind] for kind in self.kinds))


FUNCTIONS: Mapping[type[nn.Module], str] = {
    nn.ReLU: "relu", nn.ELU: "elu", nn.LeakyReLU: "leaky_relu", nn.Sigmoid: "sigmoid", nn.Tanh: "tanh", nn.Softplus: "softplus",
    nn.MaxPool1d: "max_pool1d", nn.MaxPool2d: "max_pool2d", nn.MaxPool3d: "max_pool3d", nn.Softmax: "softmax",
}  # fmt: skip
_RELU = Hooks((nn.ReLU,), ours="guided-backprop")
HOOKED: Mapping[str, Hooks] = {  # by words in their names
    "GuidedBackprop": _RELU,
    "GuidedGradCam": _RELU,
    "Deconvolution": Hooks((nn.ReLU,)),
    "DeepLift": Hooks(tuple(FUNCTIONS)),
    "LRP": Hooks((nn.ReLU, nn.Tanh), needed=False, ours="lrp"),
}


def check_hooked(method: CaptumMethod, f: Classifier, x: Float[Tensor, "b *shape"]) -> None:
    """Refuse a method that would give another map without a word."""
    hooks = next((one for word, one in HOOKED.items() if word in method.name), None)
    if hooks is None:
        return
    modules, name = dict(f.network.named_modules()), f"captum:{method.name}"
    kinds = ", ".join(f"nn.{kind.__name__}" for kind in hooks.kinds)
    ours = f"; or --attribution {hooks.ours}" if hooks.ours in ATTRIBUTIONS else ""
    with Called(f.network) as called, torch.no_grad():
        f.original()(x[:1])
    outside = [
        f"{function.rstrip('_')} in {module}"
        for function, module in called.names
        if function.rstrip("_") in hooks.functions and not isinstance(modules.get(module), hooks.kinds)
    ]
    if outside:
        raise AttributionError(
            f"{name} changes modules alone ({kinds}), and the network calls functions: {some(dict.fromkeys(outside), 3)}",
            hint=f"make each a module of its own, e.g. self.act1 = nn.ReLU(){ours}",
        )
    if hooks.needed and not any(isinstance(module, hooks.kinds) for module in modules.values()):
        raise AttributionError(
            f"{name} needs modules of the kind {kinds}, and the network has none: it would be another map",
            hint=f"take another attribution, e.g. saliency{ours}",
        )
