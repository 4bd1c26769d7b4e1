"""A layer of a network by its module's name; the last convolution where nobody named one."""

from torch import nn

from attrcert.errors import AttributionError
from attrcert.registry import unknown


def layer_of(network: nn.Module | None, wanted: str | None, option: str, by: str) -> tuple[str, nn.Module]:
    """Its name and itself; `option` is how `by` is told another one."""
    layers = {} if network is None else {name: one for name, one in network.named_modules() if name}
    if wanted is not None:
        if wanted not in layers:
            raise unknown(option.rstrip(" ="), wanted, layers, where="it is a module's name")
        return wanted, layers[wanted]
    convolutions = [name for name, one in layers.items() if isinstance(one, nn.Conv1d | nn.Conv2d | nn.Conv3d)]
    if not convolutions:
        raise AttributionError(
            f"{by} needs a layer, and the network has no convolution", hint=f"{option}NAME, one of {', '.join(layers)}"
        )
    return convolutions[-1], layers[convolutions[-1]]


def chosen(name: str, option: str) -> str:
    """What is said of a layer that nobody named."""
    return f"of the layer {name}, the last convolution ({option}NAME chooses another)"
