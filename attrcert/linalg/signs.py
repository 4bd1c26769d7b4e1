"""Lower bound of max |J s|_2 over s in {-1, 1}^n by sign iteration.

s <- sign(P s) never lowers s^T P s, because P = J^T J is positive semi-definite; it ends at a fixed point. Every
value it gives is attained by its own s, so the best of several starts is a lower bound whatever the starts were.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.types import LinearMap


def sign_ascent(
    J: LinearMap, starts: Float[Tensor, "starts b n"], *, max_rounds: int = 25
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n"]]:
    """The best |J s|_2 of each sample and its s."""
    best = torch.full(starts.shape[1:2], -1.0, dtype=torch.float64, device=starts.device)
    signs = torch.ones_like(starts[0])
    for start in starts:
        s = _sign(start)
        image = J.matvec(s)
        for _ in range(max_rounds):
            unit = image.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(image.dtype).tiny)
            following = _sign(J.rmatvec(image / unit))  # only signs matter, and nothing is squared
            if torch.equal(following, s):
                break
            s = following
            image = J.matvec(s)
        reached = image.norm(dim=1, dtype=torch.float64)
        better = reached > best
        best = torch.where(better, reached, best)
        signs = torch.where(better[:, None], s, signs)
    return best, signs


def _sign(z: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    return torch.where(z >= 0, 1.0, -1.0).to(z.dtype)
