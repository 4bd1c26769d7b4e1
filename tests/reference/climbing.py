"""The largest change of an attribution that a plain search finds: random directions, corners, and projected ascent from all of them."""

from collections.abc import Callable

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]  # points to attributions, differentiable


def largest_change(g: Map, x: Tensor, eps: float, *, linf: bool, starts: int = 24, steps: int = 40) -> float:
    """Over the ball around one point x; a lower bound of the truth."""
    rng = torch.Generator().manual_seed(0)
    at = g(x[None]).detach()
    delta = torch.randn(starts, *x.shape, generator=rng, dtype=x.dtype)
    delta = _onto(delta.sign() if linf else delta, eps, linf)
    delta = torch.cat([delta, _onto(_steepest(g, x, linf), eps, linf)])
    best, size = 0.0, 0.5 * eps
    for _ in range(steps):
        z = (x + delta).requires_grad_()
        far = (g(z) - at).flatten(1).norm(dim=1)
        best = max(best, float(far.detach().max()))
        (up,) = torch.autograd.grad(far.sum(), z)
        delta = _within(delta + _onto(up.sign() if linf else up, size, linf), eps, linf)
        size *= 0.95
    return best


def _steepest(g: Map, x: Tensor, linf: bool) -> Tensor:
    """Both signs of the direction that moves the linearised attribution most, or of its signs."""
    J = torch.autograd.functional.jacobian(lambda z: g(z[None])[0].flatten(), x).reshape(-1, x.numel())
    v = torch.linalg.svd(J).Vh[0]
    if linf:
        s = v.sign()
        for _ in range(50):
            s = (J.T @ (J @ s)).sign()
        v = s
    return torch.stack([v, -v]).reshape(2, *x.shape)


def _length(delta: Tensor, linf: bool) -> Tensor:
    flat = delta.flatten(1)
    return (flat.abs().amax(dim=1) if linf else flat.norm(dim=1)).view(-1, *[1] * (delta.ndim - 1))


def _onto(delta: Tensor, eps: float, linf: bool) -> Tensor:
    return eps * delta / _length(delta, linf).clamp_min(1e-300)


def _within(delta: Tensor, eps: float, linf: bool) -> Tensor:
    return delta.clamp(-eps, eps) if linf else delta * (eps / _length(delta, linf)).clamp_max(1.0)
