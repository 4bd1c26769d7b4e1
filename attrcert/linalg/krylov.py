"""Lanczos over a batch in lock-step: on J where it is symmetric, on P = J^T J where it is not.

Both give the coefficients of a symmetric tridiagonal matrix T, the section of J or of P on the Krylov space.
A breakdown (next coefficient below rounding) ends a block: the space so far is invariant up to rounding, and the process goes on
with an independent random direction in its complement, coupled at the rounding level. `broken` says after which steps
that happened; `enclosure` treats the blocks as the separate starts they are.

Notation: q_j the basis, alpha_j and beta_j the coefficients of T in float64, scale the largest seen.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.basis import Basis
from attrcert.types import LinearMap

# Independent directions in store for breakdowns; a sample that breaks down more often gets no credit for it.
SPARES = 4


@dataclass(frozen=True)
class Section:
    """The tridiagonal section: diagonal alpha_1..k, couplings beta_1..k, after which steps a block ended, and the
    rounding level (relative to the spectrum) at which blocks are coupled.
    """

    alpha: Float[Tensor, "b k"]
    beta: Float[Tensor, "b k"]
    broken: Bool[Tensor, "b k"]
    rounding: float

    def flipped(self) -> "Section":
        """The section of the negative map."""
        return Section(-self.alpha, self.beta, self.broken, self.rounding)

    def joined(self, other: "Section") -> "Section":
        """Both, one after the other."""
        parts = (
            torch.cat(pair)
            for pair in ((self.alpha, other.alpha), (self.beta, other.beta), (self.broken, other.broken))
        )
        alpha, beta, broken = parts
        return Section(alpha, beta, broken, self.rounding)

    @property
    def blocks(self) -> Int64[Tensor, " b"]:
        """Blocks with at least one step."""
        return 1 + self.broken[:, :-1].sum(dim=1)


class _Process:
    """The basis, its next direction and the bookkeeping that both share."""

    def __init__(self, J: LinearMap, draws: Draws, purpose: str) -> None:
        self.J = J
        self.rounding = 8 * torch.finfo(J.dtype).eps
        b, _, n = J.shape
        normals = draws.normal(purpose, 1 + SPARES, n, like=J)
        start, self._spares = normals[:, 0], normals[:, 1:]
        self.basis = Basis(start / start.norm(dim=1, keepdim=True))
        self.scale = start.new_zeros(b, dtype=torch.float64)
        self.alphas: list[Tensor] = []
        self.betas: list[Tensor] = []
        self.broken: list[Tensor] = []

    @property
    def steps(self) -> int:
        return len(self.alphas)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        """Go on with some of the samples."""
        self.J = self.J.select(keep)
        self.basis.select(keep)
        self.scale, self._spares = self.scale[keep], self._spares[keep]
        self.broken = [broken[keep] for broken in self.broken]
        self.alphas = [alpha[keep] for alpha in self.alphas]
        self.betas = [beta[keep] for beta in self.betas]

    def section(self) -> "Section":
        """T on the host; the last coupling leads out of the space."""
        parts = (torch.stack(part, dim=1).cpu() for part in (self.alphas, self.betas, self.broken))
        alpha, beta, broken = parts
        return Section(alpha, beta, broken, self.rounding)

    def _advance(self, alpha: Float[Tensor, " b"], residual: Float[Tensor, "b n"], factor: Float[Tensor, " b"]) -> None:
        """Record alpha_k and beta_k = factor |residual|, and append the next basis vector."""
        length = _norm(residual)
        beta = factor * length
        self.scale = torch.maximum(self.scale, alpha.abs() + beta)
        floor = self.rounding * self.scale
        broken = beta <= floor
        # a broken sample takes its next spare direction; no branch, so that a GPU need not wait
        used = torch.stack(self.broken).sum(0) if self.broken else torch.zeros_like(broken, dtype=torch.int64)
        rows = torch.arange(len(broken), device=broken.device)
        spare = self.basis.orthogonalise(self._spares[rows, used % SPARES].roll(self.steps, dims=1))
        direction = torch.where(broken[:, None], _divided(spare, _norm(spare)), _divided(residual, length))
        direction = self.basis.orthogonalise(direction)
        self.alphas.append(alpha)
        self.betas.append(torch.maximum(beta, floor))
        self.broken.append(broken)
        self.basis.append(_divided(direction, _norm(direction)))


class Lanczos(_Process):
    """J q_k = beta_{k-1} q_{k-1} + alpha_k q_k + beta_k q_{k+1} for symmetric J, fully reorthogonalised."""

    def step(self) -> None:
        q = self.basis.last
        z = self.J.matvec(q)
        alpha = (q * z).sum(dim=1, dtype=torch.float64)
        self._advance(alpha, self.basis.orthogonalise(z), torch.ones_like(alpha))


class GramLanczos(_Process):
    """Lanczos on P = J^T J, two products a step.

    J q_k is normalised before J^T is applied, so that nothing is squared in the dtype of the products; the Krylov
    space and T are those of Golub-Kahan, without a left recurrence whose orthogonality would have to be kept.
    """

    def step(self) -> None:
        u = self.J.matvec(self.basis.last)
        length = _norm(u)
        z = self.J.rmatvec(_divided(u, length))
        self._advance(length**2, self.basis.orthogonalise(z), length)


def _norm(z: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
    return z.norm(dim=1, dtype=torch.float64)


def _divided(z: Float[Tensor, "b n"], length: Float[Tensor, " b"]) -> Float[Tensor, "b n"]:
    return z / length.clamp_min(torch.finfo(z.dtype).tiny)[:, None].to(z.dtype)
