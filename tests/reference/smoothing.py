"""Smoothing certificates the slow way: many digits, searches over (R1, R2, R3), fields that attain the bound, loops for bets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np
from numpy import ndarray
from scipy.optimize import minimize
from torch import Tensor

from attrcert.attributions.bounded import Bounding, length

DIGITS = 40


def uniform_tau(eps: float, radius: float, d: int) -> "mp.mpf":
    """Total variation of two balls of that radius whose centres are eps apart."""
    with mp.workdps(DIGITS):
        x = (mp.mpf(eps) / (2 * mp.mpf(radius))) ** 2
        return mp.betainc(mp.mpf(1) / 2, mp.mpf(d + 1) / 2, 0, x, regularized=True)


def gaussian_tau(eps: float, sigma: float) -> "mp.mpf":
    with mp.workdps(DIGITS):
        return mp.erf(mp.mpf(eps) / (2 * mp.sqrt(2) * mp.mpf(sigma)))


def bounded(bounding: Bounding, g: Tensor, M: Tensor) -> Tensor:
    """Vectors times the factors of their lengths, in double precision."""
    return bounding.factor(length(g)[:, :, 0], M)[:, :, None] * g.double()


def cosine(a: ndarray, b: ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def exact_cosine(c: float, tau: float, *, tight: bool) -> "mp.mpf":
    """The rule's cosine in many digits, of those very numbers."""
    with mp.workdps(DIGITS):
        ratio, t = mp.mpf(c), mp.mpf(tau)
        if not tight or ratio * ratio <= (1 - t) ** 2 + 3 * t * t:
            return mp.sqrt(1 - (2 * t / ratio) ** 2)
        om = (1 - ratio) * (2 * t - (1 - ratio)) / (2 * ratio * (1 - t))
        return mp.cos(2 * mp.asin(mp.sqrt(om / 2)) + mp.asin(t / (1 - t)))


def random_triples(c: float, tau: float, dim: int, n: int, seed: int) -> ndarray:
    """Cosines of h = c e and R2 + R3 over random R2, R3 that the bounds allow, many of them on their spheres."""
    rng = np.random.default_rng(seed)

    def ball(length: float) -> ndarray:
        z = rng.standard_normal((n, dim))
        inner = np.where(rng.random(n) < 0.5, 1.0, rng.random(n))
        return length * inner[:, None] * z / np.linalg.norm(z, axis=1, keepdims=True)

    h = c * np.eye(dim)[0]
    R2 = h - ball(tau)
    R2 *= np.minimum(1, (1 - tau) / np.linalg.norm(R2, axis=1, keepdims=True))
    moved = (R2 + ball(tau))[np.linalg.norm(h - R2, axis=1) <= tau]
    return moved[:, 0] / np.linalg.norm(moved, axis=1)


def least_cosine(c: float, tau: float, dim: int, *, starts: int = 6, seed: int = 0) -> float:
    """The smallest cosine that a local search from random starts finds."""
    rng = np.random.default_rng(seed)
    h = c * np.eye(dim)[0]

    def cosine_of(z: ndarray) -> float:
        moved = z[:dim] + z[dim:]
        return moved[0] / max(float(np.linalg.norm(moved)), 1e-12)

    allowed = [
        {"type": "ineq", "fun": lambda z: tau**2 - np.sum((h - z[:dim]) ** 2)},
        {"type": "ineq", "fun": lambda z: (1 - tau) ** 2 - np.sum(z[:dim] ** 2)},
        {"type": "ineq", "fun": lambda z: tau**2 - np.sum(z[dim:] ** 2)},
    ]
    best = 1.0
    for _ in range(starts):
        start = np.concatenate([h * min(1.0, (1 - tau) / c), np.zeros(dim)]) + tau / 2 * rng.standard_normal(2 * dim)
        options = {"ftol": 1e-14, "maxiter": 300}
        found = minimize(cosine_of, start, constraints=allowed, method="SLSQP", options=options)
        if min(constraint["fun"](found.x) for constraint in allowed) > -1e-10:
            best = min(best, found.fun)
    return best


@dataclass(frozen=True)
class Field:
    """Unit-bounded values on three regions: at x only, at both, at x + delta only."""

    here: ndarray
    both: ndarray
    there: ndarray

    def smoothed(self, tau: float) -> tuple[ndarray, ndarray]:
        """h(x) and h(x + delta)."""
        return tau * self.here + (1 - tau) * self.both, tau * self.there + (1 - tau) * self.both


def attaining(c: float, tau: float, dim: int) -> Field:
    """A field bounded by 1 with |h(x)| = c whose angle is the largest there is; the middle part is held back by its bound if need be."""
    e, side = np.eye(dim)[0], np.eye(dim)[1]
    if c * c <= (1 - tau) ** 2 + 3 * tau**2:
        v = -2 * tau / c * e + math.sqrt(1 - (2 * tau / c) ** 2) * side
        return Field(-v, (c * e + tau * v) / (1 - tau), v)
    phi = math.acos(((1 - tau) ** 2 + c * c - tau**2) / (2 * (1 - tau) * c))
    R2 = (1 - tau) * (math.cos(phi) * e + math.sin(phi) * side)
    theta = phi + math.asin(tau / (1 - tau))
    R3 = tau * (-math.sin(theta) * e + math.cos(theta) * side)  # at a right angle to R2 + R3
    return Field((c * e - R2) / tau, R2 / (1 - tau), R3 / tau)


def four_relus(d: int, eps: float, a2: float, radius: float = 1.0) -> tuple[float, float]:
    """|h(x)| and the cosine of h(x), h(0) for f = a|x_1| + b x_2 at x = -eps e_1."""
    a, b = math.sqrt(a2), math.sqrt(1 - a2)
    m = float(uniform_tau(2 * eps, radius, d))  # how much more of the ball lies on the one side of x_1 = 0
    c = math.hypot(a * m, b)
    return c, b / c


def betting(
    Y: Sequence[float],
    M: float,
    q: float,
    *,
    cap: float,
    mean: float = 0.5,
    variance: float = 0.25,
    weight: float = 1.0,
    horizon: int | None = None,
    anytime: bool = True,
) -> float:
    """The lower bound by loops: one bet after the other, the capital as a product, its largest root by bisection."""
    Z = [(y + M) / (2 * M) for y in Y]
    horizon = horizon or len(Z)

    def capital(m: float) -> float:
        log_capital, most, seen, squares = 0.0, -math.inf, 0.0, 0.0
        spread = variance
        for t, z in enumerate(Z, start=1):
            bet = min(math.sqrt(2 * math.log(1 / q) / (horizon * spread)), cap / m)
            log_capital += math.log(1 + bet * (z - m))
            most = max(most, log_capital)
            seen += z
            squares += (z - (weight * mean + seen) / (weight + t)) ** 2
            spread = (weight * variance + squares) / (weight + t)
        return most if anytime else log_capital

    low, high = 1e-9, 1.0
    if capital(low) < math.log(1 / q):
        return -M
    while high - low > 1e-14:
        middle = (low + high) / 2
        low, high = (middle, high) if capital(middle) >= math.log(1 / q) else (low, middle)
    return M * (2 * low - 1)


def projections(X: ndarray, chunk: int, pilot: int, *, frozen: bool) -> tuple[list[float], list[float]]:
    """Pilot and later projections of the rows of X on the direction of the sum of the chunks before, one after the other."""
    before, later, total, direction = [], [], np.zeros(X.shape[1]), None
    for start in range(0, len(X), chunk):
        part = X[start : start + chunk]
        if start:
            (before if start < pilot else later).extend(float(x @ direction) for x in part)
        total = total + part.sum(axis=0)
        if start < pilot or not frozen:
            direction = total / np.linalg.norm(total)
    return before, later
