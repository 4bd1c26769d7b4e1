"""Lanczos and the upper end of its Christoffel function in many digits, and the a-priori factor it replaces."""

import math

import mpmath as mp
import numpy as np


def lanczos(eigenvalues: list[float], start: list[float], k: int, digits: int = 60) -> tuple[list, list]:
    """alpha_1..k and beta_1..k of diag(eigenvalues) from `start`, by the three-term recurrence in many digits."""
    with mp.workdps(digits):
        n = len(eigenvalues)
        lam = [mp.mpf(v) for v in eigenvalues]
        length = mp.sqrt(sum(mp.mpf(v) ** 2 for v in start))
        q, before = [mp.mpf(v) / length for v in start], [mp.mpf(0)] * n
        alphas, betas = [], []
        for _ in range(k):
            z = [lam[i] * q[i] - (betas[-1] if betas else 0) * before[i] for i in range(n)]
            alpha = sum(z[i] * q[i] for i in range(n))
            z = [z[i] - alpha * q[i] for i in range(n)]
            beta = mp.sqrt(sum(v**2 for v in z))
            alphas.append(alpha)
            betas.append(beta)
            before, q = q, [v / beta for v in z]
        return alphas, betas


def christoffel(alphas: list, betas: list, x) -> "mp.mpf":
    """sum_{j=0..k} p_j(x)^2."""
    before, now, coupling = mp.mpf(0), mp.mpf(1), mp.mpf(0)
    total = mp.mpf(1)
    for alpha, beta in zip(alphas, betas, strict=True):
        before, now = now, ((x - alpha) * now - coupling * before) / beta
        coupling = beta
        total += now**2
    return total


def upper_end(alphas: list, betas: list, theta: float, w: float, digits: int = 60) -> float:
    """The root above theta of sum p_j^2 = 1/w by plain bisection."""
    with mp.workdps(digits):
        a, b = [mp.mpf(v) for v in alphas], [mp.mpf(v) for v in betas]
        target = 1 / mp.mpf(w)
        low, step = mp.mpf(theta), mp.mpf(max(abs(theta), 1e-300))
        high = low + step
        while christoffel(a, b, high) < target:
            step *= 2
            high = mp.mpf(theta) + step
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if christoffel(a, b, middle) < target else (low, middle)
        return float(high)


def top_ritz(alphas: list, betas: list) -> float:
    inner = [float(b) for b in betas[:-1]]
    T = np.diag([float(a) for a in alphas]) + np.diag(inner, 1) + np.diag(inner, -1)
    return float(np.linalg.eigvalsh(T)[-1])


def kuczynski_wozniakowski(n: int, k: int, failure: float) -> float:
    """t with lambda_max <= theta_k / (1 - t), for a step count k fixed in advance."""
    return (math.log(1.648 * math.sqrt(n) / failure) / (2 * k - 1)) ** 2
