"""From a deviation to the k largest entries that stay: what |g' - g|_2 <= T leaves of them, by |value|.

To push m entries out of the k largest, m others must come as high. The cheapest way takes the m smallest of the k, a_1 <= .. <= a_m, and
the m largest others, b_1 >= .. >= b_m, to a common level t: |g' - g|^2 >= cost(m) = min over t of sum (a_i - t)_+^2 + sum (t - b_j)_+^2,
and some g' attains it. cost rises with m, so at most max{m : cost(m) <= T^2} entries leave. Ties count against us.
"""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

BISECTIONS = 60
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
    low, high = outside.clone(), inside.clone()
    for _ in range(BISECTIONS):
        t = (low + high) / 2
        rising = _excess(inside, t, 1) > _excess(-outside, -t, 1)
        low, high = torch.where(rising, t, low), torch.where(rising, high, t)
    t = (low + high) / 2
    squares = (_excess(inside, t, 2) + _excess(-outside, -t, 2)).clamp_min(0)
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


def _excess(values: Float64[Tensor, "b most"], t: Float64[Tensor, "b most"], power: int) -> Float64[Tensor, "b most"]:
    """sum over i <= m of (values_i - t_m)_+^power, for each m; values ascend."""
    counts = torch.arange(1, values.shape[1] + 1).expand_as(values)
    below: Int64[Tensor, "b most"] = torch.searchsorted(values.contiguous(), t.contiguous()).minimum(counts)
    sums = [torch.nn.functional.pad((values**p).cumsum(dim=1), (1, 0)) for p in range(1, power + 1)]
    parts = [one.gather(1, counts) - one.gather(1, below) for one in sums]
    n = (counts - below).double()
    return parts[0] - n * t if power == 1 else parts[1] - 2 * t * parts[0] + n * t * t
