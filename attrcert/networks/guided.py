"""A network whose activations pass back positive gradients alone [springenberg2015striving, dombrowski2019explanations].

At an activation s(t) that gets R, t gets R^+ s'(t), with R^+ = max(R, 0). Under softplus of some beta R^+ is smooth too, softplus_beta in
units of sigma = the root mean square of R over the layer: R^+ = sigma softplus_beta(R / sigma).

Departures: dombrowski2019explanations has softplus_beta(R). R has another scale than t: where it is far below 1 / beta, softplus_beta(R)
is nearly the constant ln 2 / beta, and the map says little about the input. In units of sigma the map scales with the logit, like the
map of the ReLU network, to which it tends as beta grows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attrcert.networks.ruled import ACTIVATIONS, RuledTwins, tensors


class Guided(RuledTwins):
    """Every activation that torch has as a function is a gate, whatever its kind; all else passes back its gradient, also an activation
    that is put together of comparisons and products.
    """

    def called(self, func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if name not in ACTIVATIONS or not any(one.requires_grad for one in tensors((args, kwargs))):
            return self.plain(func, args, kwargs)
        result, _, into = self.with_operand(func, args, kwargs)
        beta = self.beta  # and not self, which is not to be kept
        gated = self.ruled(result, lambda R: (positive(R, beta),))
        return gated if into is None else into.copy_(gated)


def positive(R: Tensor, beta: float | None) -> Tensor:
    """R^+ of each sample's layer."""
    if beta is None:
        return R.clamp(min=0)
    square = R.flatten(1).square().mean(dim=1).view(-1, *[1] * (R.ndim - 1))
    sigma = torch.where(square > 0, square, 1.0).sqrt()
    return (sigma * (square > 0)) * F.softplus(R / sigma, beta)
