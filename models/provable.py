"""What makes a proof of stable saliency loose, as two penalties for networks of affine layers and softplus.

Let z_l be the pre-activations of f, J_l = dz_l/dx, F_l the sensitivities of f to the activations s(z_l). The Hessian of f is

    H = sum_l J_l^T diag(F_l s''(z_l)) J_l.

1. A proof knows F_l and s'' only as ranges over the ball, so curvatures of opposite signs do not cancel in it. `curvature` is
   v^T K v / (|grad f| + floor) with

       K = sum_l J_l^T diag(|F_l| b(z_l)) J_l,    b(z) = beta p (1 - p),  p = sigmoid(beta z / 2).

   b is twice as wide as s'' and nowhere below it, so -K <= H <= K. v is one power step of K from a random direction.
2. These ranges are wide where pre-activations move by more than softplus is wide, 1 / beta. `movement` is the mean over layers and
   neurons of (beta eps |row of J_l|)^2, from the same random direction u, as |row|^2 is the mean of d (row u)^2 over u.

Directions are constants for the gradient.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

WIDE = 2.0  # how many times as wide as s'' b is


@dataclass(frozen=True)
class Expansion:
    """Of one logit at each sample: s'(z) and |F| b(z) of every softplus, and the gradient by x."""

    network: nn.Sequential
    slopes: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    gradient: Tensor

    def tangents(self, v: Tensor) -> Iterator[Tensor]:
        """J_l v of every softplus."""
        slopes = iter(self.slopes)
        for layer in self.network:
            if isinstance(layer, nn.Softplus):
                yield v
                v = next(slopes) * v
            else:
                v = layer(v) - layer(torch.zeros_like(v[:1]))  # an affine layer without its constant

    def curvature(self, v: Tensor) -> Tensor:
        """v^T K v."""
        parts = zip(self.weights, self.tangents(v), strict=True)
        return torch.stack([(weight * t.square()).flatten(1).sum(dim=1) for weight, t in parts]).sum(dim=0)

    def towards_top(self, v: Tensor) -> Tensor:
        """The direction of K v."""
        fixed = replace(self, slopes=_constant(self.slopes), weights=_constant(self.weights))
        v = v.detach().requires_grad_()
        (image,) = torch.autograd.grad(fixed.curvature(v).sum(), v)
        return unit(image)

    def movement(self, u: Tensor, eps: float) -> Tensor:
        """The mean of (beta eps)^2 d (row u)^2 over neurons, and then over layers."""
        betas = [layer.beta for layer in self.network if isinstance(layer, nn.Softplus)]
        moved = zip(betas, self.tangents(u), strict=True)
        parts = [(beta * eps * t).square().flatten(1).mean(dim=1) for beta, t in moved]
        return u[0].numel() * torch.stack(parts).mean(dim=0)


def expansion(network: nn.Sequential, x: Tensor, classes: Tensor) -> Expansion:
    """At x, differentiable by the network's parameters."""
    x = x.detach().requires_grad_()
    bends, slopes, activations, signal = [], [], [], x
    for layer in network:
        if isinstance(layer, nn.Softplus):
            p = torch.sigmoid(layer.beta * signal / WIDE)
            bends.append(layer.beta * p * (1 - p))
            slopes.append(torch.sigmoid(layer.beta * signal))
        signal = layer(signal)
        if isinstance(layer, nn.Softplus):
            activations.append(signal)
    explained = signal.gather(1, classes[:, None]).sum()
    gradient, *F = torch.autograd.grad(explained, [x, *activations], create_graph=True)
    weights = tuple(f.abs() * bend for f, bend in zip(F, bends, strict=True))
    return Expansion(network, tuple(slopes), weights, gradient)


def penalties(
    network: nn.Sequential, x: Tensor, classes: Tensor, start: Tensor, *, floor: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Curvature and movement of each sample; `start` has the random directions."""
    at, u = expansion(network, x, classes), unit(start)
    length = at.gradient.flatten(1).norm(dim=1)
    return at.curvature(at.towards_top(u)) / (length + floor), at.movement(u, eps)


def unit(v: Tensor) -> Tensor:
    """Of length one, sample by sample, and a constant."""
    v = v.detach()
    norms = v.flatten(1).norm(dim=1).clamp_min(1e-12)
    return v / norms.view(-1, *[1] * (v.ndim - 1))


def _constant(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(part.detach() for part in parts)
