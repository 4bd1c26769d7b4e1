"""Orthonormal bases of b spaces that grow by one vector at a time."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

ALL = slice(None)


class Basis:
    """b bases of the same size k, stored as one (capacity, b, n) block that doubles when full. What is not used yet is not touched either,
    so that on a CPU it takes no memory; 32 is more than most samples need.
    """

    def __init__(self, first: Float[Tensor, "b n"], *, capacity: int = 32) -> None:
        b, n = first.shape
        self._block = first.new_empty(min(capacity, n + 1), b, n)
        self.size = 0
        self.append(first)

    @property
    def vectors(self) -> Float[Tensor, "b k n"]:
        return self._block[: self.size].transpose(0, 1)

    @property
    def last(self) -> Float[Tensor, "b n"]:
        return self._block[self.size - 1]

    def append(self, vector: Float[Tensor, "b n"], *, length: Float[Tensor, "b 1"] | float = 1.0) -> None:
        """A unit vector, or one with its length."""
        if self.size == len(self._block):
            block = self._block.new_empty(2 * self.size, *self._block.shape[1:])
            block[: self.size] = self._block
            self._block = block
        torch.div(vector, length, out=self._block[self.size])
        self.size += 1

    def orthogonalise(self, z: Float[Tensor, "b n"], *, passes: int = 2) -> Float[Tensor, "b n"]:
        """z less its part in the space; twice is enough (Kahan & Parlett), once where z was nearly orthogonal to it before."""
        for _ in range(passes):
            z, _ = _without(z, self.vectors)
        return z

    def without_last_two(self, z: Float[Tensor, "b n"]) -> tuple[Float[Tensor, "b n"], Float[Tensor, " b"]]:
        """z less its part along the last two vectors, and how much of it lay along the last."""
        rest, coefficients = _without(z, self.vectors[:, -2:])
        return rest, coefficients[:, -1]

    def combine(
        self, coefficients: Float[Tensor, "kept k"], rows: Int64[Tensor, " kept"] | slice = ALL
    ) -> Float[Tensor, "kept n"]:
        """The unit vector along sum_k coefficients_k q_k, of some of the samples."""
        vector = torch.bmm(coefficients[:, None, :], self.vectors[rows, : coefficients.shape[1]])[:, 0]
        return torch.nn.functional.normalize(vector, dim=1)

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        capacity, _, n = self._block.shape
        block = self._block.new_empty(capacity, len(keep), n)
        torch.index_select(self._block[: self.size], 1, keep, out=block[: self.size])
        self._block = block


def _without(
    z: Float[Tensor, "b n"], vectors: Float[Tensor, "b k n"]
) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k"]]:
    """z less its part along the vectors, and its coefficients; as rows, which a CPU multiplies twice as fast as columns."""
    coefficients = torch.bmm(z[:, None], vectors.mT)
    return torch.baddbmm(z[:, None], coefficients, vectors, alpha=-1)[:, 0], coefficients[:, 0]
