"""The ball of perturbations |delta|_p <= radius, p = 2 or infinity, and how far linear maps move its points.

A row moves by at most the radius times its dual norm; several rows together by a norm that is proved: for p = 2 by positive test
vectors or a Cholesky factor, for p = infinity by the best of Theorem 2's row sums [wang2023practical] and a diagonal scaling.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.attributions.bounded import length as lengths
from attrcert.draws import Draws
from attrcert.linalg.maps import Dense
from attrcert.linalg.proofs import gram_norm, proved_eigenvalue, times
from attrcert.linalg.scaling import DiagonalScaling
from attrcert.vocabulary import Norm, NormKind

STEPS = 8  # of the power method, where a value is only compared


def length(v: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
    """|v|_2, whose squares neither under- nor overflow."""
    return lengths(v)[:, 0]


@dataclass(frozen=True)
class Reach:
    """Of each sample's ball."""

    radius: Float[Tensor, " b"]
    norm: Norm

    @property
    def is_l2(self) -> bool:
        """Whether the ball is that of l2."""
        return self.norm.kind is NormKind.L2

    def scaled(self, factor: float) -> "Reach":
        return Reach(factor * self.radius, self.norm)

    def each_row(self, A: Float[Tensor, "c m n"]) -> Float[Tensor, "b m"]:
        """max |A_i delta|."""
        return self.radius[:, None] * torch.linalg.vector_norm(A, self.norm.dual, dim=2)

    def entries(self, w: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
        """max |w delta|_2, entry by entry."""
        return self.radius * (w.abs().amax(dim=1) if self.is_l2 else length(w))

    def weighted(
        self,
        A: Float[Tensor, "c m n"],
        weights: Float[Tensor, "b m"],
        error: Float[Tensor, "b m"],
        each: Float[Tensor, "b m"],
        *,
        norm: Float[Tensor, " b"] | None = None,
    ) -> Float[Tensor, " b"]:
        """At least |sqrt(weights) (A delta + e)|_2, where |e_i| <= error_i and |(A delta + e)_i| <= each_i.

        `norm` is that of sqrt(weights) A where it is known.
        """
        apart = length(weights.sqrt() * each)
        if not self.is_l2:
            return apart
        norm = gram_norm(A, weights) if norm is None else norm
        return torch.minimum(apart, self.radius * norm + length(weights.sqrt() * error))

    def least(self, A: Float[Tensor, "b m n"]) -> Float[Tensor, " b"]:
        """At most `whole`: |A delta|_2 for some delta of the ball, by a few steps of the power method."""
        delta = self.radius[:, None] * torch.ones_like(A[:, 0])
        moved = torch.zeros_like(A[:, :, 0])
        for _ in range(STEPS):
            size = length(delta)[:, None].clamp_min(torch.finfo(A.dtype).tiny)
            delta = self.radius[:, None] * (delta / size if self.is_l2 else delta.sign())
            moved = times(A, delta)
            delta = times(A.mT, moved)
        return length(moved)

    def whole(self, A: Float[Tensor, "b m n"], draws: Draws) -> Float[Tensor, " b"]:
        """At least |A delta|_2, closely."""
        largest = A.abs().amax(dim=(1, 2))
        A = A / torch.where(largest > 0, largest, 1.0)[:, None, None]  # or squares underflow
        return self.radius * largest * self._unit(A, draws)

    def _unit(self, A: Float[Tensor, "b m n"], draws: Draws) -> Float[Tensor, " b"]:
        """The same for entries of order one and the ball of radius one."""
        G = A.mT @ A
        if self.is_l2:
            return proved_eigenvalue(G, draws).sqrt()
        D, _ = DiagonalScaling(rounds=20)(Dense(A), draws)
        narrow = D.rsqrt()
        value = proved_eigenvalue(narrow[:, :, None] * G * narrow[:, None, :], draws) * D.sum(dim=1)
        return torch.minimum(value, G.abs().sum(dim=(1, 2))).sqrt()
