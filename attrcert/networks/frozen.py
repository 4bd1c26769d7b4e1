"""Layers with frozen weights as the linear maps they are, so that their second derivative costs no more than their first.

Torch's double backward of a convolution computes the gradient of the weights whether anybody wants it or not, and on a
CPU that takes most of the time of a Hessian product. With frozen weights a convolution is linear in its input: its
backward is the adjoint map, and the backward of that is the convolution again. Batch norm in eval mode is affine.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

FEW_CHANNELS = 4  # as images have: for so few the adjoint of a CPU's library takes longer than columns and their sum


class _Convolution(torch.autograd.Function):
    """x -> conv(x, weight) + bias; `geometry` is (stride, padding, dilation, groups)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: tuple[Any, ...]) -> Tensor:
        ctx.weight, ctx.geometry, ctx.shape = weight, geometry, x.shape
        ctx.set_materialize_grads(False)
        stride, padding, dilation, groups = geometry
        return torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        if gradients[0] is None:  # it was passed on by a rule
            return None, None, None, None
        return _Adjoint.apply(gradients[0], ctx.weight, ctx.geometry, ctx.shape), None, None, None  # type: ignore[no-untyped-call]


class _Adjoint(torch.autograd.Function):
    """The adjoint of the convolution, onto inputs of the given shape."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, geometry: tuple[Any, ...], shape: torch.Size) -> Tensor:
        ctx.weight, ctx.geometry = weight, geometry
        stride, padding, dilation, groups = geometry
        sides, kernel = shape[2:], weight.shape[2:]
        if y.device.type == "cpu" and groups == 1 and len(sides) == 2 and shape[1] <= FEW_CHANNELS:
            return F.fold(weight.flatten(1).mT @ y.flatten(2), sides, kernel, dilation, padding, stride)
        reached = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(y.shape[2:], stride, padding, dilation, kernel, strict=True)
        ]
        beyond = [side - end for side, end in zip(sides, reached, strict=True)]
        return torch.ops.aten.convolution(y, weight, None, stride, padding, dilation, True, beyond, groups)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return _Convolution.apply(gradients[0], ctx.weight, None, ctx.geometry), None, None, None  # type: ignore[no-untyped-call]


class _Softplus(torch.autograd.Function):
    """softplus whose second derivative does not cancel: torch computes s (1 - s), which is 0 in float32 from beta t = 17 on.

    The slope that the graph of a gradient holds serves every product with that graph.
    """

    @staticmethod
    def forward(ctx: Any, t: Tensor, beta: float, threshold: float) -> Tensor:
        ctx.save_for_backward(t)
        ctx.beta, ctx.threshold, ctx.slope, ctx.kept, ctx.passes = beta, threshold, None, None, 0
        ctx.set_materialize_grads(False)
        return F.softplus(t, beta, threshold)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None, None]:
        if gradients[0] is None:
            return None, None, None
        (t,) = ctx.saved_tensors
        slope = ctx.slope
        if slope is None and not torch.is_grad_enabled():
            ctx.passes += 1
            slope = _slope(t, ctx.beta, ctx.threshold) if ctx.kept is None else ctx.kept
            ctx.kept = slope if ctx.passes > 1 else None  # of a gradient alone nothing is kept, of products it is
        elif slope is None:
            slope = ctx.slope = _Slope.apply(t, ctx.beta, ctx.threshold)  # type: ignore[no-untyped-call]
        return gradients[0] * slope, None, None


class _Slope(torch.autograd.Function):
    """The first derivative of softplus as a function of its own; the second is computed with it, once for all products."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, beta: float, threshold: float) -> Tensor:
        ctx.beta, ctx.threshold = beta, threshold
        ctx.save_for_backward(t, _bend(t, beta, threshold))
        return _slope(t, beta, threshold)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        t, bend = ctx.saved_tensors
        # a third derivative is wanted, for which what was computed before is a constant
        further = torch.is_grad_enabled()
        return gradients[0] * (_bend(t, ctx.beta, ctx.threshold) if further else bend), None, None


def _slope(t: Tensor, beta: float, threshold: float) -> Tensor:
    """The first derivative of softplus."""
    return torch.where(beta * t > threshold, 1.0, torch.sigmoid(beta * t))


def _bend(t: Tensor, beta: float, threshold: float) -> Tensor:
    """The second derivative of softplus."""
    return torch.where(beta * t > threshold, 0.0, beta * torch.sigmoid(beta * t) * torch.sigmoid(-beta * t))


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """torch's softplus, with an accurate second derivative."""
    return _Softplus.apply(input, beta, threshold)  # type: ignore[no-untyped-call]


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor | None:
    """conv1d, conv2d or conv3d; None where the weights are trained or the padding is a word, which torch does itself."""
    trained = weight.requires_grad or (bias is not None and bias.requires_grad)
    if trained or isinstance(padding, str) or input.ndim != weight.ndim:
        return None
    sides = weight.ndim - 2
    geometry = (_each(stride, sides), _each(padding, sides), _each(dilation, sides), groups)
    return _Convolution.apply(input, weight, bias, geometry)  # type: ignore[no-untyped-call]


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """The affine map of eval mode; with batch statistics, torch's own."""
    if training or running_mean is None or running_var is None:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    scale, shift = scale_and_shift(running_mean, running_var, weight, bias, eps)
    broadcast = (-1, *[1] * (input.ndim - 2))
    return torch.addcmul(shift.view(broadcast), input, scale.view(broadcast))


def scale_and_shift(
    running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Of a batch norm in eval mode, by channel."""
    scale = torch.rsqrt(running_var + eps) * (1.0 if weight is None else weight)
    return scale, -running_mean * scale + (0.0 if bias is None else bias)


def _each(value: Any, sides: int) -> list[int]:
    return [value] * sides if isinstance(value, int) else list(value) * (sides // len(value))
