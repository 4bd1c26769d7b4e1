"""Orthonormal bases of b spaces that grow by one vector at a time."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor


class Basis:
    """b bases of the same size k, stored as one (b, capacity, n) block that doubles when full."""

    def __init__(self, first: Float[Tensor, "b n"], *, capacity: int = 16) -> None:
        b, n = first.shape
        self._block = first.new_empty(b, min(capacity, n + 1), n)
        self.size = 0
        self.append(first)

    @property
    def vectors(self) -> Float[Tensor, "b k n"]:
        return self._block[:, : self.size]

    @property
    def last(self) -> Float[Tensor, "b n"]:
        return self._block[:, self.size - 1]

    def append(self, vector: Float[Tensor, "b n"]) -> None:
        b, capacity, n = self._block.shape
        if self.size == capacity:
            self._block = torch.cat([self._block, self._block.new_empty(b, capacity, n)], dim=1)
        self._block[:, self.size] = vector
        self.size += 1

    def orthogonalise(self, z: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """z less its part in the space; twice is enough (Kahan & Parlett)."""
        for _ in range(2):
            coefficients = torch.bmm(self.vectors, z[:, :, None])
            z = z - torch.bmm(self.vectors.mT, coefficients)[:, :, 0]
        return z

    def combine(self, coefficients: Float[Tensor, "b k"]) -> Float[Tensor, "b n"]:
        """The unit vector along sum_k coefficients_k q_k."""
        vector = torch.bmm(coefficients[:, None, :], self.vectors[:, : coefficients.shape[1]])[:, 0]
        return torch.nn.functional.normalize(vector, dim=1)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        self._block = self._block[keep]
