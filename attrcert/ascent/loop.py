"""The loop that every attack runs in, and what it promises.

Whatever an attack proposes, what comes back is a perturbation inside the ball and the pixel range at which the measured
model still predicts the label it predicts at x (unless the problem lets it change), and the best such iterate by the
attack's own score: iterates are projected, judged by the model itself, and judged once more at the end. Where no iterate
kept the label, it is 0. Attacks on the prediction itself are the exception: for them every iterate counts.

All samples and all their starts advance together as rows; rows that have converged leave.

The gradient of an objective F(g(x + d)) is J^T dF/dg: one product with the Jacobian that the attribution has anyway.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.ascent.attack import Attack, Maps, keeps_label
from attrcert.ascent.balls import Ball
from attrcert.ascent.steps import Iterate
from attrcert.draws import Draws
from attrcert.types import Attribution, Logits

LEAVE_EVERY = 4  # a GPU waits for the question who has converged


@dataclass(frozen=True)
class Problem:
    """Samples to attack. `measured` is the model whose label must stay and whose attribution counts; `guide(t)`, t from 0 to
    1 over the run, is the one whose derivatives lead the way.
    """

    attribution: Attribution
    measured: Logits
    guide: Callable[[float], Logits]
    x: Float[Tensor, "b *shape"]
    target: Int64[Tensor, " b"]
    draws: Draws
    ball: Ball
    chunk: int
    map_shape: tuple[int, ...] | None = None
    keeps_label: bool = True  # or any label will do

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one map, channels first: that of the samples, unless `map_shape` says otherwise."""
        return self.map_shape or tuple(self.x.shape[1:])

    def select(self, keep: Int64[Tensor, " kept"]) -> "Problem":
        draws, ball = self.draws.select(keep), self.ball.select(keep)
        return replace(self, x=self.x[keep], target=self.target[keep], draws=draws, ball=ball)

    def moved(self, delta: Float[Tensor, "b n"]) -> Float[Tensor, "b *shape"]:
        return self.x + delta.view_as(self.x)

    def maps(self, f: Logits, delta: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]:
        """g(x + delta) by the model f."""
        return self.attribution.value(f, self.moved(delta), self.target, self.draws)

    def kept(self, delta: Float[Tensor, "b n"], label: Int64[Tensor, " b"]) -> Bool[Tensor, " b"]:
        """Whether x + delta is admitted: the measured model gives it the label."""
        if not self.keeps_label:
            return torch.ones_like(label, dtype=torch.bool)
        return self.logits(self.measured, delta).argmax(dim=1) == label

    def logits(self, f: Logits, delta: Float[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        with torch.no_grad():
            return f(self.moved(delta))


@dataclass(frozen=True)
class Reference:
    """What an attack starts from: the unmoved map, logits and label of the measured model."""

    map: Float[Tensor, "b m"]
    logits: Float[Tensor, "b k"]

    @staticmethod
    def of(problem: Problem) -> "Reference":
        still = torch.zeros_like(problem.ball.low)
        return Reference(problem.maps(problem.measured, still), problem.logits(problem.measured, still))

    @property
    def label(self) -> Int64[Tensor, " b"]:
        return self.logits.argmax(dim=1)

    def select(self, keep: Int64[Tensor, " kept"]) -> "Reference":
        return Reference(self.map[keep], self.logits[keep])


@dataclass(frozen=True)
class Attacked:
    """The best label-keeping perturbation of each sample, the map there, and how many steps its start took.

    `found` is False where the attack moved and no iterate but x itself kept the label.
    """

    delta: Float[Tensor, "b n"]
    map: Float[Tensor, "b m"]
    score: Float[Tensor, " b"]
    found: Bool[Tensor, " b"]
    steps: Int64[Tensor, " b"]


def ascend(
    attack: Attack, problem: Problem, reference: Reference, starts: Float[Tensor, "s b n"], *, steps: int
) -> Attacked:
    """Run an attack from several starts of each sample and return the best of all."""
    s, b, _ = starts.shape
    owner = torch.arange(b, device=starts.device).repeat(s)
    climb = _Climb(attack, problem.select(owner), reference.select(owner), starts.flatten(0, 1), steps)
    climb.run()
    score = climb.best_score.view(s, b)
    rows = score.argmax(dim=0) * b + torch.arange(b, device=score.device)
    found = climb.kept.view(s, b).any(dim=0) | ~climb.moved.view(s, b).any(dim=0)
    return judged(attack, problem, reference, climb.best[rows], found, climb.used[rows])


def judged(
    attack: Attack,
    problem: Problem,
    reference: Reference,
    delta: Float[Tensor, "b n"],
    found: Bool[Tensor, " b"],
    steps: Int64[Tensor, " b"],
) -> Attacked:
    """The promise: inside the ball, label kept by the measured model, or no perturbation at all."""
    delta = problem.ball.project(delta)
    kept = torch.cat([_kept(attack, part, d, label) for part, d, label in _chunks(problem, delta, reference.label)])
    delta = torch.where(kept[:, None], delta, 0.0)
    moved = maps_at(problem, reference, delta)
    return Attacked(delta, moved, scored(attack, moved, reference, problem.shape), found & kept, steps)


def maps_at(problem: Problem, reference: Reference, delta: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]:
    """The measured model's maps at x + delta. No perturbation, no deviation: two batches may round differently."""
    moved = torch.cat([part.maps(part.measured, d) for part, d, _ in _chunks(problem, delta, reference.label)])
    return torch.where((delta != 0).any(dim=1, keepdim=True), moved, reference.map)


def _kept(attack: Attack, problem: Problem, delta: Tensor, label: Int64[Tensor, " b"]) -> Bool[Tensor, " b"]:
    """Which points count: those with the label, or all."""
    if not keeps_label(attack):
        return torch.ones_like(label, dtype=torch.bool)
    return problem.kept(delta, label)


def best_of(attacked: list[Attacked]) -> Attacked:
    """Each sample's best by score."""
    rows = torch.stack([one.score for one in attacked]).nan_to_num(nan=-torch.inf).argmax(dim=0)
    which = torch.arange(len(rows), device=rows.device)

    def picked(name: str) -> Tensor:
        return torch.stack([getattr(one, name) for one in attacked])[rows, which]

    return Attacked(picked("delta"), picked("map"), picked("score"), picked("found"), picked("steps"))


class _Climb:
    """The rows of a run and the best that each has found."""

    def __init__(self, attack: Attack, problem: Problem, reference: Reference, delta: Tensor, steps: int) -> None:
        self.attack, self.steps = attack, steps
        self.problem, self.reference = problem, reference
        self.delta = problem.ball.project(delta)
        self.rows = torch.arange(len(delta), device=delta.device)
        self.stepper = attack.rule.begin(problem.ball, problem.draws, steps)
        self.best = torch.zeros_like(delta)
        self.best_score = delta.new_full((len(delta),), -torch.inf, dtype=torch.float64)
        self.used = torch.zeros_like(self.rows)
        self.moved = torch.zeros_like(self.rows, dtype=torch.bool)
        self.kept = torch.zeros_like(self.moved)

    def run(self) -> None:
        for t in range(self.steps + 1):
            last = t == self.steps
            seen = self._look(t / max(self.steps, 1), directed=self.attack.rule.directed and not last)
            self.used[self.rows] = t
            if last:
                break
            following, finished = self.stepper.next(seen)
            self.delta = self.problem.ball.project(following)
            if t % LEAVE_EVERY == LEAVE_EVERY - 1 and bool(finished.any()):
                self._leave(finished)
            if not len(self.rows):
                break

    def _leave(self, finished: Bool[Tensor, " rows"]) -> None:
        keep = (~finished).nonzero()[:, 0]
        self.problem, self.reference = self.problem.select(keep), self.reference.select(keep)
        self.delta, self.rows = self.delta[keep], self.rows[keep]
        self.stepper.select(keep)

    def _look(self, t: float, *, directed: bool) -> Iterate:
        """Objective, gradient and label at the iterates; the best ones are noted."""
        places = torch.arange(len(self.delta), device=self.delta.device)
        parts = [
            _look(self.attack, part, self.reference.select(place), d, t, directed=directed)
            for part, d, place in _chunks(self.problem, self.delta, places)
        ]
        objective, score, kept, gradient = (
            torch.cat([getattr(part, name) for part in parts]) for name in ("objective", "score", "kept", "gradient")
        )
        away = (self.delta != 0).any(dim=1)
        self.moved[self.rows] |= away
        self.kept[self.rows] |= away & kept
        before = self.best_score[self.rows]
        better = kept & (score > before)
        self.best_score[self.rows] = torch.where(better, score, before)
        self.best[self.rows] = torch.where(better[:, None], self.delta, self.best[self.rows])
        return Iterate(self.delta, objective, gradient if directed else None, kept)


@dataclass(frozen=True)
class _Look:
    objective: Float[Tensor, " rows"]
    score: Float[Tensor, " rows"]
    kept: Bool[Tensor, " rows"]
    gradient: Float[Tensor, "rows n"]


def _look(attack: Attack, problem: Problem, reference: Reference, delta: Tensor, t: float, *, directed: bool) -> _Look:
    f, g = problem.measured, problem.guide(t)
    explained = None
    if directed:
        explained = problem.attribution.explain(g, problem.moved(delta), problem.target, problem.draws)
    measured = explained.value if explained is not None and f is g else problem.maps(f, delta)
    kept = _kept(attack, problem, delta, reference.label)
    score = scored(attack, measured, reference, problem.shape)
    if explained is None:
        return _Look(score, score, kept, torch.zeros_like(delta))
    # the guide's map is compared with the guide's own original
    original = reference.map if f is g else problem.maps(g, torch.zeros_like(delta))
    map_ = explained.value.double().requires_grad_()
    with torch.enable_grad():
        objective = attack.objective(Maps(map_, original.double(), problem.shape))
        (slope,) = torch.autograd.grad(objective.sum(), map_)
    # an objective without a slope (the angle of a zero map) gives no direction, and must not spoil the row
    slope = slope.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).to(delta.dtype)
    gradient = explained.jacobian.rmatvec(slope)
    objective = objective.detach()
    if attack.output_weight:
        drift, pull = _drift(g, problem.moved(delta), reference.logits)
        objective, gradient = objective - attack.output_weight * drift, gradient - attack.output_weight * pull
    return _Look(objective, score, kept, gradient)


def scored(attack: Attack, moved: Tensor, reference: Reference, shape: tuple[int, ...]) -> Float[Tensor, " rows"]:
    """In float64: a small angle's cosine is rounding in float32."""
    return attack.score(Maps(moved.double(), reference.map.double(), shape))


def _drift(
    f: Logits, x: Float[Tensor, "b *shape"], logits: Float[Tensor, "b k"]
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n"]]:
    """The mean squared change of the probabilities, and its gradient."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        drift = (f(leaf).softmax(dim=1) - logits.softmax(dim=1)).square().mean(dim=1)
        (gradient,) = torch.autograd.grad(drift.sum(), leaf)
    return drift.detach(), gradient.flatten(1)


def _chunks(problem: Problem, delta: Tensor, other: Tensor) -> list[tuple[Problem, Tensor, Tensor]]:
    """Pieces small enough for memory."""
    if len(delta) <= problem.chunk:
        return [(problem, delta, other)]
    places = torch.arange(len(delta), device=delta.device).split(problem.chunk)
    return [(problem.select(place), delta[place], other[place]) for place in places]
