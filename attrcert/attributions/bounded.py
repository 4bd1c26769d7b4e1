"""Attributions bounded by construction: |g| <= M everywhere, which a maximum over samples is not [wang2024certified].

`unit` takes g / |g| (0 where g = 0), M = 1; `clip-at:M` takes g min(1, M / |g|); `clip:Q` is the same with M the Q-quantile of |g| over
a pilot sample of the noise that is thrown away. What is certified is the smoothed attribution of that bounded g.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from attrcert.vocabulary import parse_bounding

ON_THE_BOUND = 1e-9  # relative: of lengths that M holds back
WITHIN = 1 - 1e-13  # what is clipped stays below M though norms and products round


def length(g: Float[Tensor, "*b n"]) -> Float[Tensor, "*b 1"]:
    """|g| in double precision, whatever its size."""
    rows, scale = wide(g)
    return scale * rows.norm(dim=-1, keepdim=True)


def unit(g: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n"]:
    """g / |g| in double precision, and 0 where g = 0."""
    rows, _ = wide(g)
    size = rows.norm(dim=-1, keepdim=True)
    return rows / torch.where(size > 0, size, 1.0)


def wide(
    g: Float[Tensor, "*b n"], room: Float64[Tensor, "*b n"] | None = None
) -> tuple[Float64[Tensor, "*b n"], Float64[Tensor, "*b 1"]]:
    """Vectors in double precision whose squares neither over- nor underflow, and what they are to be taken times to give g; where there
    is `room` that can be written over, in that.
    """
    if g.dtype != torch.float64:  # squares of what single precision holds are no trouble
        ones = torch.ones((), dtype=torch.float64, device=g.device).expand(*g.shape[:-1], 1)
        return g.double() if room is None else room.copy_(g), ones
    largest = g.abs().amax(dim=-1, keepdim=True)
    return g / torch.where(largest > 0, largest, 1.0), largest


class Bounding(Protocol):
    """A way to bound vectors: `pilot` draws of |g| tell M, then every vector is taken times a `factor` of its length."""

    @property
    def pilot(self) -> int: ...
    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]: ...
    def factor(self, lengths: Float[Tensor, "b m"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m"]: ...


@dataclass(frozen=True)
class Unit:
    """g / |g|: the direction alone counts."""

    pilot = 0

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        return lengths.new_ones(len(lengths))

    def factor(self, lengths: Float[Tensor, "b m"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m"]:
        return 1 / torch.where(lengths > 0, lengths, 1.0)


@dataclass(frozen=True)
class ClipAt:
    """g min(1, M / |g|) with a given M."""

    M: float
    pilot = 0

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        return lengths.new_full((len(lengths),), self.M)

    def factor(self, lengths: Float[Tensor, "b m"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m"]:
        most = WITHIN * M.double()[:, None]
        return torch.where(lengths > most, most / lengths, 1.0)


@dataclass(frozen=True)
class Clip:
    """g min(1, M / |g|) with M the `quantile` Q of the lengths of `pilot` draws that are thrown away, per sample."""

    quantile: float
    pilot: int = 100

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        """A draw that is not finite counts as 0, as it will in the mean; where the quantile is 0 any M is valid, and is 1."""
        M = torch.quantile(torch.where(lengths.isfinite(), lengths, 0.0), self.quantile, dim=1)
        return torch.where(M > 0, M, 1.0)

    def factor(self, lengths: Float[Tensor, "b m"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m"]:
        return ClipAt(1.0).factor(lengths, M)


@dataclass(frozen=True)
class SampleMaximum:
    """g as it is: no bound. The largest length seen stands for M in the published rule, for comparison only."""

    pilot = 0

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        return lengths.new_full((len(lengths),), torch.inf)

    def factor(self, lengths: Float[Tensor, "b m"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m"]:
        return torch.ones_like(lengths)


def weighed(
    g: Float[Tensor, "b m n"], bounding: Bounding, M: Float[Tensor, " b"], room: Float64[Tensor, "b m n"] | None = None
) -> tuple[Float64[Tensor, "b m n"], Float64[Tensor, "b m"], Float64[Tensor, "b m"]]:
    """Vectors, what they are to be taken times to be bounded by M, and their lengths before; those that are not finite count as 0."""
    X, scale = wide(g, room)
    sizes = X.norm(dim=2)
    finite = sizes.isfinite()
    if not finite.all():
        X, sizes = torch.where(finite[:, :, None], X, 0.0), torch.where(finite, sizes, 0.0)
        scale = torch.where(finite[:, :, None], scale, 0.0)
    return X, bounding.factor(scale[:, :, 0] * sizes, M) * scale[:, :, 0], sizes


def bounded(g: Float[Tensor, "b m n"], bounding: Bounding, M: Float[Tensor, " b"]) -> Float64[Tensor, "b m n"]:
    """The vectors that are averaged."""
    X, weights, _ = weighed(g, bounding, M)
    return X * weights[:, :, None]


def pulled_back(
    u: Float[Tensor, "b m n"], g: Float[Tensor, "b m n"], bounding: Bounding, M: Float[Tensor, " b"]
) -> Float64[Tensor, "b m n"]:
    """D^T u, D the derivative of the bounded vector by g: where M holds g back, only what lies across g counts."""
    lengths, direction = length(g)[:, :, 0], unit(g)
    factor = bounding.factor(lengths, M)
    held = (factor * lengths >= M.double()[:, None] * (1 - ON_THE_BOUND))[:, :, None]
    along = (direction * u).sum(dim=2, keepdim=True) * direction
    return factor[:, :, None] * torch.where(held, u - along, u.double())


def make_bounding(text: str) -> Bounding:
    """Of the words of --bounded."""
    word, number = parse_bounding(text)
    if word in ("clip", "clip-at"):
        return Clip(number) if word == "clip" else ClipAt(number)
    return Unit() if word == "unit" else SampleMaximum()
