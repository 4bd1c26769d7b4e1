"""From a deviation to the k largest entries that stay: what |g' - g|_2 <= T leaves of them, by |value|.

To push m entries out of the k largest, m others must come as high. The cheapest way takes the m smallest of the k, a_1 <= .. <= a_m, and
the m largest others, b_1 >= .. >= b_m, to a common level t: |g' - g|^2 >= cost(m) = min over t of sum (a_i - t)_+^2 + sum (t - b_j)_+^2,
and some g' attains it. cost rises with m, so at most max{m : cost(m) <= T^2} entries leave. Ties count against us.
"""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

STEPS = 180  # the ends close in by a half in every third
SETTLED = 1e-12  # of a_m - b_m: what t is off counts squared
OUTWARDS = 1e-9  # relative: more than rounding of the costs, towards the weaker claim


def swap_lengths(g: Float[Tensor, "b n"], k: int) -> Float64[Tensor, "b most"]:
    """The least |g' - g| that pushes 1, 2, ... entries out, from below; as many as can leave."""
    ordered = g.detach().cpu().double().abs().sort(dim=1, descending=True).values
    k = min(k, ordered.shape[1])
    most = min(k, ordered.shape[1] - k)
    scale = torch.where(ordered[:, :1] > 0, ordered[:, :1], 1.0)  # squares neither over- nor underflow
    ordered = (
        ordered - ordered[:, k - 1 : k]
    ) / scale  # sums of squares of what is near the level, which do not cancel
    inside, outside = ordered[:, k - most : k].flip(1), ordered[:, k : k + most]
    if not most:
        return outside
    squares = _least(_Ascending(inside), _Ascending(-outside), outside, inside).clamp_min(0)
    return squares.sqrt().cummax(dim=1).values * scale * (1 - OUTWARDS)


def share_kept(lengths: Float64[Tensor, "b most"], T: Float64[Tensor, " b"], k: int) -> Float64[Tensor, " b"]:
    """The share of the k largest entries that no change of length T can push out."""
    leaving = (lengths <= T[:, None]).sum(dim=1).double()
    return 1 - leaving / k


def length_keeping(lengths: Float64[Tensor, "b most"], share: float, k: int) -> Float64[Tensor, " b"]:
    """A length at which that share is kept, close to the largest; infinite where no change can push so many out."""
    first = int(k * (1 - share) * (1 + OUTWARDS) + OUTWARDS) + 1  # leaving entries that are too many
    if first > lengths.shape[1]:
        return torch.full((len(lengths),), torch.inf, dtype=torch.float64)
    return lengths[:, first - 1] * (1 - OUTWARDS)


class _Ascending:
    """Rows a_1 <= a_2 <= ..; of each m: what the first m of them have above a level."""

    def __init__(self, values: Float64[Tensor, "b most"]) -> None:
        self._values = values.contiguous()
        self._counts = torch.arange(1, values.shape[1] + 1).expand_as(values)
        self._sums = [torch.nn.functional.pad((values**p).cumsum(dim=1), (1, 0)) for p in (1, 2)]

    def above(self, t: Float64[Tensor, "b most"]) -> list[Float64[Tensor, "b most"]]:
        """How many, their sum, and the sum of their squares."""
        below = torch.searchsorted(self._values, t).minimum(self._counts)
        return [
            (self._counts - below).double(),
            *(one.gather(1, self._counts) - one.gather(1, below) for one in self._sums),
        ]


def _least(
    up: _Ascending, down: _Ascending, low: Float64[Tensor, "b most"], high: Float64[Tensor, "b most"]
) -> Float64[Tensor, "b most"]:
    """cost(m) of each m, by Newton's method on its slope, which is piecewise linear in t, kept between ends that close in."""
    t, width = (low + high) / 2, high - low
    for step in range(STEPS):
        (n, total, _), (m, others, _) = up.above(t), down.above(-t)
        rising = total - n * t - (others + m * t)
        low, high = torch.where(rising > 0, t, low), torch.where(rising > 0, high, t)
        move = rising / (n + m).clamp_min(1)
        settled = move.abs() <= SETTLED * width
        if settled.all():
            break
        middle, newton = (low + high) / 2, t + move
        better = newton.clamp(low, high) if step % 3 else middle
        t = torch.where(settled, t, better)
    (n, total, squares), (m, others, more) = up.above(t), down.above(-t)
    return squares - 2 * t * total + n * t * t + more + 2 * t * others + m * t * t
