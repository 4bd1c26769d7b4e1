"""What a metric looks at, and what it gives."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.ascent.loop import Problem
from attrcert.bounds.first_order.enclosed import FirstOrder
from attrcert.bounds.proved.bound import ProvedBound
from attrcert.columns import Cell
from attrcert.draws import Draws
from attrcert.metrics.metric import measurable
from attrcert.networks.classifier import Classifier
from attrcert.types import Attribution, Batch, Figures, Flat, Inputs, LinearMap
from attrcert.vocabulary import Norm

Cells = Mapping[str, Sequence[Cell]]  # of each column, one of each sample


@dataclass(frozen=True)
class Sight:
    """Samples with their maps g of the `target` classes. `f` is the network that is measured, and `guide` the one whose derivatives lead:
    the same, or its softplus version. `chunk` points go through them at once.
    """

    f: Classifier
    guide: Classifier
    attribution: Attribution
    batch: Batch
    target: Int64[Tensor, " b"]
    predicted: Int64[Tensor, " b"]
    g: Float[Tensor, "b m"]
    draws: Draws
    norm: Norm
    eps: tuple[float, ...]
    chunk: int

    @property
    def x(self) -> Inputs:
        return self.batch.images

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of one map, channels first."""
        return self.attribution.map_shape(self.f, self.x)

    @property
    def balls(self) -> Iterator[Ball]:
        """Of each eps, within the input range."""
        return (Ball.around(self.x, self.norm, eps, self.batch.within) for eps in self.eps)

    def problem(self, ball: Ball) -> Problem:
        """For an ascent in a ball."""
        return Problem(
            self.attribution,
            self.f,
            lambda _: self.guide,
            self.x,
            self.target,
            self.draws,
            ball,
            chunk=self.chunk,
            map_shape=self.shape,
        )

    def maps(self, delta: Float[Tensor, "b n"]) -> Flat:
        """g(x + delta)."""
        return self.attribution.value(self.f, self.x + delta.view_as(self.x), self.target, self.draws)

    def probability(self, z: Inputs, rows: Int64[Tensor, " points"]) -> Float[Tensor, " points"]:
        """Of the explained class at some points, each in the place of the sample that its row says."""
        with torch.no_grad():
            return self.f(z).softmax(dim=1).gather(1, self.target[rows][:, None])[:, 0]


@dataclass(frozen=True, kw_only=True)
class CurvedSight(Sight):
    """The same of a network that can be differentiated twice: its Jacobian and what is known of it at x, an estimate over each ball, and
    proved bounds, by eps, where they were asked for. `noise` is what rounding alone may make of the difference of two maps.
    """

    jacobian: LinearMap
    worst: FirstOrder
    status: Sequence[str]
    ball_wide: Callable[[float], list[float]]
    proved: Mapping[float, ProvedBound]
    noise: Figures


class Score(ABC):
    """A metric of attributions."""

    def check(self, f: Classifier, x: Inputs, maps: tuple[int, ...]) -> None:
        """Refuse inputs, or maps of a shape, that it is not for."""
        return

    @abstractmethod
    def __call__(self, seen: Sight) -> Sequence[Cells]:
        """The cells of all samples in each of its cases: one, or one for each eps."""


def mass(g: Flat, shape: tuple[int, ...]) -> Float64[Tensor, "b *pixels"]:
    """|g| summed over channels: a map as a picture, a signal or a list of features."""
    whole = measurable(g).abs().unflatten(1, shape)
    return whole.sum(dim=1) if len(shape) > 1 else whole
