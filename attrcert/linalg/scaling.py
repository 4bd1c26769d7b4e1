"""A diagonal D > 0 that makes lambda_max(D^-1/2 P D^-1/2) sum_i D_i small, matrix-free [nesterov1998semidefinite].

For |s_i| <= 1, s^T P s <= lambda_max(D^-1/2 P D^-1/2) s^T D s <= lambda_max(...) sum_i D_i, whatever D. The best D
solves the dual of max <P, X> over X >= 0 with unit diagonal; X = V V^T with unit rows V_i in R^m gives the iteration
W = P V, D_i = |W_i|, V_i = W_i / D_i. It is monotone in tr(V^T P V), which bounds the program's value from below, and
at a fixed point D V = P V.

Only the search is here; any D is valid, and the caller certifies the one it uses with a fresh random start.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.linalg.draws import Draws
from attrcert.linalg.maps import gram_product
from attrcert.types import LinearMap


@dataclass(frozen=True)
class DiagonalScaling:
    """At most `rounds` rounds with `columns` columns, ended when a round gains less than `tolerance` relative."""

    columns: int = 8
    rounds: int = 30
    tolerance: float = 1e-2

    def __call__(self, J: LinearMap, draws: Draws) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b m n"]]:
        """D of each sample, floored at 1e-9 of its mean, and V."""
        b, _, n = J.shape
        V = torch.nn.functional.normalize(draws.normal("scaling", self.columns, n, like=J), dim=1)
        D = torch.empty(b, n, dtype=J.dtype, device=J.device)
        rows, reached = torch.arange(b, device=J.device), torch.zeros(b, dtype=torch.float64, device=J.device)
        running, waiting = J, torch.ones(b, dtype=torch.bool, device=J.device)
        for round_ in range(self.rounds):
            v = V[rows]
            W = torch.stack([gram_product(running, v[:, i]) for i in range(self.columns)], dim=1)
            length = W.norm(dim=1)
            trace = (v * W).sum(dim=(1, 2), dtype=torch.float64)
            changed = rows[waiting]
            D[changed] = length[waiting]
            # a coordinate that P ignores keeps its old direction
            V[changed] = torch.where(length[:, None] > 0, W / length[:, None].clamp_min(torch.finfo(W.dtype).tiny), v)[
                waiting
            ]
            waiting &= trace > (1 + self.tolerance) * reached
            reached = trace
            if not waiting.any() or round_ == self.rounds - 1:
                break
            if 2 * int(waiting.sum()) <= len(rows):
                keep: Int64[Tensor, " kept"] = waiting.nonzero()[:, 0]
                running, rows, reached, waiting = running.select(keep), rows[keep], reached[keep], waiting[keep]
        mean = D.mean(dim=1, keepdim=True)
        return torch.where(mean > 0, torch.maximum(D, 1e-9 * mean), 1.0), V
