"""Lanczos over a batch in lock-step: on J where it is symmetric, on P = J^T J where it is not.

Both give the coefficients of a symmetric tridiagonal matrix T, the section of J or of P on the Krylov space.
A breakdown (next coefficient below rounding) ends a block: the space so far is invariant up to rounding, and the process goes on
with an independent random direction in its complement, coupled at the rounding level. `broken` says after which steps
that happened; `enclosure` treats the blocks as the separate starts they are.

Notation: q_j the basis, alpha_j and beta_j the coefficients of T, kept in float64, scale the largest seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.basis import Basis
from attrcert.types import LinearMap

# Independent directions in store for breakdowns; a sample that breaks down more often gets no credit for it.
SPARES = 4
# Of the spectrum: products of networks in float32 are off by 1e-4 at most, a hundredth of what is larger than this.
SMALL = 1e-2


@dataclass(frozen=True)
class Section:
    """The tridiagonal section, on the host: diagonal alpha_1..k, couplings beta_1..k, after which steps a block ended, how many steps there
    were (what stands behind them counts for nothing), and the rounding level (relative to the spectrum) at which blocks are coupled.
    """

    alpha: Float64[np.ndarray, "b k"]
    beta: Float64[np.ndarray, "b k"]
    broken: Bool[np.ndarray, "b k"]
    steps: Int64[np.ndarray, " b"]
    rounding: float

    def select(self, keep: Int64[np.ndarray, " kept"]) -> "Section":
        return Section(self.alpha[keep], self.beta[keep], self.broken[keep], self.steps[keep], self.rounding)

    @staticmethod
    def joined(parts: Sequence["Section"]) -> "Section":
        """One after the other, however many steps each has."""
        k = max(part.alpha.shape[1] for part in parts)

        def column(name: str, filler: float) -> np.ndarray:
            values = [getattr(part, name) for part in parts]
            widths = [((0, 0), (0, k - value.shape[1])) for value in values]
            return np.concatenate([np.pad(v, w, constant_values=filler) for v, w in zip(values, widths, strict=True)])

        steps = np.concatenate([part.steps for part in parts])
        return Section(column("alpha", 0.0), column("beta", 1.0), column("broken", False), steps, parts[0].rounding)

    @property
    def scale(self) -> Float64[np.ndarray, " b"]:
        """The largest coefficient."""
        return np.where(self.counted, np.maximum(np.abs(self.alpha), self.beta), 0.0).max(axis=1)

    @property
    def counted(self) -> Bool[np.ndarray, "b k"]:
        """Which coefficients are those of a step."""
        return np.arange(self.alpha.shape[1]) < self.steps[:, None]

    @property
    def blocks(self) -> Int64[np.ndarray, " b"]:
        """Blocks with at least one step."""
        inner = np.arange(self.broken.shape[1]) < self.steps[:, None] - 1
        return 1 + (self.broken & inner).sum(axis=1)


class _Process:
    """The basis, its next direction and the bookkeeping that both share."""

    def __init__(self, J: LinearMap, draws: Draws, purpose: str, first: Float[Tensor, "b m"] | None = None) -> None:
        self.J = J
        self.rounding = 8 * torch.finfo(J.dtype).eps
        b, _, n = J.shape
        self._draws, self._purpose = draws, purpose
        self._spares: Tensor | None = None
        start = draws.normal(purpose, n, like=J)
        length = start.norm(dim=1, keepdim=True)
        self.basis = Basis(start / length)
        self._first = None if first is None else first / length
        self.scale = start.new_zeros(b, dtype=torch.float64)
        self.alphas: list[Tensor] = []
        self.betas: list[Tensor] = []
        self.broken: list[Tensor] = []

    @property
    def steps(self) -> int:
        return len(self.alphas)

    def _image(self) -> Float[Tensor, "b m"]:
        """J times the last basis vector."""
        known, self._first = self._first, None
        return self.J.matvec(self.basis.last) if known is None else known

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        """Go on with some of the samples."""
        self.J = self.J.select(keep)
        self.basis.select(keep)
        self.scale, self._draws = self.scale[keep], self._draws.select(keep)
        self._spares = None if self._spares is None else self._spares[keep]
        self.broken = [broken[keep] for broken in self.broken]
        self.alphas = [alpha[keep] for alpha in self.alphas]
        self.betas = [beta[keep] for beta in self.betas]

    def vectors(
        self, coefficients: Float64[np.ndarray, "kept k"], picked: Int64[Tensor, " kept"]
    ) -> Float[Tensor, "kept n"]:
        """Unit vectors of some samples' Krylov spaces."""
        given = torch.from_numpy(coefficients).to(device=self.J.device, dtype=self.J.dtype)
        return self.basis.combine(given, picked.to(self.J.device))

    def section(self) -> "Section":
        """T; the last coupling leads out of the space."""
        parts = (torch.stack(part, dim=1).cpu().numpy() for part in (self.alphas, self.betas, self.broken))
        alpha, beta, broken = parts
        return Section(alpha, beta, broken, np.full(len(alpha), self.steps), self.rounding)

    def _advance(self, alpha: Float[Tensor, " b"], rest: Float[Tensor, "b n"], factor: Float[Tensor, " b"]) -> None:
        """Record alpha_k and beta_k, and append the next basis vector; factor `rest` is A q_k less its part in the last two vectors.

        In exact arithmetic `rest` is orthogonal to the whole basis already. What errors of the products left of the others is small beside
        it, so that one pass over the basis leaves nothing but rounding; where `rest` itself is small, it is not, and takes two.
        """
        rest = self.basis.orthogonalise(rest, passes=1)
        length = _norm(rest)
        if _possibly(factor * length < SMALL * self.scale):
            rest = self.basis.orthogonalise(rest, passes=1)
            length = _norm(rest)
        beta = factor * length
        self.scale = torch.maximum(self.scale, alpha.abs() + beta)
        floor = self.rounding * self.scale
        broken = beta <= floor
        if _possibly(broken):
            rest = torch.where(broken[:, None], self._spare(), rest)
            length = _norm(rest)
        self.alphas.append(alpha)
        self.betas.append(torch.maximum(beta, floor))
        self.broken.append(broken)
        self.basis.append(rest, length=_divisor(length, rest.dtype))

    def _spare(self) -> Float[Tensor, "b n"]:
        """For each sample the next of its own random directions, orthogonal to the space."""
        b, _, n = self.J.shape
        if self._spares is None:
            self._spares = self._draws.normal(f"{self._purpose}, after a breakdown", SPARES, n, like=self.J)
        rows = torch.arange(b, device=self.J.device)
        used = sum((broken.long() for broken in self.broken), torch.zeros_like(rows))
        return self.basis.orthogonalise(self._spares[rows, used % SPARES].roll(self.steps, dims=1))


class Lanczos(_Process):
    """J q_k = beta_{k-1} q_{k-1} + alpha_k q_k + beta_k q_{k+1} for symmetric J, fully reorthogonalised."""

    def step(self) -> None:
        rest, parts = self.basis.without_last_two(self._image())
        self._advance(parts.double(), rest, torch.ones_like(self.scale))


class GramLanczos(_Process):
    """Lanczos on P = J^T J, two products a step.

    J q_k is normalised before J^T is applied, so that nothing is squared in the dtype of the products; the Krylov
    space and T are those of Golub-Kahan, without a left recurrence whose orthogonality would have to be kept.
    """

    def step(self) -> None:
        u = self._image()
        length = _norm(u)
        rest, _ = self.basis.without_last_two(self.J.rmatvec(u / _divisor(length, u.dtype)))
        self._advance(length**2, rest, length)


def _possibly(flags: Bool[Tensor, " b"]) -> bool:
    """Whether any may be set. Asking a CPU costs nothing, and mostly none is; a GPU would have to be waited for, so it may."""
    return flags.device.type != "cpu" or bool(flags.any())


def _norm(z: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
    return z.norm(dim=1, dtype=torch.float64)


def _divisor(length: Float[Tensor, " b"], dtype: torch.dtype) -> Float[Tensor, "b 1"]:
    return length.clamp_min(torch.finfo(dtype).tiny)[:, None].to(dtype)
