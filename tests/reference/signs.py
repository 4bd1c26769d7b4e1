"""The cube: all sign vectors, row sums, and points that an optimiser reaches in a ball."""

import numpy as np


def largest_over_signs(J: np.ndarray) -> float:
    """max |J s|_2 over all s in {-1, 1}^n; s and -s do equally well, so the first sign stays 1."""
    n = J.shape[1]
    codes = np.arange(2 ** (n - 1))
    signs = np.ones((len(codes), n))
    for j in range(1, n):
        signs[:, j] = np.where((codes >> (j - 1)) & 1, -1.0, 1.0)
    return float(np.linalg.norm(signs @ J.T, axis=1).max())


def row_sums(J: np.ndarray) -> float:
    """sqrt(sum_ij |P_ij|), P = J^T J, entry by entry."""
    return float(np.sqrt(np.abs(J.T @ J).sum()))


def ascent(J: np.ndarray, p: float, starts: int, rounds: int, rng: np.random.Generator) -> float:
    """The largest |J delta|_2 that generalised power iteration reaches over |delta|_p <= 1, p > 1."""
    n, best = J.shape[1], 0.0
    for _ in range(starts):
        delta = rng.standard_normal(n)
        for _ in range(rounds):
            delta = _dual_point(J.T @ (J @ delta), p)
            best = max(best, float(np.linalg.norm(J @ delta)))
    return best


def random_reach(J: np.ndarray, p: float, draws: int, rng: np.random.Generator) -> float:
    """The largest |J delta|_2 over random points of the unit sphere of the p-norm."""
    delta = rng.standard_normal((draws, J.shape[1]))
    delta = np.sign(delta) if np.isinf(p) else delta / np.linalg.norm(delta, ord=p, axis=1, keepdims=True)
    return float(np.linalg.norm(delta @ J.T, axis=1).max())


def _dual_point(z: np.ndarray, p: float) -> np.ndarray:
    """argmax of z . delta over |delta|_p <= 1."""
    if np.isinf(p):
        return np.where(z >= 0, 1.0, -1.0)
    q = p / (p - 1)
    scaled = np.abs(z) / max(np.abs(z).max(), 1e-300)
    point = np.sign(z) * scaled ** (q - 1)
    return point / max(np.linalg.norm(point, ord=p), 1e-300)
