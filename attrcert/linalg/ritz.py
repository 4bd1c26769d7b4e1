"""Ritz values of symmetric maps as measurements: what is to be proved or searched for, with no claim of their own."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

COLUMNS = 128  # of a matrix, at a time
TINY = 1e-150
NOISE = 1e-10  # share of a vector's length that is only rounding: what is left spans nothing new

Map = Callable[[Tensor], Tensor]


def ritz(
    apply: Map, first: Float[Tensor, "b n"], steps: int, count: int
) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k n"]]:
    """The largest values after some steps of Lanczos with full orthogonalisation, at most `count`, and their vectors."""
    steps = min(steps, first.shape[1])
    basis = first.new_zeros(len(first), steps, first.shape[1])
    images = torch.zeros_like(basis)
    w = first
    for k in range(steps):
        before = torch.linalg.vector_norm(w, dim=1, keepdim=True)
        for _ in range(2):
            w = w - (basis[:, :k].mT @ (basis[:, :k] @ w[:, :, None]))[:, :, 0]
        size = torch.linalg.vector_norm(w, dim=1, keepdim=True)
        basis[:, k] = torch.where(size > NOISE * before, w / size.clamp_min(TINY), 0.0)
        images[:, k] = w = apply(basis[:, k])
    T = basis @ images.mT
    finite = T.isfinite().all(dim=2).all(dim=1)[:, None]
    values, vectors = torch.linalg.eigh(torch.where(finite[:, :, None], (T + T.mT) / 2, 0.0))
    k = min(count, steps)
    values = torch.where(finite, values[:, -k:].flip(1), torch.inf)
    return values, vectors[:, :, -k:].flip(2).mT @ basis


def dense(
    apply: Callable[[Float[Tensor, "b k n"]], Float[Tensor, "b k n"]], b: int, n: int, *, like: Tensor
) -> Float[Tensor, "b n n"]:
    """The matrix of a symmetric map."""
    found = like.new_empty(b, n, n)
    for start in range(0, n, COLUMNS):
        k = min(COLUMNS, n - start)
        unit = like.new_zeros(b, k, n)
        unit.diagonal(start, dim1=1, dim2=2).fill_(1.0)
        found[:, start : start + k] = apply(unit)
    return found
