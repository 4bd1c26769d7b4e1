"""Metrics between two attribution maps of one sample, by loops from their definitions, in float64."""

import math
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

Shape = tuple[int, ...]


def euclidean(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(g, reference, strict=True)))


def cosine(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    inner = math.fsum(a * b for a, b in zip(g, reference, strict=True))
    return inner / (math.hypot(*g) * math.hypot(*reference))


def degrees(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    """By the arc cosine, which is good away from 0 and 180 degrees."""
    return math.degrees(math.acos(cosine(g, reference, shape)))


def largest(g: np.ndarray, k: int) -> set[int]:
    """The k largest by absolute value, one after the other; of equal ones the first."""
    left = list(range(len(g)))
    chosen: set[int] = set()
    for _ in range(min(k, len(g))):
        best = left[0]
        for i in left:
            if abs(g[i]) > abs(g[best]):
                best = i
        chosen.add(best)
        left.remove(best)
    return chosen


def top_k(g: np.ndarray, reference: np.ndarray, k: int) -> float:
    return len(largest(g, k) & largest(reference, k)) / min(k, len(g))


def top_k_mass(g: np.ndarray, reference: np.ndarray, k: int) -> float:
    return math.fsum(abs(g[i]) for i in largest(reference, k)) / math.fsum(abs(a) for a in g)


def kendall(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    """tau-b from all pairs."""
    balance = untied_g = untied_reference = 0
    for i, j in combinations(range(len(g)), 2):
        a, b = _sign(g[i] - g[j]), _sign(reference[i] - reference[j])
        balance += a * b
        untied_g += a != 0
        untied_reference += b != 0
    return balance / math.sqrt(untied_g * untied_reference)


def spearman(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    return pearson(_ranks(g), _ranks(reference), shape)


def pearson(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    centred = [np.array([a - math.fsum(v) / len(v) for a in v]) for v in (g, reference)]
    return cosine(*centred, shape)


def centre(g: np.ndarray, shape: Shape) -> list[float]:
    """sum of place times mass over sum of mass, entry by entry, one coordinate for each axis after the channels."""
    entries = list(zip(product(*map(range, shape)), g, strict=True))
    mass = math.fsum(abs(a) for _, a in entries)
    return [math.fsum(place[axis] * abs(a) for place, a in entries) / mass for axis in range(1, len(shape))]


def mass_centre(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    return math.dist(centre(g, shape), centre(reference, shape))


def ssim(g: np.ndarray, reference: np.ndarray, shape: Shape) -> float:
    """The mean over windows of 7 x 7, one after the other."""
    x, y = _picture(g, shape), _picture(reference, shape)
    return float(np.mean([_similarity(x[window], y[window]) for window in _windows(shape[1:])]))


def _similarity(x: np.ndarray, y: np.ndarray) -> float:
    c1, c2 = 0.01**2, 0.03**2
    (vx, c), (_, vy) = np.cov(x.ravel(), y.ravel(), ddof=1)
    mx, my = x.mean(), y.mean()
    return (2 * mx * my + c1) * (2 * c + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))


def _picture(g: np.ndarray, shape: Shape) -> np.ndarray:
    mass = sum(np.abs(channel) for channel in g.reshape(shape))
    return mass / mass.max()


def _windows(sides: Shape) -> Iterator[tuple[slice, slice]]:
    for row, column in product(range(sides[0] - 6), range(sides[1] - 6)):
        yield slice(row, row + 7), slice(column, column + 7)


def _ranks(g: np.ndarray) -> np.ndarray:
    """A rank is one more than the number of smaller entries, and half of the number of equal others."""
    return np.array([1 + sum(b < a for b in g) + (sum(b == a for b in g) - 1) / 2 for a in g])


def _sign(a: float) -> int:
    return int(a > 0) - int(a < 0)
