"""What the inputs of a layer get of its relevance: z+, zB and w^2 [bach2015pixelwise, montavon2017explaining].

Notation: a layer z = W a + b, split into W = W^+ + W^- and b = b^+ + b^-; R what its results get. Every rule shares R out in proportion to
what an input adds to a sum of positive terms,
    Z = W^+ p + W^- n + b^+,    a gets p * W^+T (R / Z) + n * W^-T (R / Z):
z+: p = max(a, 0), n = min(a, 0). zB, where a lies in the box [l, h]: p = a - l, n = a - h, without b. w^2: W^2 for W^+, b^2 for b^+, p = 1
and n = 0. Z is never negative, and a stabiliser is added to it; without b all of R is shared out, but for what that takes. Where Z is
small, as of inputs at the border of the box, shares change as fast as the stabiliser lets them.

Under softplus of some beta the parts are smooth where a can have either sign: p = softplus_beta(a), n = -softplus_beta(-a) = a - p. What
is behind an activation that is never negative is its own positive part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attrcert.networks.twins import softplus

EDGE = 1e-5  # of a box, relative to its width
Interval = tuple[Tensor, Tensor]  # what inputs lie between
Affine = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
Term = tuple[Tensor, Tensor | None, Tensor | None]  # a part of the inputs, its weights, the biases that are added


@dataclass(frozen=True)
class LayerRule:
    """`apply` makes W a + b of a, W and b; no W stands for positive ones that it knows. The rule is zB where there is a `box`, w^2 where
    `squared`, else z+. `beta` is None where parts are exact.
    """

    apply: Affine
    stabiliser: float
    weight: Tensor | None = None
    bias: Tensor | None = None
    signed: bool = True
    beta: float | None = None
    box: Interval | None = None
    squared: bool = False

    def share(self, R: Tensor, a: Tensor, *, z: Tensor) -> tuple[None, Tensor]:
        """What a gets; nothing goes through the gradient of the layer's own result z."""
        further = torch.is_grad_enabled()
        with torch.enable_grad():
            inner = a if self.box is None else _within(a, *self.box)
            terms = self._terms(inner)
            Z = _sum([self.apply(*term) for term in terms])
        parts = [part for part, _, _ in terms]
        given = _over(R, Z if self.box is None or inner is not a else _moving(Z.detach(), z), self.stabiliser)
        slopes = torch.autograd.grad(Z, parts, given, create_graph=further)
        return None, _sum([part * slope for part, slope in zip(parts, slopes, strict=True)])

    def _terms(self, a: Tensor) -> list[Term]:
        W, b = self.weight, self.bias
        if self.squared:
            return [(torch.ones_like(a).requires_grad_(), _squared(W), _squared(b))]
        if self.box is not None:
            low, high = self.box
            if W is None:
                return [(a - low, None, None)]
            return [(a - low, W.clamp(min=0), None), (a - high, W.clamp(max=0), None)]
        above = None if b is None else b.clamp(min=0)
        if W is None or not self.signed:
            p = positive_part(a, self.beta) if self.signed else a
            return [(p, None if W is None else W.clamp(min=0), above)]
        p, n = positive_part(a, self.beta), -positive_part(-a, self.beta)
        return [(p, W.clamp(min=0), above), (n, W.clamp(max=0), None)]


@dataclass(frozen=True)
class Sum:
    """A sum of results, by z+; of each, whether it can be negative."""

    signed: tuple[bool, ...]
    stabiliser: float
    beta: float | None

    def share(self, R: Tensor, *results: Tensor) -> tuple[Tensor | None, ...]:
        """What each gets."""
        parts = [positive_part(a, self.beta) if signed else a for a, signed in zip(results, self.signed, strict=True)]
        given = _over(R, _sum(parts), self.stabiliser)
        return None, *(part * given for part in parts)


class _Over(torch.autograd.Function):
    """R / (Z + stabiliser), whose derivatives are two products."""

    @staticmethod
    def forward(ctx: Any, R: Tensor, Z: Tensor, stabiliser: float) -> Tensor:
        ctx.stabiliser, inverse = stabiliser, (Z + stabiliser).reciprocal()
        given = R * inverse
        ctx.save_for_backward(R, Z, inverse, -given * inverse)
        return given

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (u,) = gradients
        R, Z, inverse, shrinking = ctx.saved_tensors
        if torch.is_grad_enabled():  # they are functions of R and Z
            inverse = (Z + ctx.stabiliser).reciprocal()
            shrinking = -R * inverse * inverse
        return u * inverse, u * shrinking, None


class _Moving(torch.autograd.Function):
    """A value with the derivative of another, from which it differs by a constant: zB's Z moves as z does, and costs no product."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, moving: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, gradients[0]


def _within(a: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Without what noise took out of the box; where it ends, rounding alone does not."""
    edge = EDGE * (high - low)
    outside = (a < low - edge) | (a > high + edge)
    return torch.where(outside, a.clamp(low, high), a) if outside.any() else a


def positive_part(a: Tensor, beta: float | None) -> Tensor:
    return a.clamp(min=0) if beta is None else softplus(a, beta)


def _over(R: Tensor, Z: Tensor, stabiliser: float) -> Tensor:
    made: Tensor = _Over.apply(R, Z, stabiliser)  # type: ignore[no-untyped-call]
    return made


def _moving(value: Tensor, moving: Tensor) -> Tensor:
    made: Tensor = _Moving.apply(value, moving)  # type: ignore[no-untyped-call]
    return made


def _squared(part: Tensor | None) -> Tensor | None:
    return None if part is None else part**2


def _sum(parts: list[Tensor]) -> Tensor:
    return sum(parts[1:], parts[0])
