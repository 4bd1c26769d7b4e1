"""How far one direction of a smoothed map can move, from below and in many digits, and as a linear program; fields integrated exactly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import mpmath as mp
import numpy as np
from numpy import ndarray
from scipy.optimize import brentq, linprog
from scipy.sparse import csr_array, diags_array, hstack, vstack
from scipy.special import ndtr

DIGITS = 150  # a^2 may be as large as the probability that nothing is clipped is small


def clipped(s: "mp.mpf", a: "mp.mpf", b: "mp.mpf", B: "mp.mpf") -> tuple["mp.mpf", "mp.mpf", "mp.mpf"]:
    """E Z, E Z^2 and E[Z L] of Z = clip(a (L - b), -B, B), from E[L^k; n < t] = exp((k^2 - k) s^2 / 2) Phi(t - k s)."""

    def place(level: "mp.mpf") -> "mp.mpf":
        return mp.log(level) / s + s / 2 if level > 0 else -mp.inf

    low, high = place(b - B / a), place(b + B / a)
    grown = [mp.mpf(1), mp.mpf(1), mp.exp(s * s)]
    below = [_below(low - k * s) for k in range(3)]
    above = [_below(k * s - high) for k in range(3)]
    one, first, second = (grown[k] * (1 - below[k] - above[k]) for k in range(3))
    mean = a * (first - b * one) + B * (above[0] - below[0])
    square = a * a * (second - 2 * b * first + b * b * one) + B * B * (above[0] + below[0])
    return mean, square, a * (second - b * first) + B * (above[1] - below[1])


def _below(x: "mp.mpf") -> "mp.mpf":
    """Phi, which mpmath is slow to find where it is 0 or 1 to 20,000 digits."""
    return mp.ncdf(x) if abs(x) < 300 else mp.mpf(x > 0)


def feasible(s: float, variance: float, B: float, a: "mp.mpf", b: "mp.mpf") -> "mp.mpf":
    """E[Z (L - 1)] of clip(a (L - b), -B, B) less its mean, scaled to the variance and the range: K is no smaller, whatever a and b."""
    mean, square, with_L = clipped(mp.mpf(s), a, b, mp.mpf(B))
    scale = min(mp.sqrt(mp.mpf(variance) / (square - mean**2)), mp.mpf(B) / (mp.mpf(B) + abs(mean)))
    return scale * (with_L - mean)


def largest_feasible(s: float, variance: float, B: float) -> "mp.mpf":
    """Over a and b."""
    with mp.workdps(DIGITS + int(s * s)):
        return feasible(s, variance, B, *extremal(s, variance, B))


def extremal(s: float, variance: float, B: float) -> tuple["mp.mpf", "mp.mpf"]:
    """The a and b for which Z has mean 0 and the variance, as nearly as root finding gets."""
    with mp.workdps(DIGITS + int(s * s)):  # E L^2 is exp(s^2)
        S, limit = mp.mpf(s), mp.mpf(B)
        least = mp.sqrt(mp.mpf(variance) / mp.expm1(S * S))

        def level(a: "mp.mpf") -> "mp.mpf":
            """Between the median of L and its mean."""
            b = lambda share: mp.exp(-S * S / 2 * mp.mpf(share))  # noqa: E731
            return b(_root(lambda share: -clipped(S, a, b(share), limit)[0] / limit, 0.0, 1.0))

        def missing(log_a: float) -> "mp.mpf":
            a = least * mp.exp(mp.mpf(log_a))
            return 1 - clipped(S, a, level(a), limit)[1] / mp.mpf(variance)

        high = 0.25
        while missing(high) > 0 and high < 2000:
            high *= 2
        a = least * mp.exp(mp.mpf(_root(missing, 0.0, high)))
        return a, level(a)


def _root(f: Callable[[float], "mp.mpf"], low: float, high: float) -> float:
    """Where f, which falls, is 0, or the end that is nearer to it."""
    if f(low) <= 0 or f(high) >= 0:
        return low if f(low) <= 0 else high
    return brentq(lambda x: float(f(x)), low, high, xtol=1e-15, rtol=1e-15)


def program(s: float, variance: float, B: float, *, cells: int = 160, rounds: int = 6) -> tuple[float, float]:
    """From below and above, the largest E[Z (L - 1)] over Z constant on cells: a linear program with tangents for the squares."""
    edges = np.concatenate([[-np.inf], np.linspace(-5, 5 + 2 * s, cells - 1), [np.inf]])
    here, there = np.diff(ndtr(edges)), np.diff(ndtr(edges - s))
    each, tangents = diags_array(np.ones(cells)), [np.full(cells, t) for t in np.linspace(-1, 1, 9)]
    for _ in range(rounds):
        cuts = vstack([hstack([2 * diags_array(t), -each]) for t in tangents])  # 2 t z - t^2 <= y
        budget = csr_array(np.concatenate([np.zeros(cells), here])[None])
        found = linprog(
            np.concatenate([here - there, np.zeros(cells)]),
            A_ub=vstack([cuts, budget]),
            b_ub=np.concatenate([*(t * t for t in tangents), [variance / B**2]]),
            A_eq=np.concatenate([here, np.zeros(cells)])[None],
            b_eq=[0.0],
            bounds=[(-1, 1)] * cells + [(0, 1)] * cells,
        )
        z = found.x[:cells]
        tangents.append(z)
    fitting = min(1.0, np.sqrt(variance / B**2 / (here @ z**2)))
    return B * fitting * float((there - here) @ z), -B * found.fun


@dataclass(frozen=True)
class Steps:
    """A field of `values` on cells: intervals of one coordinate, or the products of those of two."""

    edges: tuple[ndarray, ...]
    values: ndarray

    def moments(self, law: Callable[[ndarray], ndarray], shift: ndarray) -> tuple[ndarray, ndarray]:
        """Mean and covariance where each coordinate's noise has the distribution function `law`, at a shifted point."""
        shares = [np.diff(law(edges - by)) for edges, by in zip(self.edges, shift, strict=True)]
        weights = shares[0] if len(shares) == 1 else np.outer(*shares).ravel()
        mean = weights @ self.values
        return mean, (self.values * weights[:, None]).T @ self.values - np.outer(mean, mean)

    @property
    def limit(self) -> float:
        return float(np.linalg.norm(self.values, axis=1).max())


def fields(count: int, seed: int) -> Iterator[Steps]:
    """Fields of two or three entries: jumps at random places, clipped lines, rare values far away, sectors of the plane."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        m = int(rng.integers(2, 4))
        if i % 4 == 3:
            yield _sectors(rng, m)
            continue
        cells = int(rng.integers(2, 7)) if i % 4 else 200
        edges = np.sort(rng.normal(0, 1.5, cells - 1)) if i % 4 else np.linspace(-5, 5, cells - 1)
        values = rng.standard_normal((cells, m))
        if i % 4 == 0:
            centres = np.concatenate([edges, [5.1]])
            values = np.clip(np.outer(centres - rng.normal(), rng.normal(0, 3, m)) + rng.normal(0, 1, m), -1, 1)
        if i % 4 == 1:
            values[:-1] = values[0] + 0.05 * values[:-1]  # all but the last are alike
        yield Steps((np.concatenate([[-np.inf], edges, [np.inf]]),), values)


def _sectors(rng: np.random.Generator, m: int) -> Steps:
    grid = np.linspace(-4, 4, 41)
    centres = np.concatenate([grid - 0.1, [4.1]])
    angles = np.arctan2(*(centre + rng.normal() for centre in np.meshgrid(centres, centres, indexing="ij")))
    values = rng.standard_normal((4, m))[np.floor((angles + np.pi) / (2 * np.pi) * 4 * (1 - 1e-9)).astype(int)]
    ends = np.concatenate([[-np.inf], grid, [np.inf]])
    return Steps((ends, ends), values.reshape(-1, m))
