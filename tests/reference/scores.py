"""Scores of one sample's maps, by loops from their definitions, in float64."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

Probability = Callable[[np.ndarray], float]  # of an input, in its own shape


def heat(g: np.ndarray) -> np.ndarray:
    """|g| of shape (channels, ...) summed over channels."""
    return sum(np.abs(channel) for channel in g)


def curve(
    probability: Probability, x: np.ndarray, fill: np.ndarray, h: np.ndarray, steps: int, *, into: bool
) -> list[tuple[float, float]]:
    """Shares and probabilities, pixel by pixel: the largest first, of which no two are equal."""
    order = sorted(np.ndindex(h.shape), key=lambda place: -h[place])
    found = []
    for step in range(steps + 1):
        count = round(step * len(order) / steps)
        z = fill.copy() if into else x.copy()
        for place in order[:count]:
            z[(slice(None), *place)] = (x if into else fill)[(slice(None), *place)]
        found.append((count / len(order), probability(z)))
    return found


def area(points: Sequence[tuple[float, float]]) -> float:
    return math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))


def blurred(picture: np.ndarray, sigma: float, taps: int) -> np.ndarray:
    """Each pixel the mean of those around it, by the weights of a Gaussian, of those that are there."""
    out, half = np.zeros_like(picture), taps // 2
    for c, i, j in np.ndindex(picture.shape):
        rows, columns = (
            range(max(0, k - half), min(n, k + half + 1)) for k, n in ((i, picture.shape[1]), (j, picture.shape[2]))
        )
        near = [
            (picture[c, a, b], math.exp(-((a - i) ** 2 + (b - j) ** 2) / (2 * sigma**2))) for a in rows for b in columns
        ]
        out[c, i, j] = math.fsum(p * w for p, w in near) / math.fsum(w for _, w in near)
    return out


def ssim(x: np.ndarray, y: np.ndarray, sigma: float) -> float:
    """The mean over windows of 7 x 7 pixels, weighted by a Gaussian, of pictures whose largest entry is 1."""
    place = np.arange(7) - 3
    w = np.exp(-(place[:, None] ** 2 + place**2) / (2 * sigma**2))
    w /= w.sum()
    found = []
    for i, j in np.ndindex(x.shape[0] - 6, x.shape[1] - 6):
        a, b = x[i : i + 7, j : j + 7], y[i : i + 7, j : j + 7]
        ma, mb = (w * a).sum(), (w * b).sum()
        va, vb, c = (w * (a - ma) ** 2).sum(), (w * (b - mb) ** 2).sum(), (w * (a - ma) * (b - mb)).sum()
        found.append((2 * ma * mb + 1e-4) * (2 * c + 9e-4) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4)))
    return float(np.mean(found))


def similarities(h: np.ndarray, moved: Iterable[np.ndarray]) -> tuple[float, float, float]:
    """Cosine, correlation and SSIM of h and others, each mean over the others; all are divided by their maxima."""
    h, found = h / h.max(), []
    for other in moved:
        k = other / other.max()
        cosine = float((h * k).sum() / np.sqrt((h**2).sum() * (k**2).sum()))
        found.append((cosine, float(np.corrcoef(h.ravel(), k.ravel())[0, 1]), ssim(h, k, 1.5)))
    return tuple(np.mean(found, axis=0))


def relative(before: np.ndarray, after: np.ndarray) -> float:
    """|(before - after) / before|_2, where 0 divides as 1e-6."""
    pairs = zip(before.ravel(), after.ravel(), strict=True)
    return math.sqrt(math.fsum(((a - b) / (a if a != 0 else 1e-6)) ** 2 for a, b in pairs))


def criterion(g: np.ndarray, moved: np.ndarray) -> float:
    return (1 - float(g @ moved) / (math.hypot(*g) * math.hypot(*moved))) / 2
