"""Products of results, squares, roots and quotients: differences of squares, and powers of what stays above 0 (`powers`).

Where a product's factors change by about the same, neither square is much larger than the product: k is their ratio at noise, and a power
of two, so that it rounds nothing. Any k is right.
"""

from math import isfinite, log2
from typing import Any

from torch import Tensor

from attrcert.bounds.proved.affine import NonNegative
from attrcert.bounds.proved.building import Building, Ref, Unsupported, number
from attrcert.bounds.proved.operations import scaling
from attrcert.bounds.proved.operations.broadcasting import alike
from attrcert.bounds.proved.powers import Power, Square

AWAY = "add a positive constant to it first, as in sqrt(mean of squares + eps): its derivatives are infinite at 0"


def multiplied(building: Building, input: Any, other: Any) -> Ref:
    if isinstance(input, Ref) and isinstance(other, Ref):
        return product(building, input, other)
    return scaling.scaled(building, input, other) if isinstance(input, Ref) else scaling.scaled(building, other, input)


def product(building: Building, first: Ref, second: Ref) -> Ref:
    """x y = (k x / 2 + y / (2 k))^2 - (k x / 2 - y / (2 k))^2."""
    if first.step == second.step:
        return squared(building, first)
    k = _balance(building.seen(first), building.seen(second))
    first, second = scaling.scaled(building, first, k / 2), scaling.scaled(building, second, 1 / (2 * k))
    x, y = alike(building, first, second)
    above, below = building.sum(x, y), building.sum(x, scaling.negated(building, y))
    return building.sum(building.activate(Square(), above), building.activate(Square(-1.0), below))


def _balance(first: Tensor, second: Tensor) -> float:
    """The root of the ratio of their changes."""
    sizes = [float((part[1] - part[0]).square().mean()) for part in (first, second)]
    ratio = sizes[1] / sizes[0] if min(sizes) > 0 else 1.0
    return 2.0 ** round(log2(ratio) / 4) if isfinite(ratio) and ratio > 0 else 1.0


def squared(building: Building, input: Ref) -> Ref:
    return building.activate(Square(), input)


def power(building: Building, input: Any, exponent: Any) -> Ref:
    if isinstance(input, Ref) and exponent in (2, -0.5, 0.5, -1):
        return squared(building, input) if exponent == 2 else _powered(building, input, float(exponent))
    raise Unsupported(f"the power {exponent}", "2, 1/2, -1/2 and -1 are understood")


def root(building: Building, input: Ref) -> Ref:
    return _powered(building, input, 0.5)


def inverse_root(building: Building, input: Ref) -> Ref:
    return _powered(building, input, -0.5)


def _powered(building: Building, input: Ref, exponent: float) -> Ref:
    """Of what is proved to stay above a positive number, or of such a power."""
    curve = building.steps[input.step].curve
    if isinstance(curve, Power):
        source, exponent = Ref(building.steps[input.step].inputs[0], input.shape), exponent * curve.exponent
        return source if exponent == 1 else building.activate(Power(exponent, curve.least), source)
    above = least(building, input.step)
    if above is None or above <= 0:
        raise Unsupported("a root or a quotient of what may be 0", AWAY)
    return building.activate(Power(exponent, above), input)


def least(building: Building, number: int) -> float | None:
    """What every entry of a step is at least, in exact arithmetic; None where that is not known."""
    step = building.steps[number]
    if isinstance(step.curve, Square) and step.curve.sign > 0:
        return 0.0
    if isinstance(step.curve, Power):
        return 0.0
    if step.operation is None:
        return None
    before = least(building, step.inputs[0])
    if before is None or before < 0:
        return None
    if isinstance(step.operation, NonNegative):
        return 0.0
    if isinstance(step.operation, scaling.Scaling) and bool((step.operation.scale >= 0).all()):
        return float((step.operation.shift - step.operation.lost).min())
    return None


def divided(building: Building, input: Any, other: Any) -> Ref:
    if isinstance(other, Ref):
        return multiplied(building, input, _powered(building, other, -1.0))
    return scaling.scaled(building, input, 1 / number(other, building.device))
