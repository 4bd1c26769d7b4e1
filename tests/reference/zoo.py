"""Matrices that break iterative solvers, by name; each is (matrix in float64, symmetric)."""

from collections.abc import Callable

import torch
from torch import Tensor

Member = tuple[Tensor, bool]


def _normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotated(values: Tensor, seed: int = 0) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    Q = torch.linalg.qr(_normal(seed, len(values), len(values))).Q
    A = Q @ torch.diag(values.double()) @ Q.T
    return (A + A.T) / 2


def _skewed(values: Tensor, seed: int = 0) -> Tensor:
    """A non-symmetric matrix with these singular values."""
    n = len(values)
    U, V = torch.linalg.qr(_normal(seed, n, n)).Q, torch.linalg.qr(_normal(seed + 1, n, n)).Q
    return U @ torch.diag(values.double()) @ V.T


def _clustered(n: int) -> Tensor:
    top = 1 - torch.tensor([0.0, 1e-9, 1e-6, 1e-5, 1e-4, 1e-3], dtype=torch.float64)
    return torch.cat([top, torch.linspace(0, 0.9, n - len(top), dtype=torch.float64)])


def _repeated(n: int, times: int) -> Tensor:
    return torch.cat([torch.ones(times), torch.linspace(0, 0.8, n - times)]).double()


ZOO: dict[str, Callable[[], Member]] = {
    "zero-symmetric": lambda: (torch.zeros(20, 20), True),
    "zero-general": lambda: (torch.zeros(20, 20), False),
    "identity": lambda: (torch.eye(50), True),
    "identity-general": lambda: (torch.eye(50), False),
    "negative-identity": lambda: (-torch.eye(50), True),
    "rank-one-symmetric": lambda: (-torch.outer(_normal(1, 40), _normal(1, 40)), True),
    "rank-one-general": lambda: (torch.outer(_normal(1, 40), _normal(2, 40)), False),
    "repeated-top-symmetric": lambda: (rotated(_repeated(60, 5)), True),
    "repeated-top-general": lambda: (_skewed(_repeated(60, 5)), False),
    "clustered-top-symmetric": lambda: (rotated(_clustered(80)), True),
    "clustered-top-general": lambda: (_skewed(_clustered(80)), False),
    "ten-decades-symmetric": lambda: (rotated(torch.logspace(0, -10, 60, dtype=torch.float64)), True),
    "ten-decades-general": lambda: (_skewed(torch.logspace(0, -10, 60, dtype=torch.float64)), False),
    "plus-minus-pairs": lambda: (
        rotated(torch.cat([torch.linspace(0.1, 1, 30), -torch.linspace(0.1, 1, 30)])),
        True,
    ),
    "negative-end": lambda: (rotated(torch.cat([torch.linspace(0, 0.99, 39), torch.tensor([-1.0])])), True),
    "gaussian-general": lambda: (_normal(3, 30, 30), False),
    "nilpotent-shift": lambda: (torch.diag(torch.ones(39), 1), False),
    "tall": lambda: (_normal(4, 60, 25), False),
    "wide": lambda: (_normal(5, 25, 60), False),
    "tiny-symmetric": lambda: (1e-30 * rotated(_repeated(40, 1)), True),
    "tiny-general": lambda: (1e-30 * _normal(6, 40, 40), False),
    "huge-symmetric": lambda: (1e30 * rotated(_repeated(40, 1)), True),
    "huge-general": lambda: (1e30 * _normal(7, 40, 40), False),
    "one-by-one": lambda: (torch.tensor([[-3.0]]), True),
    "one-by-one-general": lambda: (torch.tensor([[2.5]]), False),
    "two-by-two": lambda: (torch.tensor([[0.0, 2.0], [0.0, 0.0]]), False),
    "flat-300": lambda: (rotated(torch.linspace(-1, 1, 300)), True),
    "wigner-500": lambda: ((_normal(8, 500, 500) + _normal(8, 500, 500).T) / 2, True),
    "gaussian-500": lambda: (_normal(9, 500, 500), False),
}
