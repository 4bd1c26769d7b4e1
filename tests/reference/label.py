"""max |J delta| over the delta of a ball that keep a linearised label, by optimisation from many starts."""

import numpy as np
from scipy.optimize import minimize


def constrained_optimum(
    J: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float, *, ball: str, starts: int, rng: np.random.Generator
) -> float:
    """The best feasible |J delta| found; never above the optimum, since the point is pulled back into the set."""
    P, n = J.T @ J, J.shape[1]
    constraints = [{"type": "ineq", "fun": lambda d: b - a @ d, "jac": lambda d: -a}]
    if ball == "l2":
        constraints.append({"type": "ineq", "fun": lambda d: eps**2 - d @ d, "jac": lambda d: -2 * d})
    bounds = [(-eps, eps)] * n
    best = 0.0
    for _ in range(starts):
        found = minimize(
            lambda d: -(d @ P @ d),
            eps * rng.uniform(-1, 1, n) / np.sqrt(n),
            jac=lambda d: -2 * P @ d,
            bounds=bounds,
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 200, "ftol": 1e-13},
        )
        best = max(best, float(np.linalg.norm(J @ _pulled_back(found.x, a, b, eps, ball))))
    return best


def sampled_optimum(J: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float, *, points: int = 200_000) -> float:
    """Two dimensions, l2: the best feasible point on a fine grid of the circle and of the constraints' chords."""
    angle = np.linspace(0, 2 * np.pi, points)
    candidates = [eps * np.stack([np.cos(angle), np.sin(angle)], axis=1)]
    for normal, offset in zip(a, b, strict=True):
        length = np.linalg.norm(normal)
        along = np.array([-normal[1], normal[0]]) / length
        candidates.append(normal * offset / length**2 + np.linspace(-eps, eps, points // 10)[:, None] * along)
    delta = np.concatenate(candidates)
    feasible = (np.linalg.norm(delta, axis=1) <= eps * (1 + 1e-12)) & (delta @ a.T <= b + 1e-12).all(axis=1)
    return float(np.linalg.norm(delta[feasible] @ J.T, axis=1).max())


def _pulled_back(delta: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float, ball: str) -> np.ndarray:
    """delta shrunk towards 0, which is feasible because b >= 0, until every constraint holds."""
    size = np.linalg.norm(delta) if ball == "l2" else np.abs(delta).max()
    reach = a @ delta
    ratios = [eps / size if size > 0 else 1.0] + [bk / rk for bk, rk in zip(b, reach, strict=True) if rk > 0]
    return delta * min(1.0, *ratios)
