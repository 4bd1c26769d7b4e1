"""Integrated gradients: g(x) = D * sum_k w_k grad f_y(b + a_k D), D = x - b [sundararajan2017axiomatic].

Notation: a_k nodes in (0, 1] and w_k weights of the quadrature, b = B x + constant the baseline, m = sum_k w_k grad
f_y(z_k), z_k = b + a_k D, H_k the Hessian there. With C_k = a_k + (1 - a_k) B:
    J v   = (v - B v) * m + D * sum_k w_k H_k C_k v
    J^T u = (1 - B^T)(m * u) + sum_k w_k C_k^T H_k (D * u)
For a constant baseline B = 0 and this is the usual rule.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.baselines import Baseline, Constant
from attrcert.attributions.gradient import Hessian, gradient
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.types import Attribution, Classes, Explained, Flat, Inputs, LinearMap, Logits
from attrcert.vocabulary import QUADRATURES

BLACK = Constant((0.0,))


@dataclass(frozen=True)
class PathJacobian(LinearMap):
    """The map J above."""

    mean_gradient: Flat
    difference: Flat
    hessian: Hessian
    nodes: Float[Tensor, " k"]
    weights: Float[Tensor, " k"]
    baseline: Baseline
    image_shape: tuple[int, ...]

    @property
    def like(self) -> Tensor:
        return self.difference

    def matvec(self, v: Flat) -> Flat:
        moved = self._images(self.baseline.linear, v)
        a = self.nodes[:, None]
        products = self.hessian.matvec((a * v[:, None] + (1 - a) * moved[:, None]).flatten(0, 1))
        return (v - moved) * self.mean_gradient + self.difference * self._averaged(products, self.weights)

    def rmatvec(self, u: Flat) -> Flat:
        products = self.hessian.matvec((self.difference * u).repeat_interleave(len(self.nodes), dim=0))
        straight = self.mean_gradient * u + self._averaged(products, self.weights * self.nodes)
        through_baseline = self._averaged(products, self.weights * (1 - self.nodes)) - self.mean_gradient * u
        return straight + self._images(self.baseline.adjoint, through_baseline)

    def select(self, keep: Int64[Tensor, " kept"]) -> "PathJacobian":
        points = (keep[:, None] * len(self.nodes) + torch.arange(len(self.nodes), device=keep.device)).flatten()
        mean, hessian = self.mean_gradient[keep], self.hessian.select(points)
        return replace(self, mean_gradient=mean, difference=self.difference[keep], hessian=hessian)

    def _averaged(self, products: Float[Tensor, "points n"], weights: Float[Tensor, " k"]) -> Flat:
        return torch.einsum("k,bkn->bn", weights, products.view(len(self.difference), len(weights), -1))

    def _images(self, function: Callable[[Tensor], Tensor], v: Flat) -> Flat:
        return function(v.view(len(v), *self.image_shape)).flatten(1)


@dataclass(frozen=True)
class IntegratedGradients(Attribution):
    """`steps` nodes of a quadrature from a baseline; `chunk` points of all samples and nodes are differentiated together, and the
    graphs of `held` points are kept.
    """

    steps: int = 20
    quadrature: str = "gauss-legendre"
    baseline: Baseline = BLACK
    chunk: int | None = None
    held: int | None = None

    def __post_init__(self) -> None:
        if self.quadrature not in QUADRATURES:
            raise UsageError(f"quadrature must be one of {', '.join(QUADRATURES)}, got {self.quadrature!r}")
        if self.steps < 1:
            raise UsageError(f"the number of IG steps must be at least 1, got {self.steps}")

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        difference, points, classes = self._path(x, y)
        slopes = gradient(f, points, classes, chunk=self.chunk)
        return difference * self._mean(slopes, len(x))

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        difference, points, classes = self._path(x, y)
        hessian = Hessian(f, points, classes, chunk=self.chunk, held=self.held)
        mean = self._mean(hessian.gradient(), len(x))
        value = difference * mean
        with torch.no_grad():
            ends = f(torch.cat([x, self.baseline(x)])).gather(1, y.repeat(2)[:, None])[:, 0]
        gap = (value.sum(dim=1) - (ends[: len(x)] - ends[len(x) :])).abs()
        nodes, weights = self.rule(x)
        shape = tuple(x.shape[1:])
        return Explained(value, PathJacobian(mean, difference, hessian, nodes, weights, self.baseline, shape), gap)

    @property
    def points(self) -> int:
        return self.steps

    def rule(self, like: Tensor) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
        """Nodes and weights on [0, 1]."""
        if self.quadrature == "riemann-right":
            nodes, weights = np.arange(1, self.steps + 1) / self.steps, np.full(self.steps, 1 / self.steps)
        else:
            nodes, weights = np.polynomial.legendre.leggauss(self.steps)
            nodes, weights = (nodes + 1) / 2, weights / 2
        return torch.as_tensor(nodes).to(like), torch.as_tensor(weights).to(like)

    def _path(self, x: Tensor, y: Tensor) -> tuple[Flat, Float[Tensor, "points *shape"], Int64[Tensor, " points"]]:
        base = self.baseline(x)
        nodes, _ = self.rule(x)
        steps = nodes.view(1, -1, *[1] * (x.ndim - 1))
        points = base[:, None] + steps * (x - base)[:, None]
        return (x - base).flatten(1), points.flatten(0, 1), y.repeat_interleave(len(nodes))

    def _mean(self, slopes: Float[Tensor, "points n"], b: int) -> Flat:
        _, weights = self.rule(slopes)
        return torch.einsum("k,bkn->bn", weights, slopes.view(b, self.steps, -1))
