"""The joint form (`form`) of an attribution's whole change, summed over the nodes of its path, and the proof of its upper end.

With nodes b + a_k D and weights w_k, u^T D g = sum_k w_k (D u)^T D grad f_k + u^T diag(m) delta, but for a part of second order; node k
moves by a_k delta. Forms add up, so G = sum_k |w_k| G_k, with -u for u where w_k < 0.

lambda_max(G) is at most t where t - G has a Cholesky factor [rump2006verification].

Rounding: each sweep forwards and back is off by nu times what it gives with the moduli of everything, entry by entry. In the norm of
L^-1/2 let Y be what u and delta do to b and e, |Y|' and |X|' at least the norms of Y and X with moduli (Schur's test).
|Y|^2 <= 8/3 lambda_max(G) / |w_k|, since x^2 / (1 - k) + x + 1 >= 3/4 and the parts of G in u and delta alone are at most lambda_max(G).
Three rounds of b and e are then off by at most 3 nu (|Y|' + |X|' |Y|) / (1 - k), and G by nu (|G0|' + 4 |Y| (|Y|' + |X|' |Y|) / (1 - k)).
That needs lambda_max(G), at most twice what was proved of the computed matrix if the error is at most that.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.form import Block, JointForm, Multipliers, Number, Signals, Vector, lent
from attrcert.bounds.proved.loops import CLOSE, ENLARGED, PROVING, loops
from attrcert.linalg.proofs import proved_near
from attrcert.linalg.ritz import dense, ritz

SCHUR = 7  # rounds of Schur's test


@dataclass(frozen=True)
class Whole:
    """Forms with their weights and the nodes' a_k; `rows` is D, `mean` is m."""

    forms: tuple[JointForm, ...]
    weights: tuple[float, ...]
    steps: tuple[float, ...]
    rows: Vector | None
    mean: Vector | None

    def magnitude(self) -> "Whole":
        rows, mean = (None if part is None else part.abs() for part in (self.rows, self.mean))
        forms, weights = tuple(form.magnitude() for form in self.forms), tuple(map(abs, self.weights))
        return replace(self, forms=forms, weights=weights, rows=rows, mean=mean)

    def given(self, x: Block, shape: Vector, k: int) -> tuple[Block, Block]:
        """u and delta of node k."""
        u, v = x.chunk(2, dim=2)
        u = u if self.rows is None else u * self.rows[:, None]
        return (u if self.weights[k] >= 0 else -u), self.steps[k] * shape[:, None] * v

    def back(self, image: tuple[Block, Block], shape: Vector, k: int) -> Block:
        """The transpose, with the node's weight."""
        u, v = (self.weights[k] * image[0], abs(self.weights[k]) * self.steps[k] * image[1])
        return torch.cat([u if self.rows is None else u * self.rows[:, None], v * shape[:, None]], dim=2)

    def beside(self, x: Block, shape: Vector) -> Block | float:
        """What diag(m) adds."""
        if self.mean is None:
            return 0.0
        m = (self.mean * shape)[:, None]
        u, v = x.chunk(2, dim=2)
        return torch.cat([m * v, m * u], dim=2)


@dataclass(frozen=True)
class Choice:
    """Multipliers of every node, 1 - k of each (None: b = e = 0), and `shape`, which delta is in units of."""

    by: tuple[Multipliers, ...]
    spared: tuple[Number | None, ...]
    shape: Vector

    def signals(self, whole: Whole, x: Block) -> list[Signals]:
        """Of every node."""
        parts = zip(whole.forms, self.by, self.spared, strict=True)
        return [form.apply(*whole.given(x, self.shape, k), by, spared) for k, (form, by, spared) in enumerate(parts)]

    def apply(self, whole: Whole, x: Block) -> Block:
        """G times vectors (u, v)."""
        found = self.signals(whole, x)
        backs = [whole.back(one.image, self.shape, k) for k, one in enumerate(found)]
        return sum(backs[1:], backs[0]) + whole.beside(x, self.shape)

    def single(self, whole: Whole) -> Callable[[Tensor], Tensor]:
        return lambda x: self.apply(whole, x[:, None])[:, 0]


def proved(whole: Whole, choice: Choice, first: Float[Tensor, "b n"], unit: float) -> Number:
    """At least the largest u^T D g; `first` is where Lanczos begins, `unit` the share of its paths that a sweep's rounding takes."""
    modulus = whole.magnitude()
    k = [
        _proved_share(form, above, by, unit)
        for form, above, by in zip(whole.forms, modulus.forms, choice.by, strict=True)
    ]
    possible = torch.stack(k).amax(dim=0) < 1
    spared = tuple(torch.where(possible, 1 - part, 1.0) for part in k)
    sure = replace(choice, spared=spared)
    guess = (1 + CLOSE) * ritz(sure.single(whole), first, PROVING, 1)[0][:, 0]
    G = dense(lambda x: sure.apply(whole, x), len(first), first.shape[1], like=first)
    top = proved_near(G, guess, ENLARGED)
    lost = 2 * unit * rounded(modulus, sure, 2 * top)
    return torch.where(possible & (lost < top), top + lost, torch.inf).nan_to_num(torch.inf, torch.inf)


def _proved_share(form: JointForm, magnitude: JointForm, by: Multipliers, unit: float) -> Number:
    left, right = (loop.proved(above, unit) for loop, above in zip(loops(form, by), loops(magnitude, by), strict=True))
    return torch.maximum(left, right)


def rounded(modulus: Whole, choice: Choice, top: Number) -> Number:
    """How much G is off for each nu, if lambda_max(G) <= top."""
    ones = torch.ones_like(choice.shape)[:, None].expand(-1, 1, -1).repeat(1, 1, 2)
    total, direct = torch.zeros_like(top), modulus.beside(ones, choice.shape) + torch.zeros_like(ones)
    for k, (form, by, spared) in enumerate(zip(modulus.forms, choice.by, choice.spared, strict=True)):
        assert spared is not None
        given = modulus.given(ones, choice.shape, k)
        there = form.at(given, ({}, {}), by)
        direct = direct + modulus.back(there.image, choice.shape, k)
        nothing = torch.zeros_like(given[0]), torch.zeros_like(given[1])
        loop, across = torch.full_like(top, torch.inf), torch.zeros_like(top)
        for round in range(SCHUR):
            after = form.at(nothing, lent(there, by, torch.ones_like(top)), by)
            if round == 0:
                across = modulus.back(after.image, choice.shape, k).amax(dim=(1, 2))
            loop = torch.minimum(loop, _largest_ratio(after, there, top))
            there = after
        weight = max(abs(modulus.weights[k]), 1e-300)
        size = (8 / 3 * top / weight).sqrt()
        total = total + weight * 4 * size * ((across / weight).sqrt() + loop * size) / spared
    return direct.amax(dim=(1, 2)) + total


def _largest_ratio(after: Signals, before: Signals, like: Number) -> Number:
    found = torch.zeros_like(like)
    for new, old in ((after.b, before.b), (after.e, before.e)):
        for i, part in old.items():
            found = torch.maximum(found, torch.where(part > 0, new[i] / part, 0.0).amax(dim=(1, 2)))
    return found
