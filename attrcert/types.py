"""Tensor nouns: batches, linear maps known by their products, enclosures, explained samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.vocabulary import SolverStatus

Logits = Callable[[Float[Tensor, "b *shape"]], Float[Tensor, "b k"]]


class LinearMap(Protocol):
    """b independent m x n matrices in lock-step: one product serves every sample of a batch."""

    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def symmetric(self) -> bool: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...
    def matvec(self, v: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]: ...
    def rmatvec(self, u: Float[Tensor, "b m"]) -> Float[Tensor, "b n"]: ...
    def select(self, keep: Int64[Tensor, " kept"]) -> "LinearMap": ...


@dataclass(frozen=True)
class Enclosure:
    """lower <= xi_max <= upper for each sample; `upper` fails with probability at most `failure` over the random
    start.

    `vector` is the unit right singular vector that attains `lower`, `residual` its relative residual.
    """

    lower: Float[Tensor, " b"]
    upper: Float[Tensor, " b"]
    failure: float
    status: tuple[SolverStatus, ...]
    vector: Float[Tensor, "b n"]
    steps: Int64[Tensor, " b"]
    residual: Float[Tensor, " b"]


@dataclass(frozen=True)
class Explained:
    """An attribution g(x) and its Jacobian at x; `gap` is the completeness gap where the method promises completeness."""

    value: Float[Tensor, "b n"]
    jacobian: LinearMap
    gap: Float[Tensor, " b"] | None = None


class Attribution(Protocol):
    """A feature attribution of class y: its value anywhere, and its value with the Jacobian at x.

    `draws` are the samples' random streams, for attributions that average over noise; without them the samples count as
    numbers 0 to b-1 of seed 0.
    """

    def value(
        self, f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], draws: Draws | None = None
    ) -> Float[Tensor, "b n"]: ...
    def explain(
        self, f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], draws: Draws | None = None
    ) -> Explained: ...


@dataclass(frozen=True)
class Batch:
    """Images in [0, 1] with their indices in the data set; a label is None where the data have none."""

    indices: tuple[int, ...]
    images: Float[Tensor, "b *shape"]
    labels: Sequence[int | None]
