"""k of the joint form (`form`): how much of what b and e cost comes back through the layers after them.

With w and w' enlarged to diagonals, k is the largest eigenvalue of

    R = sqrt(w + |c| gamma) N beta^-1 N^T sqrt(w + |c| gamma)

or of the same for t and e; R has the size of the activations after the first. It is proved by a Cholesky factor of t - R.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.bounds.proved.form import Block, JointForm, Multipliers, Number, Slopes, Vector
from attrcert.linalg.proofs import proved_near
from attrcert.linalg.ritz import dense, ritz

ESTIMATING, PROVING = 16, 40  # steps of Lanczos
CLOSE = 1e-4
ENLARGED = (1.0, 1.002, 1.006, 1.02, 1.2)  # what is proposed, until it is proved
TINY = 1e-150


@dataclass(frozen=True)
class Loop:
    """R of one side."""

    form: JointForm
    side: Slopes
    heavy: dict[int, Vector]
    price: dict[int, Vector]

    @property
    def sizes(self) -> list[int]:
        """Of the activations; R is that of all but the first."""
        return [part.shape[1] for part in self.heavy.values()]

    @property
    def size(self) -> int:
        return sum(self.sizes[1:])

    def apply(self, x: Block) -> Block:
        """R times vectors."""
        full = torch.cat([x.new_zeros(*x.shape[:2], self.sizes[0]), x], dim=2).split(self.sizes, dim=2)
        heavy = {i: part.sqrt()[:, None] for i, part in self.heavy.items()}
        found: dict[int, Block] = {}
        given = {i: heavy[i] * part for i, part in zip(heavy, full, strict=True)}
        nothing = torch.zeros_like(self.form.pulled(given, self.side, found))
        moved = self.form.pushed(nothing, self.side, {i: part / self.price[i][:, None] for i, part in found.items()})
        return torch.cat([heavy[i] * moved[i] for i in heavy][1:], dim=2)

    def ones(self, k: int = 1) -> Block:
        some = next(iter(self.heavy.values()))
        return some.new_ones(len(some), k, self.size)

    def estimate(self, steps: int) -> Number:
        if self.size == 0:
            return torch.zeros_like(self.ones()[:, 0, :].sum(dim=1))
        return ritz(_single(self.apply), self.ones()[:, 0], steps, 1)[0][:, 0].clamp_min(TINY)

    def proved(self, magnitude: "Loop", unit: float) -> Number:
        """At least k; `magnitude` has the moduli, `unit` is the share of its paths that a sweep's rounding takes."""
        guess = self.estimate(PROVING)
        if self.size == 0:
            return guess
        R = dense(self.apply, len(guess), self.size, like=guess)
        lost = 4 * unit * magnitude.apply(self.ones()).amax(dim=(1, 2))
        return proved_near(R, (1 + CLOSE) * guess, ENLARGED) + lost


def _single(apply: Callable[[Block], Block]) -> Callable[[Tensor], Tensor]:
    return lambda x: apply(x[:, None])[:, 0]


def loops(form: JointForm, by: Multipliers) -> tuple[Loop, Loop]:
    """Of a and of t."""
    w, onward = form.weights(by)
    gamma = {i: by.gamma[:, None] * part for i, part in by.tau.items()}
    left = {i: w[i] + form.centre[i].abs() * gamma[i] for i in w}
    right = {i: onward[i] + form.centre[i].abs() / gamma[i] for i in w}
    return Loop(form, form.left, left, by.left), Loop(form, form.right, right, by.right)
