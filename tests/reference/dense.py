"""Attributions as differentiable functions, and their dense Jacobians by autograd."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

Network = Callable[[Tensor], Tensor]
SampleMap = Callable[[Tensor], Tensor]


def class_gradient(f: Network, x: Tensor, y: int) -> Tensor:
    """grad f_y at one image, with a graph."""
    z = x if x.requires_grad else x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(f(z[None])[0, y], z, create_graph=True)
    return slope


def saliency(f: Network, y: int) -> SampleMap:
    return lambda x: class_gradient(f, x, y).flatten()


def input_times_gradient(f: Network, y: int) -> SampleMap:
    return lambda x: (x * class_gradient(f, x, y)).flatten()


def integrated_gradients(
    f: Network, y: int, baseline: Callable[[Tensor], Tensor], nodes: list[float], weights: list[float]
) -> SampleMap:
    """The sum over the path written out, one image and one node at a time."""

    def g(x: Tensor) -> Tensor:
        b = baseline(x)
        total = torch.zeros_like(x)
        for a, w in zip(nodes, weights, strict=True):
            total = total + w * class_gradient(f, b + a * (x - b), y)
        return ((x - b) * total).flatten()

    return g


def loss_gradient(f: Network, y: int) -> SampleMap:
    def g(x: Tensor) -> Tensor:
        z = x if x.requires_grad else x.detach().requires_grad_()
        loss = torch.nn.functional.cross_entropy(f(z[None]), torch.tensor([y]))
        return torch.autograd.grad(loss, z, create_graph=True)[0].flatten()

    return g


def grad_cam(f: torch.nn.Sequential, y: int, layer: int) -> SampleMap:
    """Channel by channel, of what a layer of a sequence gives."""

    def g(x: Tensor) -> Tensor:
        A = f[: layer + 1](x[None])
        A = A if A.requires_grad else A.detach().requires_grad_()
        (slope,) = torch.autograd.grad(f[layer + 1 :](A)[0, y], A, create_graph=True)
        return sum(slope[0, k].mean() * A[0, k] for k in range(A.shape[1])).flatten()

    return g


def blur(x: Tensor, sigma: float) -> Tensor:
    """Each pixel the Gaussian-weighted mean of its image's pixels, pixel by pixel."""
    c, height, width = x.shape
    rows = [
        torch.exp(torch.tensor([-((i - k) ** 2) / (2 * sigma**2) for k in range(height)], dtype=x.dtype))
        for i in range(height)
    ]
    columns = [
        torch.exp(torch.tensor([-((j - k) ** 2) / (2 * sigma**2) for k in range(width)], dtype=x.dtype))
        for j in range(width)
    ]
    pixels = [
        (x[ch] * rows[i][:, None] * columns[j]).sum() / (rows[i].sum() * columns[j].sum())
        for ch in range(c)
        for i in range(height)
        for j in range(width)
    ]
    return torch.stack(pixels).view(c, height, width)


def jacobian(g: SampleMap, x: Tensor) -> Tensor:
    """The dense Jacobian of g at one image, (n, n)."""
    J = torch.autograd.functional.jacobian(g, x)
    return J.reshape(J.shape[0], -1)


def loss_hessian(f: Network, x: Tensor, y: int) -> Tensor:
    """The dense Hessian of the cross-entropy at one image."""

    def loss(z: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(f(z[None]), torch.tensor([y]))

    return torch.autograd.functional.hessian(loss, x).reshape(x.numel(), x.numel())


def top_singular_value(matrix: Tensor) -> float:
    """By a dense decomposition in float64, scaled so that nothing over- or underflows."""
    A = matrix.double().numpy()
    scale = float(np.abs(A).max()) or 1.0
    return scale * float(np.linalg.svd(A / scale, compute_uv=False)[0])
