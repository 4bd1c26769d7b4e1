"""Smooth activations s, and enclosures of s', of the secants of s and of the secants of s' over intervals.

A secant of s from z is (s(z+t) - s(z)) / t, the mean of s' between z and z+t. Where s' is monotone between z and z+t it lies between
s'(z) and the secant at the end; elsewhere it lies in the range of s'. The same holds one derivative higher. Ranges of s' and s''
are those of the ends of the interval and of the critical points inside.

Only s' must be Lipschitz: ELU (alpha 1), whose s'' jumps, is among them.

Notation: value s, slope s', bend s''; `turns` are the zeros of s'', where s' turns, `flexes` those of s''', where s'' turns (and the
jumps of s''); `quickest` is at least |s'''| over the largest |s''|, `jump` is how far s'' jumps at 0.

A curve with flexes has |s'| <= `STEEPEST`. One without (`powers`) may be as steep and as bent as it likes elsewhere: what is asked of it
is asked near z, where |s'''| <= quickest |s''|.

z itself may be off: ranges then are those of all points within `off` of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

Vector = Float[Tensor, "b ..."]
Function = Callable[[Tensor], Tensor]
CANCELLATION = 8 * torch.finfo(torch.float64).eps  # of either value, in a difference of two
STEEPEST = 1.13  # at least |s'| of every curve with flexes


class Curve(Protocol):
    """An activation with two derivatives, computed without cancellation."""

    @property
    def turns(self) -> tuple[float, ...]: ...
    @property
    def flexes(self) -> tuple[float, ...]: ...
    @property
    def quickest(self) -> float: ...
    @property
    def jump(self) -> float: ...
    def value(self, z: Tensor) -> Tensor: ...
    def slope(self, z: Tensor) -> Tensor: ...
    def bend(self, z: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Range:
    """low <= ... <= high, entry by entry."""

    low: Vector
    high: Vector

    @property
    def centre(self) -> Vector:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> Vector:
        return (self.high - self.low) / 2

    @property
    def largest(self) -> Vector:
        """The largest modulus."""
        return torch.maximum(self.low.abs(), self.high.abs())

    def widened(self, by: Vector) -> "Range":
        return Range(self.low - by, self.high + by)

    def __mul__(self, other: "Range") -> "Range":
        ends = torch.stack([a * b for a in (self.low, self.high) for b in (other.low, other.high)])
        return Range(ends.amin(dim=0), ends.amax(dim=0))

    def meet(self, other: "Range") -> "Range":
        """Where both hold."""
        return Range(torch.maximum(self.low, other.low), torch.minimum(self.high, other.high))

    def join(self, other: "Range") -> "Range":
        """Where one of them holds."""
        return Range(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))


def slopes(curve: Curve, z: Vector, r: Vector, off: Vector | float = 0.0) -> Range:
    """s' over [z - r, z + r]."""
    return extent(curve.slope, curve.turns, *_reached(z, r, off))


def secants(curve: Curve, z: Vector, r: Vector, off: Vector | float = 0.0) -> Range:
    """(s(z+t) - s(z)) / t over 0 < |t| <= r, and s'(z)."""
    left, right = (_one_side(curve.value, curve.slope, curve.turns, z, t) for t in (-r, r))
    bend = extent(curve.bend, curve.flexes, *_reached(z, r, off))  # by which a secant changes with z
    return left.join(right).widened(off * bend.largest)


def bends(curve: Curve, z: Vector, r: Vector, off: Vector | float = 0.0) -> Range:
    """(s'(z+t) - s'(z)) / t over 0 < |t| <= r, and s''(z) where it exists."""
    left, right = (_one_side(curve.slope, curve.bend, curve.flexes, z, t) for t in (-r, r))
    from_z = left.join(right)
    whole = extent(curve.bend, curve.flexes, *_reached(z, r, off))
    third = curve.quickest * sharpest(curve, z, off)
    crossed = curve.jump / (z.abs() - off).clamp_min(torch.finfo(z.dtype).tiny)  # share of t on which s'' jumps
    return from_z.widened((off * (third + crossed)).nan_to_num(0.0, torch.inf)).meet(whole.join(from_z))


def largest_bend(curve: Curve, z: Vector, r: Vector) -> Vector:
    """The largest |s''| over [z - r, z + r]."""
    return extent(curve.bend, curve.flexes, *_reached(z, r, 0.0)).largest


def sharpest(curve: Curve, z: Vector, off: Vector | float = 0.0) -> Tensor:
    """The largest |s''|: of all, or within `off` of z where there are no flexes."""
    if not curve.flexes:
        return extent(curve.bend, (), *_reached(z, torch.zeros_like(z), off)).largest
    return curve.bend(z.new_tensor(curve.flexes)).abs().max()


def steepest(curve: Curve, z: Vector, r: Vector) -> Vector | float:
    """At least |s'| within r of z."""
    return STEEPEST if curve.flexes else slopes(curve, z, r).largest


def blurred(curve: Curve, z: Vector, off: Vector) -> Vector:
    """About how much of the largest |s''| an error of z takes; of |s''(z)| where there are no flexes."""
    if curve.flexes:
        return curve.quickest * off
    bend = extent(curve.bend, (), *_reached(z, torch.zeros_like(z), off))
    return (bend.high - bend.low) / bend.largest


def _reached(z: Vector, r: Vector, off: Vector | float) -> tuple[Vector, Vector]:
    """The ends of the interval, moved outwards by rounding."""
    r = r + off
    r = r + CANCELLATION * (z.abs() + r)
    return z - r, z + r


def extent(function: Function, critical: tuple[float, ...], low: Vector, high: Vector) -> Range:
    ends = Range(function(low), function(low)).join(Range(function(high), function(high)))
    for point in critical:
        inside = (low <= point) & (point <= high)
        peak = function(low.new_tensor(point)).expand_as(low)
        ends = Range(
            torch.where(inside, torch.minimum(ends.low, peak), ends.low),
            torch.where(inside, torch.maximum(ends.high, peak), ends.high),
        )
    return ends


def _one_side(function: Function, derivative: Function, critical: tuple[float, ...], z: Vector, t: Vector) -> Range:
    blur = CANCELLATION * (z.abs() + t.abs())  # what rounding does to z + t
    low, high = torch.minimum(z, z + t) - blur, torch.maximum(z, z + t) + blur
    start, first, last = derivative(z), function(z), function(z + t)
    derivatives = extent(derivative, critical, low, high).join(Range(start, start))
    length = torch.where(t == 0, 1.0, t)
    end = torch.where(t == 0, start, (last - first) / length)
    doubt = (CANCELLATION * (first.abs() + last.abs()) + blur * derivatives.largest) / length.abs()
    monotone = torch.ones_like(z, dtype=torch.bool)
    for point in critical:
        monotone &= (point <= torch.minimum(z, z + t)) | (torch.maximum(z, z + t) <= point)
    between = Range(torch.minimum(start, end - doubt), torch.maximum(start, end + doubt)).meet(derivatives)
    return Range(
        torch.where(monotone, between.low, derivatives.low), torch.where(monotone, between.high, derivatives.high)
    )


def _normal_density(z: Tensor) -> Tensor:
    return torch.exp(-z * z / 2) / sqrt(2 * pi)


def _normal_share(z: Tensor) -> Tensor:
    """Phi(z), whose tail torch.special.ndtr cancels."""
    return torch.special.erfc(-z / sqrt(2)) / 2


@dataclass(frozen=True)
class Softplus:
    """ln(1 + exp(beta z)) / beta, without torch's linear continuation (`loading.twins` runs it from beta z = 40 on)."""

    beta: float = 1.0
    turns: tuple[float, ...] = ()
    flexes: tuple[float, ...] = (0.0,)
    jump: float = 0.0

    @property
    def quickest(self) -> float:
        return 0.385 * self.beta

    def value(self, z: Tensor) -> Tensor:
        return -torch.nn.functional.logsigmoid(-self.beta * z) / self.beta  # logaddexp's second derivative overflows

    def slope(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.beta * z)

    def bend(self, z: Tensor) -> Tensor:
        return self.beta * torch.sigmoid(self.beta * z) * torch.sigmoid(-self.beta * z)


@dataclass(frozen=True)
class Sigmoid:
    turns: tuple[float, ...] = (0.0,)
    flexes: tuple[float, ...] = (-log(2 + sqrt(3)), log(2 + sqrt(3)))
    quickest: float = 1.3
    jump: float = 0.0

    def value(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z)

    def slope(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z) * torch.sigmoid(-z)

    def bend(self, z: Tensor) -> Tensor:
        return -self.slope(z) * torch.tanh(z / 2)


@dataclass(frozen=True)
class Tanh:
    turns: tuple[float, ...] = (0.0,)
    flexes: tuple[float, ...] = (-log(2 + sqrt(3)) / 2, log(2 + sqrt(3)) / 2)
    quickest: float = 2.6
    jump: float = 0.0

    def value(self, z: Tensor) -> Tensor:
        return torch.tanh(z)

    def slope(self, z: Tensor) -> Tensor:
        return 4 * torch.sigmoid(2 * z) * torch.sigmoid(-2 * z)

    def bend(self, z: Tensor) -> Tensor:
        return -2 * torch.tanh(z) * self.slope(z)


@dataclass(frozen=True)
class Gelu:
    """z Phi(z), the exact one."""

    turns: tuple[float, ...] = (-sqrt(2), sqrt(2))
    flexes: tuple[float, ...] = (-2.0, 0.0, 2.0)
    quickest: float = 0.977
    jump: float = 0.0

    def value(self, z: Tensor) -> Tensor:
        return z * _normal_share(z)

    def slope(self, z: Tensor) -> Tensor:
        return _normal_share(z) + z * _normal_density(z)

    def bend(self, z: Tensor) -> Tensor:
        return _normal_density(z) * (2 - z * z)


@dataclass(frozen=True)
class Silu:
    """z sigmoid(z)."""

    turns: tuple[float, ...] = (-2.399357280515467, 2.399357280515467)
    flexes: tuple[float, ...] = (-3.435840993535111, 0.0, 3.435840993535111)
    quickest: float = 0.617
    jump: float = 0.0

    def value(self, z: Tensor) -> Tensor:
        return z * torch.sigmoid(z)

    def slope(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z) * (1 + z * torch.sigmoid(-z))

    def bend(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z) * torch.sigmoid(-z) * (2 - z * torch.tanh(z / 2))


@dataclass(frozen=True)
class Elu:
    """z, and exp(z) - 1 below 0: the one ELU (alpha 1) whose slope does not jump. bend(0) is its larger one-sided value."""

    turns: tuple[float, ...] = ()
    flexes: tuple[float, ...] = (0.0,)
    quickest: float = 1.0
    jump: float = 1.0

    def value(self, z: Tensor) -> Tensor:
        return torch.where(z > 0, z, torch.expm1(z.clamp_max(0.0)))

    def slope(self, z: Tensor) -> Tensor:
        return torch.exp(z.clamp_max(0.0))

    def bend(self, z: Tensor) -> Tensor:
        return torch.where(z > 0, 0.0, torch.exp(z.clamp_max(0.0)))
