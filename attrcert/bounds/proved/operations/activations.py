"""Activations and what is written in place: smooth ones as they are, ReLUs and their kin as the softplus twins that the classifier runs."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from attrcert.bounds.proved.building import SMOOTHER, Building, Ref, Unsupported
from attrcert.bounds.proved.curves import Curve, Elu, Gelu, Softplus
from attrcert.bounds.proved.operations import scaling
from attrcert.vocabulary import SOFTPLUS_BETA

ReadingRule = Callable[..., Any]
AS_SOFTPLUS = f"run ReLUs as softplus (--softplus-beta {SOFTPLUS_BETA:g}); {SMOOTHER}"


def activation(curve: Curve) -> ReadingRule:
    return lambda building, input, inplace=False: written(building, input, building.activate(curve, input), inplace)


def written(building: Building, input: Ref, result: Ref, inplace: bool) -> Ref:
    """In place, whoever reads the input next reads the result; who else shares its memory is not known."""
    if not inplace:
        return result
    if building.seen_elsewhere(input):
        raise Unsupported("an operation in place on a view", "write it out of place")
    input.step = result.step
    return input


def relu(building: Building, input: Ref, inplace: bool = False) -> Ref:
    return written(building, input, rectified(building, input, 0.0), inplace)


def relu_(building: Building, input: Ref) -> Ref:
    return relu(building, input, inplace=True)


def rectified(building: Building, input: Ref, bias: float) -> Ref:
    """relu(t - bias) as the twin that the classifier runs."""
    if building.beta is None:
        raise Unsupported("relu", AS_SOFTPLUS)
    shifted = scaling.scaled(building, input, shift=-bias) if bias else input
    return building.activate(Softplus(building.beta), shifted)


def hardtanh(building: Building, input: Ref, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Ref:
    low, high = (rectified(building, input, bias) for bias in (min_val, max_val))
    steps = scaling.scaled(building, building.sum(low, scaling.negated(building, high)), shift=min_val)
    return written(building, input, steps, inplace)


def relu6(building: Building, input: Ref, inplace: bool = False) -> Ref:
    return hardtanh(building, input, 0.0, 6.0, inplace)


def leaky_relu(building: Building, input: Ref, negative_slope: float = 0.01, inplace: bool = False) -> Ref:
    bent = scaling.scaled(building, rectified(building, input, 0.0), 1 - negative_slope)
    return written(building, input, building.sum(scaling.scaled(building, input, negative_slope), bent), inplace)


def prelu(building: Building, input: Ref, weight: Tensor) -> Ref:
    slope = weight.view(-1, *[1] * (len(input.shape) - 1)) if weight.numel() > 1 else weight
    bent = scaling.scaled(building, rectified(building, input, 0.0), 1 - slope)
    return building.sum(scaling.scaled(building, input, slope), bent)


def clamp(building: Building, input: Ref, min: Any = None, max: Any = None) -> Ref:
    if min == 0 and max in (None, 6):
        return relu(building, input) if max is None else relu6(building, input)
    raise Unsupported(f"clamp({min}, {max})", f"its gradient jumps; {SMOOTHER}")


def softplus(building: Building, input: Ref, beta: float = 1.0, threshold: float = 20.0) -> Ref:
    if threshold < 20:
        raise Unsupported(f"softplus with threshold {threshold}", "its gradient jumps there: use 20 or more")
    return building.activate(Softplus(float(beta)), input)


def gelu(building: Building, input: Ref, approximate: str = "none") -> Ref:
    if approximate != "none":
        raise Unsupported(f"GELU approximated by {approximate}", "use the exact one")
    return building.activate(Gelu(), input)


def elu(building: Building, input: Ref, alpha: float = 1.0, inplace: bool = False) -> Ref:
    if alpha != 1:
        raise Unsupported(f"ELU with alpha {alpha}", "its gradient jumps at 0: use alpha 1")
    return written(building, input, building.activate(Elu(), input), inplace)


def copied(building: Building, input: Ref, *args: Any, **options: Any) -> Ref:
    """The same numbers in a memory of their own."""
    return Ref(input.step, input.shape)


def in_place(rule: ReadingRule) -> ReadingRule:
    """A rule of arithmetic, whose result is written into its first operand."""

    def into(building: Building, input: Any, other: Any) -> Ref:
        result = rule(building, input, other)
        return written(building, input, result, inplace=isinstance(input, Ref))

    return into


def stochastic_depth(building: Building, input: Ref, p: float, mode: str, training: bool = True) -> Ref:
    return dropout(building, input, p, training and p > 0)


def dropout(building: Building, input: Ref, p: float = 0.5, training: bool = False, inplace: bool = False) -> Ref:
    if training:
        raise Unsupported("dropout in training mode", "put the network in eval mode")
    return input
