"""Nearest points, brute-force optima and attack objectives, slowly and one sample at a time."""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from reference.dense import SampleMap


def nearest_point(z: np.ndarray, low: np.ndarray, high: np.ndarray, eps: float) -> np.ndarray:
    """The nearest d with |d|_2 <= eps and low <= d <= high: d = clip(z / (1 + mu)), the multiplier mu >= 0 by bisection."""
    z = z.astype(np.float64)

    def at(log_divisor: float) -> np.ndarray:
        return np.clip(z * np.exp(-log_divisor), low, high)

    if np.linalg.norm(at(0.0)) <= eps:
        return at(0.0)
    inside = np.log(np.abs(z).max() * np.sqrt(len(z)) / eps) + 1  # there even the unclipped point is in the ball
    outside = 0.0
    for _ in range(200):
        middle = (inside + outside) / 2
        if np.linalg.norm(at(middle)) <= eps:
            inside = middle
        else:
            outside = middle
    return at(inside)


class Quadratic(nn.Module):
    """Logits (x^T A x / 2 + b . x, far below): the saliency of class 0 is A x + b, and the label never changes."""

    def __init__(self, A: Tensor, b: Tensor) -> None:
        super().__init__()
        self.A, self.b = nn.Parameter(A), nn.Parameter(b)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        score = 0.5 * torch.einsum("bi,ij,bj->b", flat, self.A, flat) + flat @ self.b
        return torch.stack([score, torch.full_like(score, -1e6)], dim=1)


def farthest_in_cut_ball(A: np.ndarray, low: np.ndarray, high: np.ndarray, eps: float) -> float:
    """max |A d|_2 over |d|_2 <= eps and low <= d <= high, by a local optimiser from all corners and axes."""
    n = len(low)
    best = 0.0
    corners = [np.array(corner) / np.sqrt(n) for corner in product((-1.0, 1.0), repeat=n)]
    for direction in (*corners, *np.eye(n), *-np.eye(n)):
        start = np.clip(eps * direction + 1e-3 * eps, low, high)
        found = minimize(
            lambda d: -((A @ d) ** 2).sum(),
            start,
            jac=lambda d: -2 * A.T @ (A @ d),
            bounds=list(zip(low, high, strict=True)),
            constraints={"type": "ineq", "fun": lambda d: eps**2 - d @ d, "jac": lambda d: -2 * d},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 200},
        )
        d = nearest_point(found.x, low, high, eps)
        best = max(best, float(np.linalg.norm(A @ d)))
    return best


def farthest_in_cut_cube(A: np.ndarray, low: np.ndarray, high: np.ndarray, eps: float) -> float:
    """max |A d|_2 over |d|_inf <= eps and low <= d <= high: a convex function is largest at a corner, so all are tried."""
    sides = list(zip(np.maximum(low, -eps), np.minimum(high, eps), strict=True))
    return max(float(np.linalg.norm(A @ np.array(corner))) for corner in product(*sides))


Objective = Callable[[Tensor, Tensor], Tensor]  # of the moved map and the original one, both of shape (channels, h, w)


def euclidean(moved: Tensor, original: Tensor) -> Tensor:
    return sum(((a - b) ** 2 for a, b in zip(moved.flatten(), original.flatten(), strict=True)), torch.tensor(0.0))


def cosine(moved: Tensor, original: Tensor) -> Tensor:
    a, b = moved.flatten(), original.flatten()
    return 1 - (a @ b) / ((a @ a).sqrt() * (b @ b).sqrt())


def top_k(k: int) -> Objective:
    """Less the share of |g'| at the k largest |g|."""

    def objective(moved: Tensor, original: Tensor) -> Tensor:
        order = sorted(range(original.numel()), key=lambda i: -abs(float(original.flatten()[i])))
        mass = moved.flatten().abs()
        return -sum((mass[i] for i in order[:k]), torch.tensor(0.0)) / mass.sum()

    return objective


def mass_centre(moved: Tensor, original: Tensor) -> Tensor:
    """The squared distance of the centres of |g| summed over channels, pixel by pixel."""

    def centre(g: Tensor) -> list[Tensor]:
        mass = g.abs().sum(0)
        places = list(product(range(mass.shape[0]), range(mass.shape[1])))
        total = sum((mass[place] for place in places), torch.tensor(0.0))
        return [sum((place[axis] * mass[place] for place in places), torch.tensor(0.0)) / total for axis in (0, 1)]

    return sum(((a - b) ** 2 for a, b in zip(centre(moved), centre(original), strict=True)), torch.tensor(0.0))


def manipulate(target: Tensor, weight: float) -> Objective:
    """Less the mean squared distance of the map, divided by its mean, from a target of mean 1."""

    def objective(moved: Tensor, original: Tensor) -> Tensor:
        mass = moved.abs().sum(0).flatten()
        return -weight * ((mass / mass.mean() - target) ** 2).mean()

    return objective


def composed_slope(
    objective: Objective, g: SampleMap, x: Tensor, delta: Tensor, drift: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """objective(g(x + delta), g(x)) less `drift`, and its gradient in delta by differentiating through g."""
    leaf = delta.view_as(x).detach().clone().requires_grad_()
    moved, original = g(x + leaf).view_as(x), g(x).detach().view_as(x)
    value = objective(moved, original)
    if drift is not None:
        value = value - drift(x + leaf)
    (slope,) = torch.autograd.grad(value, leaf)
    return value.detach(), slope.flatten()
