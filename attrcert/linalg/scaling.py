"""A diagonal D > 0 that makes lambda_max(D^-1/2 P D^-1/2) sum_i D_i small, matrix-free [nesterov1998semidefinite].

For |s_i| <= 1, s^T P s <= lambda_max(D^-1/2 P D^-1/2) s^T D s <= lambda_max(...) sum_i D_i, whatever D. The best D
solves the dual of max <P, X> over X >= 0 with unit diagonal; X = V V^T with unit rows V_i in R^m gives the iteration
W = P V, D_i = |W_i|, V_i = W_i / D_i. It is monotone in tr(V^T P V), which bounds the program's value from below, and
at a fixed point D V = P V.

Only the search is here; any D is valid, and the caller certifies the one it uses with a fresh random start.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.maps import copied, divisor
from attrcert.types import LinearMap


@dataclass(frozen=True)
class DiagonalScaling:
    """At most `rounds` rounds with `columns` columns, ended when the rows turn by less than `turn` on average; up to `copies` columns of
    a sample are multiplied together.

    The turn is the mean of 1 - cos between a row before and after a round, every coordinate counting alike, as it does in
    lambda_max(D^-1/2 P D^-1/2); the gain of the trace sees the large ones only.
    """

    columns: int = 8
    rounds: int = 50
    turn: float = 1e-4
    copies: int = 1

    def __call__(self, J: LinearMap, draws: Draws) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b m n"]]:
        """D of each sample, with mean 1 and floored at 1e-9, and V; samples leave when they are done."""
        V = torch.nn.functional.normalize(draws.normal("scaling", self.columns, J.shape[2], like=J), dim=1)
        D = torch.ones_like(V[:, 0])
        rows, waiting = torch.arange(len(V), device=J.device), torch.ones(len(V), dtype=torch.bool, device=J.device)
        copies = divisor(self.columns, self.copies)
        wide = copied(J, copies)
        for _ in range(self.rounds):
            v = V[rows]
            W = _gram_columns(wide, copies, v)
            length = W.norm(dim=1)
            # a coordinate that P ignores keeps its old direction
            turned = torch.where(length[:, None] > 0, W / length[:, None].clamp_min(torch.finfo(W.dtype).tiny), v)
            changed = rows[waiting]
            D[changed], V[changed] = length[waiting], turned[waiting]
            waiting &= (1 - (turned * v).sum(dim=1)).mean(dim=1) > self.turn
            if not waiting.any():
                break
            if 2 * int(waiting.sum()) <= len(rows):
                keep = waiting.nonzero()[:, 0]
                J, rows, waiting = J.select(keep), rows[keep], waiting[keep]
                wide = copied(J, copies)
        mean = D.mean(dim=1, keepdim=True)
        return torch.where(mean > 0, (D / mean).clamp_min(1e-9), 1.0), V


def _gram_columns(wide: LinearMap, copies: int, V: Float[Tensor, "b m n"]) -> Float[Tensor, "b m n"]:
    """P V up to a factor per sample, which keeps it from under- and overflowing."""
    return _unit(_columns(wide.rmatvec, copies, _unit(_columns(wide.matvec, copies, V))))


def _columns(apply: Callable[[Tensor], Tensor], copies: int, V: Float[Tensor, "b m n"]) -> Float[Tensor, "b m k"]:
    """The products with all columns, `copies` of each sample at a time."""
    return torch.cat([apply(part.flatten(0, 1)).view(len(V), copies, -1) for part in V.split(copies, dim=1)], dim=1)


def _unit(columns: Float[Tensor, "b m n"]) -> Float[Tensor, "b m n"]:
    return columns / columns.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(columns.dtype).tiny)
