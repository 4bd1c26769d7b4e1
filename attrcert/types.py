"""Tensor nouns: batches, linear maps known by their products, enclosures, explained samples."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from attrcert.draws import Draws
from attrcert.vocabulary import Norm, SolverStatus

Inputs = Float[Tensor, "b *shape"]
Classes = Int64[Tensor, " b"]
Flat = Float[Tensor, "b n"]  # attributions, flattened, or inputs
Figures = Float[Tensor, " b"]  # one of each sample
Logits = Callable[[Inputs], Float[Tensor, "b k"]]


class LinearMap(ABC):
    """b independent m x n matrices in lock-step: one product serves every sample of a batch."""

    @property
    @abstractmethod
    def like(self) -> "Tensor | LinearMap":
        """Of what it is made: it has the dtype and device of that."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(b, m, n): that of the map it is made of, or square with the first two dimensions of the tensor."""
        if isinstance(self.like, LinearMap):
            return self.like.shape
        b, n, *_ = self.like.shape
        return b, n, n

    @property
    def dtype(self) -> torch.dtype:
        return self.like.dtype

    @property
    def device(self) -> torch.device:
        return self.like.device

    @property
    def symmetric(self) -> bool:
        """Whether J = J^T, and is known to be."""
        return False

    @abstractmethod
    def matvec(self, v: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]:
        """J v."""

    def rmatvec(self, u: Float[Tensor, "b m"]) -> Float[Tensor, "b n"]:
        """J^T u; a map that is not symmetric must say how."""
        assert self.symmetric, f"{type(self).__name__} has no rmatvec"
        return self.matvec(u)

    @abstractmethod
    def select(self, keep: Int64[Tensor, " kept"]) -> "LinearMap":
        """The map of those samples, in that order; a sample may come several times."""

    def to_scipy(self) -> tuple[LinearOperator, ...]:
        """One scipy operator a sample, for svds and the like."""
        return tuple(_operator(self.select(torch.tensor([i], device=self.device))) for i in range(self.shape[0]))


def _operator(J: LinearMap) -> LinearOperator:
    """Of the only sample."""

    def product(apply: Callable[[Tensor], Tensor]) -> Callable[[ndarray], ndarray]:
        return lambda v: apply(torch.tensor(v, dtype=J.dtype, device=J.device).view(1, -1))[0].cpu().numpy()

    kind = torch.empty(0, dtype=J.dtype).numpy().dtype
    return LinearOperator(J.shape[1:], matvec=product(J.matvec), rmatvec=product(J.rmatvec), dtype=kind)


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

    value: Float[Tensor, "b m"]
    jacobian: LinearMap
    gap: Figures | None = None


class Attribution(ABC):
    """A feature attribution of class y: its value anywhere, and its value with the Jacobian at x.

    `draws` are the samples' random streams, for attributions that average over noise; without them the samples count as
    numbers 0 to b-1 of seed 0.
    """

    @property
    def points(self) -> int:
        """How many gradients a map takes."""
        return 1

    def map_shape(self, f: Logits, x: Inputs) -> tuple[int, ...]:
        """Of one map, channels first: that of the inputs, unless it says otherwise."""
        return tuple(x.shape[1:])

    @abstractmethod
    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat: ...

    @abstractmethod
    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained: ...


@dataclass(frozen=True)
class Box:
    """What inputs can be: low <= x <= high, one number for all features or one for each; infinite where nothing bounds them."""

    low: Float[Tensor, "*n"]
    high: Float[Tensor, "*n"]

    @staticmethod
    def of(low: float, high: float) -> "Box":
        return Box(torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64))

    @property
    def widest(self) -> float:
        """No feature can move by more."""
        return float((self.high - self.low).max())

    def distance(self, norm: Norm, d: int) -> float:
        """The largest distance of two inputs of d features."""
        width = (self.high - self.low).clamp_min(0)
        return norm.cube_diagonal(d) * float(width) if width.ndim == 0 else float(width.norm(p=norm.p))

    def divided(self, scale: Float[Tensor, "*n"]) -> "Box":
        """Of inputs that are divided by this."""
        return Box(self.low / scale, self.high / scale)


PIXELS = Box.of(0.0, 1.0)


@dataclass(frozen=True)
class Batch:
    """Inputs within their range, with their indices in the data set; a label is None where the data have none."""

    indices: tuple[int, ...]
    images: Inputs
    labels: Sequence[int | None]
    within: Box = PIXELS
