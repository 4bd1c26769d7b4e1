"""The cosine between two means from paired draws, without the bias of squared lengths, and its standard error.

Claim. Let (X_i, Y_i), i = 1..N, be independent and alike, with means h and h'. Then (<sum X, sum Y> - sum <X_i, Y_i>) / N(N-1) has the
mean <h, h'>, and so for |h|^2 and |h'|^2: the products of a draw with itself, which have another mean, are taken away. The cosine is the
ratio of the three. Its standard error is the jackknife's over blocks of draws.

Without that the lengths are too long by the variance over N, and the cosine of far apart maps too close to 1. Noise that is shared by X_i
and Y_i makes the error of the difference small. Not claimed: the ratio's own bias, of order 1/N, which is small beside its error.
"""

from dataclasses import dataclass
from math import acos, degrees

import torch
from jaxtyping import Float, Float64
from torch import Tensor


@dataclass(frozen=True)
class CosineEstimate:
    """Of each sample; not a number where the draws cannot tell the means from 0."""

    cosine: Float64[Tensor, " b"]
    error: Float64[Tensor, " b"]

    def turned(self, errors: float) -> list[float]:
        """The angle in degrees less so many standard errors of the cosine; 0 where nothing is known."""
        most = (self.cosine + errors * self.error).nan_to_num(nan=1.0).clamp(-1.0, 1.0)
        return [degrees(acos(cosine)) for cosine in most.tolist()]


class PairedMeans:
    """Sums of paired draws of b samples, in so many blocks, in double precision."""

    def __init__(self, blocks: int, *, like: Float[Tensor, "b n"]) -> None:
        b, n = like.shape
        self._sums = torch.zeros(2, blocks, b, n, dtype=torch.float64, device=like.device)
        self._own = torch.zeros(3, blocks, b, dtype=torch.float64, device=like.device)
        self._counts, self._chunks = [0] * blocks, 0

    def add(self, X: Float64[Tensor, "b m n"], Y: Float64[Tensor, "b m n"]) -> None:
        """m more draws of both, into the next block."""
        block = self._chunks % len(self._counts)
        self._sums[0, block] += X.sum(dim=1)
        self._sums[1, block] += Y.sum(dim=1)
        for place, (one, other) in enumerate(((X, Y), (X, X), (Y, Y))):
            self._own[place, block] += (one * other).sum(dim=(1, 2))
        self._counts[block] += X.shape[1]
        self._chunks += 1

    @property
    def means(self) -> tuple[Float64[Tensor, "b n"], Float64[Tensor, "b n"]]:
        first, second = self._sums.sum(dim=1) / max(1, sum(self._counts))
        return first, second

    def estimate(self) -> CosineEstimate:
        whole, own = self._sums.sum(dim=1), self._own.sum(dim=1)
        used = [block for block, count in enumerate(self._counts) if count]
        left_out = torch.stack([_cosine(whole - self._sums[:, k], own - self._own[:, k]) for k in used])
        spread = (left_out - left_out.mean(dim=0)).square().sum(dim=0)
        return CosineEstimate(_cosine(whole, own), (spread * (len(used) - 1) / len(used)).sqrt())


def _cosine(sums: Float64[Tensor, "2 b n"], own: Float64[Tensor, "3 b"]) -> Float64[Tensor, " b"]:
    """From sums and the draws' products with themselves; the number of draws cancels."""
    pairs = ((0, 1), (0, 0), (1, 1))
    product, one, other = ((sums[i] * sums[j]).sum(dim=1) - own[place] for place, (i, j) in enumerate(pairs))
    return torch.where((one > 0) & (other > 0), product / (one * other).clamp_min(0).sqrt(), torch.nan)
