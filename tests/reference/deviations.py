"""The shortest changes that push entries out of the k largest, over all sets, and changes that move a mass centre far."""

from itertools import combinations, pairwise

import numpy as np
from numpy import ndarray


def level(raised: ndarray, lowered: ndarray) -> tuple[float, float]:
    """The t to which it is cheapest to raise the ones and lower the others, and the length of that change."""

    def cost(t: float) -> float:
        return float(np.linalg.norm(np.concatenate([np.maximum(t - raised, 0), np.maximum(lowered - t, 0)])))

    kinks = np.sort(np.concatenate([raised, lowered]))
    candidates = list(kinks)
    for left, right in pairwise(kinks):
        moving = np.concatenate([raised[raised <= left], lowered[lowered >= right]])
        if len(moving):
            candidates.append(float(np.clip(moving.mean(), left, right)))
    best = min(candidates, key=cost)
    return float(best), cost(best)


def shortest_swap(g: ndarray, k: int, m: int) -> tuple[float, ndarray]:
    """The least |g' - g| after which another set, without m of the k largest of |g|, is at least as large; and such a g'."""
    values = np.abs(g)
    top = set(np.argsort(-values, kind="stable")[:k].tolist())
    best = (np.inf, g)
    for chosen in combinations(range(len(g)), k):
        if len(top & set(chosen)) != k - m:
            continue
        inside = np.isin(np.arange(len(g)), chosen)
        t, length = level(values[inside], values[~inside])
        if length < best[0]:
            moved = np.where(inside, np.maximum(values, t), np.minimum(values, t))
            best = (length, np.where(g < 0, -1, 1) * moved)
    return best


def centre(mass: ndarray, places: ndarray) -> ndarray:
    return mass @ places / mass.sum()


def farthest_centre(g: ndarray, places: ndarray, T: float, *, directions: int = 24, steps: int = 60) -> ndarray:
    """Of changes of length T that climb along many directions, the g' whose mass centre is farthest from that of g."""
    mass, best, farthest = np.abs(g), g, 0.0
    for angle in 2 * np.pi * np.arange(directions) / directions:
        along = places @ np.array([np.cos(angle), np.sin(angle)])
        if np.ptp(along) < 1e-9:
            continue  # a picture of one row
        moved = mass
        for _ in range(steps):
            uphill = along - along @ moved / moved.sum()
            moved = np.maximum(mass + T * uphill / np.linalg.norm(uphill), 0)
        distance = float(np.linalg.norm(centre(moved, places) - centre(mass, places)))
        if distance > farthest:
            best, farthest = np.where(g < 0, -1, 1) * moved, distance
    return best
