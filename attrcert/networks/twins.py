"""A network run with smooth twins of its ReLUs, without touching the network [dombrowski2019explanations].

A ReLU network has a zero Hessian almost everywhere, so its Jacobian bounds would all be 0 and mean nothing. Under
`Twins(beta)` every ReLU, as a module, a function or a tensor method, in place or not, is computed as softplus with
that beta; so are ReLU6, LeakyReLU, PReLU and hardtanh, which are sums of ReLUs. softplus_beta(t) - relu(t) lies in
[0, ln 2 / beta]. Layers with frozen weights are computed by `frozen` in any case: the same values, cheaper derivatives.

torch continues softplus linearly where beta t > 20, and there its slope jumps by 2e-9: too little for float32 to show, but no bound of
the gradient's change holds across it. Networks with softplus of their own therefore run with the continuation from 40 on, where the jump
is below what float64 shows. A network that asks for a continuation below 20 keeps it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from attrcert.networks import frozen

# softplus is taken as the identity above this value of beta*t, where it differs from it by less than a float64 shows
_LINEAR_ABOVE = 40.0
_STOCK_THRESHOLD = 20.0


class Twins(TorchFunctionMode):
    """Active in a `with` block; `replaced` counts what was replaced, by kind. With beta None no activation is."""

    def __init__(self, beta: float | None) -> None:
        super().__init__()
        self.beta = beta
        self.replaced: Counter[str] = Counter()

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FROZEN:
            return applied(func, *args, **kwargs)
        twin = _TWINS.get(func) if self.beta is not None else None
        smooth = twin(self.beta, *args, **kwargs) if twin else None
        if smooth is None:
            return func(*args, **kwargs)
        self.replaced[func.__name__.partition(".")[0].strip("_")] += 1
        return smooth


def applied(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of torch, as `frozen` has it where it does."""
    linear = _FROZEN[func](*args, **kwargs) if func in _FROZEN else None
    return func(*args, **kwargs) if linear is None else linear


def softplus(t: Tensor, beta: float) -> Tensor:
    return frozen.softplus(t, beta, _LINEAR_ABOVE)


def _own_softplus(input: Tensor, beta: float = 1.0, threshold: float = _STOCK_THRESHOLD) -> Tensor:
    """A softplus of the network's own, without torch's jump."""
    return frozen.softplus(input, beta, threshold if threshold < _STOCK_THRESHOLD else max(threshold, _LINEAR_ABOVE))


def _written(t: Tensor, twin: Callable[[Tensor], Tensor], inplace: bool) -> Tensor:
    """The twin of t; where the original writes into t, t is written too, whoever reads it next."""
    return t.copy_(twin(t.clone())) if inplace else twin(t)


def _relu(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    return _written(input, lambda t: softplus(t, beta), inplace)


def _relu_(beta: float, input: Tensor) -> Tensor:
    return _relu(beta, input, inplace=True)


def _hardtanh(beta: float, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    return _written(input, lambda t: min_val + softplus(t - min_val, beta) - softplus(t - max_val, beta), inplace)


def _relu6(beta: float, input: Tensor, inplace: bool = False) -> Tensor:
    return _hardtanh(beta, input, 0.0, 6.0, inplace)


def _leaky_relu(beta: float, input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return _written(input, lambda t: negative_slope * t + (1 - negative_slope) * softplus(t, beta), inplace)


def _leaky_relu_(beta: float, input: Tensor, negative_slope: float = 0.01) -> Tensor:
    return _leaky_relu(beta, input, negative_slope, inplace=True)


def _prelu(beta: float, input: Tensor, weight: Tensor) -> Tensor:
    slope = weight.view(-1, *[1] * (input.ndim - 2)) if weight.numel() > 1 else weight
    return slope * input + (1 - slope) * softplus(input, beta)


def _clamp(beta: float, input: Tensor, min: Any = None, max: Any = None) -> Tensor | None:
    """clamp(min=0) is a ReLU under another name, and clamp(0, 6) a ReLU6; any other clamp is left alone."""
    if not isinstance(min, Tensor) and not isinstance(max, Tensor) and (min, max) == (0, 6):
        return _relu6(beta, input)
    return softplus(input, beta) if _is_relu(min, max) else None


def _maximum(beta: float, input: Tensor, other: Any = None, *_rest: Any, **_named: Any) -> Tensor | None:
    """maximum(t, 0) is one too, as is maximum(0, t); max has other uses."""
    if not isinstance(other, Tensor):
        return None
    return next((softplus(t, beta) for t, end in ((input, other), (other, input)) if _is_zero(end)), None)


def _is_zero(end: Tensor) -> bool:
    return end.numel() == 1 and not end.requires_grad and float(end) == 0


def _clamp_(beta: float, input: Tensor, min: Any = None, max: Any = None) -> Tensor | None:
    return _relu(beta, input, inplace=True) if _is_relu(min, max) else None


def _is_relu(low: Any, high: Any) -> bool:
    return high is None and isinstance(low, int | float) and low == 0


_aten = torch.ops.aten  # as exported programs call them
_CLAMPS = (_aten.clamp.default, _aten.clamp_min.default)
_FROZEN: dict[Any, Callable[..., Tensor | None]] = {
    torch.conv1d: frozen.convolution,
    _aten.conv1d.default: frozen.convolution,
    _aten.conv2d.default: frozen.convolution,
    _aten.softplus.default: _own_softplus,
    torch.conv2d: frozen.convolution,
    torch.conv3d: frozen.convolution,
    F.batch_norm: frozen.batch_norm,
    F.softplus: _own_softplus,
}

_TWINS: dict[Any, Callable[..., Tensor | None]] = {
    original: twin
    for twin, originals in (
        (_relu, (F.relu, torch.relu, Tensor.relu, _aten.relu.default)),
        (_relu_, (torch.relu_, Tensor.relu_, _aten.relu_.default)),
        (_relu6, (F.relu6, _aten.relu6.default)),
        (_hardtanh, (F.hardtanh, _aten.hardtanh.default)),
        (_leaky_relu, (F.leaky_relu, _aten.leaky_relu.default)),
        (_leaky_relu_, (F.leaky_relu_, _aten.leaky_relu_.default)),
        (_prelu, (F.prelu, torch.prelu, _aten.prelu.default)),
        (_maximum, (torch.maximum, Tensor.maximum, torch.max, Tensor.max, torch.fmax, Tensor.fmax)),
        (_clamp, (torch.clamp, Tensor.clamp, torch.clip, Tensor.clip, torch.clamp_min, Tensor.clamp_min, *_CLAMPS)),
        (_clamp_, (torch.clamp_, Tensor.clamp_, torch.clip_, Tensor.clip_, torch.clamp_min_, Tensor.clamp_min_)),
    )
    for original in originals
}
