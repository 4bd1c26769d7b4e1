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
from attrcert.types import LinearMap


@dataclass(frozen=True)
class Scaling:
    """D with mean 1, floored at 1e-9; the rows V it came from; `reached` = sqrt(tr(V^T P V)), which no D can beat."""

    D: Float[Tensor, "b n"]
    V: Float[Tensor, "b m n"]
    reached: Float[Tensor, " b"]

    def updated(self, rows: Int64[Tensor, " some"], other: "Scaling") -> "Scaling":
        """This one with the samples `rows` taken from another."""
        place = rows.to(self.D.device)
        return Scaling(
            self.D.index_copy(0, place, other.D),
            self.V.index_copy(0, place, other.V),
            self.reached.index_copy(0, place, other.reached),
        )


@dataclass(frozen=True)
class DiagonalScaling:
    """At most `rounds` rounds with `columns` columns."""

    columns: int = 8
    rounds: int = 100

    def start(self, J: LinearMap, draws: Draws) -> Float[Tensor, "b m n"]:
        """Random unit rows."""
        return torch.nn.functional.normalize(draws.normal("scaling", self.columns, J.shape[2], like=J), dim=1)

    def __call__(self, J: LinearMap, V: Float[Tensor, "b m n"], *, tolerance: float) -> Scaling:
        """From V on, until a round raises `reached` by less than `tolerance` relative; samples leave when they are done."""
        V, D = V.clone(), torch.ones_like(V[:, 0])
        reached = torch.zeros(len(V), dtype=torch.float64, device=J.device)
        rows, waiting = torch.arange(len(V), device=J.device), torch.ones_like(reached, dtype=torch.bool)
        for _ in range(self.rounds):
            before, v = reached[rows], V[rows]
            W, value = _gram_columns(J, v)
            length = W.norm(dim=1)
            changed = rows[waiting]
            D[changed], reached[changed] = length[waiting], value[waiting]
            # a coordinate that P ignores keeps its old direction
            turned = torch.where(length[:, None] > 0, W / length[:, None].clamp_min(torch.finfo(W.dtype).tiny), v)
            V[changed] = turned[waiting]
            waiting &= value > (1 + tolerance) * before
            if not waiting.any():
                break
            if 2 * int(waiting.sum()) <= len(rows):
                keep = waiting.nonzero()[:, 0]
                J, rows, waiting = J.select(keep), rows[keep], waiting[keep]
        mean = D.mean(dim=1, keepdim=True)
        return Scaling(torch.where(mean > 0, (D / mean).clamp_min(1e-9), 1.0), V, reached)


def _gram_columns(J: LinearMap, V: Float[Tensor, "b m n"]) -> tuple[Float[Tensor, "b m n"], Float[Tensor, " b"]]:
    """P V up to a factor per sample, which keeps it from under- or overflowing, and sqrt(tr(V^T P V))."""
    images = torch.stack([J.matvec(V[:, i]) for i in range(V.shape[1])], dim=1)
    value = images.flatten(1).norm(dim=1, dtype=torch.float64)
    scaled = images / value.clamp_min(torch.finfo(V.dtype).tiny).to(V.dtype)[:, None, None]
    return torch.stack([J.rmatvec(scaled[:, i]) for i in range(V.shape[1])], dim=1), value
