"""Lanczos over a batch in lock-step: on J where it is symmetric, on P = J^T J where it is not.

Both give the coefficients of a symmetric tridiagonal matrix T, the section of J or of P on the Krylov space.
A breakdown (next coefficient below rounding) is continued with a spare random direction and the coefficient set to
the rounding level. That is the exact process of a matrix within rounding of the given one, so what is
concluded from T stays true up to the rounding that `enclosure` adds; and it needs no special case after it.

Notation: q_j the basis, alpha_j and beta_j the coefficients of T in float64, scale the largest seen.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.linalg.basis import Basis
from attrcert.linalg.draws import Draws
from attrcert.types import LinearMap


class _Process:
    """The basis, its next direction and the bookkeeping that both share."""

    def __init__(self, J: LinearMap, draws: Draws, purpose: str) -> None:
        self.J = J
        self.rounding = 8 * torch.finfo(J.dtype).eps
        b, _, n = J.shape
        start, self._spare = draws.normal(purpose, 2, n, like=J).unbind(1)
        self.basis = Basis(start / start.norm(dim=1, keepdim=True))
        self.scale = start.new_zeros(b, dtype=torch.float64)
        self.alphas: list[Tensor] = []
        self.betas: list[Tensor] = []

    @property
    def steps(self) -> int:
        return len(self.alphas)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        """Go on with some of the samples."""
        self.J = self.J.select(keep)
        self.basis.select(keep)
        self.scale, self._spare = self.scale[keep], self._spare[keep]
        self.alphas = [alpha[keep] for alpha in self.alphas]
        self.betas = [beta[keep] for beta in self.betas]

    def tridiagonal(self) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k"]]:
        """Diagonal alpha_1..alpha_k and couplings beta_1..beta_k; the last one leads out of the space."""
        return torch.stack(self.alphas, 1), torch.stack(self.betas, 1)

    def _advance(self, alpha: Float[Tensor, " b"], residual: Float[Tensor, "b n"], factor: Float[Tensor, " b"]) -> None:
        """Record alpha_k and beta_k = factor |residual|, and append the next basis vector."""
        length = _norm(residual)
        beta = factor * length
        self.scale = torch.maximum(self.scale, alpha.abs() + beta)
        floor = self.rounding * self.scale
        # a broken sample takes its spare direction, another one each time; no branch, so that a GPU need not wait
        spare = self.basis.orthogonalise(self._spare.roll(self.steps, dims=1))
        direction = torch.where((beta <= floor)[:, None], _divided(spare, _norm(spare)), _divided(residual, length))
        direction = self.basis.orthogonalise(direction)
        self.alphas.append(alpha)
        self.betas.append(torch.maximum(beta, floor))
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
