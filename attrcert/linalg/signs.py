"""Lower bound of max |J s|_2 over s in {-1, 1}^n by sign iteration.

s <- sign(P s) never lowers s^T P s, because P = J^T J is positive semi-definite; it ends at a fixed point. Every
value it gives is attained by its own s, so the best of several starts is a lower bound whatever the starts were.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.linalg.maps import copied, divisor
from attrcert.types import LinearMap

ROUNDS = 25


def sign_ascent(
    J: LinearMap, starts: Float[Tensor, "starts b n"], *, max_rounds: int = ROUNDS, race: int = ROUNDS, copies: int = 1
) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n"]]:
    """The best |J s|_2 of each sample and its s; all starts take `race` rounds, then the best of a sample goes on alone. Up to `copies`
    starts of a sample go together.
    """
    count, b, n = starts.shape
    if count > 1 and race < max_rounds:
        _, ahead = sign_ascent(J, starts, max_rounds=race, race=race, copies=copies)
        return _ascended(J, ahead, max_rounds - race)
    copies = divisor(count, copies)
    wide = copied(J, copies)
    parts = [_ascended(wide, part.transpose(0, 1).flatten(0, 1), max_rounds) for part in starts.split(copies)]
    reached = torch.cat([found.view(b, copies) for found, _ in parts], dim=1)
    signs = torch.cat([s.view(b, copies, n) for _, s in parts], dim=1)
    best, place = reached.max(dim=1)
    return best, signs[torch.arange(b, device=J.device), place]


def _ascended(
    J: LinearMap, start: Float[Tensor, "rows n"], max_rounds: int
) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows n"]]:
    """|J s|_2 and s where each start ends; those that are there leave the others to go on."""
    signs, s = _sign(start), _sign(start)
    image = J.matvec(s)
    reached = image.norm(dim=1, dtype=torch.float64)
    rows = torch.arange(len(s), device=J.device)
    for _ in range(max_rounds):
        unit = image.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(image.dtype).tiny)
        following = _sign(J.rmatvec(image / unit))  # only signs matter, and nothing is squared
        moving = (following != s).any(dim=1)
        left = int(moving.sum())
        if not left:
            break
        s = following
        if 2 * left <= len(rows):
            keep = moving.nonzero()[:, 0]
            J, rows, s = J.select(keep), rows[keep], s[keep]
        image = J.matvec(s)
        signs[rows], reached[rows] = s, image.norm(dim=1, dtype=torch.float64)
    return reached, signs


def _sign(z: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    return torch.where(z >= 0, 1.0, -1.0).to(z.dtype)
