"""Turn a smoothed map: ascent of the angle between h(x) and h(x + delta) by a few fresh draws of the noise per step.

The angle's gradient is J^T u, J the Jacobian of h at x + delta and u the unit vector across h(x + delta) that points away from h(x).
Both are means over the noise. So u comes from a running mean of the paired differences g(x + delta + eta) - g(x + eta), the gradient is
a running mean of g's own J^T u at the same draws, and the next delta is eps along it: a power iteration that forgets. Draws are never
used twice, so there is no finite sum to fit delta to.
"""

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

NEWEST = 0.2  # the share of the newest draws in the running means, at least


class Look(Protocol):
    """At step t, means over fresh draws: how far each row's map has moved, and J^T u."""

    def __call__(
        self, t: int, delta: Float[Tensor, "rows n"], u: Float[Tensor, "rows m"]
    ) -> tuple[Float[Tensor, "rows m"], Float[Tensor, "rows n"]]: ...


def turn(
    look: Look, h: Float[Tensor, "rows m"], starts: Float[Tensor, "rows n"], *, eps: float, steps: int
) -> Float[Tensor, "rows n"]:
    """Perturbations of length eps, from starts of that length."""
    delta, gradient = starts, torch.zeros_like(starts)
    moved, _ = look(0, delta, torch.zeros_like(h))
    for t in range(1, steps + 1):
        change, slope = look(t, delta, away(h, h + moved))
        share = max(1 / t, NEWEST)
        moved, gradient = torch.lerp(moved, change, share), torch.lerp(gradient, slope, share)
        delta = torch.where((gradient != 0).any(dim=1, keepdim=True), eps * directed(gradient), delta)
    return delta


def away(h: Float[Tensor, "rows n"], moved: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
    """The unit vector across `moved`, in the plane of both, that points away from h."""
    old, new = directed(h), directed(moved)
    return directed((old * new).sum(dim=1, keepdim=True) * new - old)


def directed(z: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
    """Of unit length; 0 where z is."""
    return torch.nn.functional.normalize(z, dim=1, eps=torch.finfo(z.dtype).tiny)
