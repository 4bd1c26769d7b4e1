"""How an iterate becomes the next one: steepest ascent with a step that adapts or stays, Adam, or a fresh draw."""

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.draws import Draws
from attrcert.vocabulary import NormKind

LEAST_GAIN = 1e-6  # relative: float32 maps have no more digits
LEAST_STEP = 2.0**-12  # of the largest one: below it a row has converged


@dataclass(frozen=True)
class Iterate:
    """Where the rows are and what was found there; `kept` are those that have their label."""

    delta: Float[Tensor, "rows n"]
    objective: Float[Tensor, " rows"]
    gradient: Float[Tensor, "rows n"] | None
    kept: Bool[Tensor, " rows"]


class Stepper(Protocol):
    """The memory of some rows: proposes their next iterates, and says which rows have nothing left to try.

    A proposal may lie anywhere; whoever takes it projects it.
    """

    def next(self, seen: Iterate) -> tuple[Float[Tensor, "rows n"], Bool[Tensor, " rows"]]: ...
    def select(self, keep: Int64[Tensor, " kept"]) -> None: ...


class StepRule(Protocol):
    """Makes the memory for rows in a ball; `directed` rules need gradients."""

    @property
    def directed(self) -> bool: ...
    def begin(self, ball: Ball, draws: Draws, steps: int) -> Stepper: ...


@dataclass(frozen=True)
class Adaptive:
    """Steepest ascent from the best label-keeping iterate: a step that gains is lengthened, one that fails is shortened.

    Lengths are in units of eps. A long step along the gradient of a convex function is the power iteration, which is
    what a nearly linear attribution wants.
    """

    first: float = 2.0
    longest: float = 8.0
    growth: float = 1.5
    shrink: float = 0.4
    directed = True

    def begin(self, ball: Ball, draws: Draws, steps: int) -> "Climber":
        return Climber(self, ball)


class Climber:
    """An anchor per row: the best iterate that kept its label, with its gradient."""

    def __init__(self, rule: Adaptive, ball: Ball) -> None:
        self.rule, self.ball = rule, ball
        self.anchor = torch.zeros_like(ball.low)
        self.gradient = torch.zeros_like(ball.low)
        self.value = self.anchor.new_full((len(self.anchor),), -torch.inf, dtype=torch.float64)
        self.step = self.anchor.new_full((len(self.anchor),), rule.first * ball.eps)

    def next(self, seen: Iterate) -> tuple[Float[Tensor, "rows n"], Bool[Tensor, " rows"]]:
        assert seen.gradient is not None
        rule, longest = self.rule, self.rule.longest * self.ball.eps
        # a gain at the level of rounding is none, or the batch size would decide which way a row goes
        better = seen.kept & (seen.objective > self.value + LEAST_GAIN * self.value.abs().nan_to_num(posinf=0.0))
        anchored = self.value > -torch.inf
        grown = torch.where(anchored, (self.step * rule.growth).clamp_max(longest), self.step)
        self.step = torch.where(better, grown, torch.where(anchored, self.step * rule.shrink, self.step))
        self.anchor = torch.where(better[:, None], seen.delta, self.anchor)
        self.gradient = torch.where(better[:, None], seen.gradient, self.gradient)
        self.value = torch.where(better, seen.objective, self.value)
        anchored = anchored | better
        climbed = self.anchor + self.step[:, None] * self.ball.ascent(self.gradient)
        # a start that loses its label is drawn towards x, which has it
        following = torch.where(anchored[:, None], climbed, seen.delta / 2)
        stalled = (self.step < LEAST_STEP * longest) | (self.gradient == 0).all(dim=1)
        return following, anchored & stalled

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        self.ball = self.ball.select(keep)
        self.anchor, self.gradient = self.anchor[keep], self.gradient[keep]
        self.value, self.step = self.value[keep], self.step[keep]


@dataclass(frozen=True)
class Fixed:
    """Steepest ascent with steps of one `size` in pixel units, as published attacks take them."""

    size: float
    directed = True

    def begin(self, ball: Ball, draws: Draws, steps: int) -> "_Walker":
        return _Walker(self.size, ball)


class _Walker:
    def __init__(self, size: float, ball: Ball) -> None:
        self.size, self.ball = size, ball

    def next(self, seen: Iterate) -> tuple[Float[Tensor, "rows n"], Bool[Tensor, " rows"]]:
        assert seen.gradient is not None
        stepped = seen.delta + self.size * self.ball.ascent(seen.gradient)
        # an iterate that lost its label is drawn towards x, which has it
        following = torch.where(seen.kept[:, None], stepped, seen.delta / 2)
        return following, seen.kept & (seen.gradient == 0).all(dim=1)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        self.ball = self.ball.select(keep)


@dataclass(frozen=True)
class Adam:
    """Adam's steps with a learning `rate` in pixel units; by default four balls' worth over the run [joo2023towards]."""

    rate: float | None = None
    directed = True

    def begin(self, ball: Ball, draws: Draws, steps: int) -> "_AdamWalker":
        return _AdamWalker(self.rate or 4 * ball.eps / max(steps, 1), ball)


class _AdamWalker:
    """Kingma & Ba's moments with their own constants."""

    def __init__(self, rate: float, ball: Ball) -> None:
        self.rate, self.ball, self.count = rate, ball, 0
        self.mean, self.square = torch.zeros_like(ball.low), torch.zeros_like(ball.low)
        self.unit = torch.ones_like(ball.low[:, :1])

    def next(self, seen: Iterate) -> tuple[Float[Tensor, "rows n"], Bool[Tensor, " rows"]]:
        assert seen.gradient is not None
        if self.count == 0:  # the scale of a loss is arbitrary, but for Adam's own 1e-8: the first gradient sets it
            largest = seen.gradient.abs().amax(dim=1, keepdim=True)
            self.unit = torch.where(largest > 0, largest, 1.0)
        gradient = seen.gradient / self.unit
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        mean, square = self.mean / (1 - 0.9**self.count), self.square / (1 - 0.999**self.count)
        return seen.delta + self.rate * mean / (square.sqrt() + 1e-8), torch.zeros_like(seen.kept)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        self.ball = self.ball.select(keep)
        self.mean, self.square, self.unit = self.mean[keep], self.square[keep], self.unit[keep]


@dataclass(frozen=True)
class FreshDraws:
    """No steps: every iterate is a new random point of the ball."""

    directed = False

    def begin(self, ball: Ball, draws: Draws, steps: int) -> "_Sampler":
        return _Sampler(ball, draws)


class _Sampler:
    def __init__(self, ball: Ball, draws: Draws) -> None:
        self.ball, self.draws, self.count = ball, draws, 0

    def next(self, seen: Iterate) -> tuple[Float[Tensor, "rows n"], Bool[Tensor, " rows"]]:
        self.count += 1
        return self.ball.random(self.draws, f"random-search-{self.count}"), torch.zeros_like(seen.kept)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        self.ball, self.draws = self.ball.select(keep), self.draws.select(keep)


@dataclass(frozen=True)
class Hops:
    """Random hops from the best label-keeping iterate, by values alone: forth, and if that gains nothing, back. A hop that gains is made
    again, longer; after two that fail the next one is shorter and goes elsewhere.

    A hop is a random direction, along the sphere of radius eps; for linf it flips a random share of the entries from one end to the other.
    """

    growth: float = 1.5
    shrink: float = 0.9
    directed = False

    def begin(self, ball: Ball, draws: Draws, steps: int) -> "_Hopper":
        return _Hopper(self, ball, draws)


class _Hopper:
    """An anchor per row, the hop that was tried from it, and how long hops are: a share of eps, or of the entries."""

    def __init__(self, rule: Hops, ball: Ball, draws: Draws) -> None:
        self.rule, self.ball, self.draws, self.count = rule, ball, draws, 0
        self.anchor, self.hop = torch.zeros_like(ball.low), torch.zeros_like(ball.low)
        self.value = self.anchor.new_full((len(self.anchor),), -torch.inf, dtype=torch.float64)
        self.size = self.anchor.new_ones(len(self.anchor))
        self.back = torch.ones_like(self.value, dtype=torch.bool)  # whether both ways were tried

    def next(self, seen: Iterate) -> tuple[Float[Tensor, "rows n"], Bool[Tensor, " rows"]]:
        # as for the Climber: rounding is no gain
        better = seen.kept & (seen.objective > self.value + LEAST_GAIN * self.value.abs().nan_to_num(posinf=0.0))
        failed, turning = ~better & self.back, ~better & ~self.back
        self.anchor = torch.where(better[:, None], seen.delta, self.anchor)
        self.value = torch.where(better, seen.objective, self.value)
        grown = (self.size * self.rule.growth).clamp_max(1.0)
        self.size = torch.where(better, grown, torch.where(failed, self.size * self.rule.shrink, self.size))
        fresh = failed | (self.hop == 0).all(dim=1)
        self.hop = torch.where(fresh[:, None], self._fresh(), torch.where(turning[:, None], -self.hop, self.hop))
        self.back = torch.where(fresh, False, turning | self.back)
        return self._hopped(), torch.zeros_like(seen.kept)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        self.ball, self.draws = self.ball.select(keep), self.draws.select(keep)
        self.anchor, self.hop, self.value = self.anchor[keep], self.hop[keep], self.value[keep]
        self.size, self.back = self.size[keep], self.back[keep]

    def _fresh(self) -> Float[Tensor, "rows n"]:
        self.count += 1
        normals = self.draws.normal(f"hop-{self.count}", self.anchor.shape[1], like=self.anchor)
        if self.ball.norm.kind is NormKind.LINF:  # the larger ones: a share of them as large as the hop
            return normals.sign() * (torch.erf(normals.abs() / sqrt(2)) >= 1 - self.size[:, None])
        return self.ball.ascent(normals)

    def _hopped(self) -> Float[Tensor, "rows n"]:
        eps = self.ball.eps
        if self.ball.norm.kind is NormKind.LINF:
            return self.anchor + 2 * eps * self.hop
        return eps * self.ball.ascent(self.anchor + eps * self.size[:, None] * self.hop)
