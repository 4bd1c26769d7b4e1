"""Attributions bounded by construction: |g| <= M everywhere, which a maximum over samples is not [wang2024certified].

`unit` takes g / |g| (0 where g = 0), M = 1; `clip-at:M` takes g min(1, M / |g|); `clip:Q` is the same with M the Q-quantile of |g| over
a pilot sample of the noise that is thrown away. What is certified is the smoothed attribution of that bounded g.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.vocabulary import parse_bounding

WITHIN = 1 - 1e-13  # what is clipped stays below M though norms and products round


def length(g: Float[Tensor, "*b n"]) -> Float[Tensor, "*b 1"]:
    """|g| in double precision, whatever its size."""
    scaled, largest = _scaled(g)
    return largest * scaled.norm(dim=-1, keepdim=True)


def unit(g: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n"]:
    """g / |g| in double precision, and 0 where g = 0."""
    scaled, _ = _scaled(g)
    return scaled / scaled.norm(dim=-1, keepdim=True).clamp_min(1.0)  # its largest entry is 1


def _scaled(g: Float[Tensor, "*b n"]) -> tuple[Float[Tensor, "*b n"], Float[Tensor, "*b 1"]]:
    """g over its largest entry, and that entry: squares of the quotient neither over- nor underflow."""
    largest = g.abs().amax(dim=-1, keepdim=True).double()
    return g / torch.where(largest > 0, largest, 1.0), largest


class Bounding(Protocol):
    """A way to bound vectors: `pilot` draws of |g| tell M, then every vector is bounded by it, in double precision."""

    @property
    def pilot(self) -> int: ...
    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]: ...
    def __call__(self, g: Float[Tensor, "b m n"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m n"]: ...


@dataclass(frozen=True)
class Unit:
    """g / |g|: the direction alone counts."""

    pilot = 0

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        return lengths.new_ones(len(lengths))

    def __call__(self, g: Float[Tensor, "b m n"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m n"]:
        return unit(g)


@dataclass(frozen=True)
class ClipAt:
    """g min(1, M / |g|) with a given M."""

    M: float
    pilot = 0

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        return lengths.new_full((len(lengths),), self.M)

    def __call__(self, g: Float[Tensor, "b m n"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m n"]:
        most, size = WITHIN * M.double()[:, None, None], length(g)
        return g * torch.where(size > most, most / size, 1.0)


@dataclass(frozen=True)
class Clip:
    """g min(1, M / |g|) with M the `quantile` Q of the lengths of `pilot` draws that are thrown away, per sample."""

    quantile: float
    pilot: int = 100

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        """A draw that is not finite counts as 0, as it will in the mean; where the quantile is 0 any M is valid, and is 1."""
        M = torch.quantile(torch.where(lengths.isfinite(), lengths, 0.0), self.quantile, dim=1)
        return torch.where(M > 0, M, 1.0)

    def __call__(self, g: Float[Tensor, "b m n"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m n"]:
        return ClipAt(1.0)(g, M)


@dataclass(frozen=True)
class SampleMaximum:
    """g as it is: no bound. The largest length seen stands for M in the published rule, for comparison only."""

    pilot = 0

    def limit(self, lengths: Float[Tensor, "b pilot"]) -> Float[Tensor, " b"]:
        return lengths.new_full((len(lengths),), torch.inf)

    def __call__(self, g: Float[Tensor, "b m n"], M: Float[Tensor, " b"]) -> Float[Tensor, "b m n"]:
        return g.double()


def make_bounding(text: str) -> Bounding:
    """Of the words of --bounded."""
    word, number = parse_bounding(text)
    if word in ("clip", "clip-at"):
        return Clip(number) if word == "clip" else ClipAt(number)
    return Unit() if word == "unit" else SampleMaximum()
