"""What a run does for its task: made ready once, then asked for the rows of batch after batch; several tasks share the batches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, Generic, Self, TypeVar

from torch import Tensor

from attrcert.columns import Row
from attrcert.loading.datasets import LoadedData
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding
from attrcert.running.evaluating.methods import Layout
from attrcert.saved.arrays import of_part
from attrcert.settings.several import told
from attrcert.settings.tasks import Task
from attrcert.types import Attribution, Batch

Deltas = Callable[[dict[str, Tensor]], None]  # takes the perturbations of a batch, by name
Rows = dict[int, list[Row]]  # of each sample, by its index
C = TypeVar("C", bound=Task)


@dataclass(frozen=True)
class Scene:
    """The model, the first images and the room that a run has."""

    f: Classifier
    x: Tensor
    attribution: Attribution
    data: LoadedData
    layout: Layout
    memory: int
    points: int  # that fit at once
    replaced: bool  # whether activations are
    others: Mapping[str, Classifier] = field(default_factory=dict)  # further checkpoints that a task asked for

    @property
    def map_shape(self) -> tuple[int, ...]:
        """Of one map, channels first."""
        return self.attribution.map_shape(self.f, self.x)

    @property
    def entries(self) -> int:
        """Of one map."""
        return prod(self.map_shape)


@dataclass(frozen=True)
class Rowing(ABC, Generic[C]):
    """Gives the rows of a task; `findings` are what was found wrong when it was made ready."""

    config: C
    layout: Layout
    findings: tuple[Finding, ...] = field(default=(), kw_only=True)

    def with_chunk(self, chunk: int | None) -> Self:
        """The same with another number of points differentiated together."""
        return replace(self, layout=replace(self.layout, chunk=chunk))

    @abstractmethod
    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        """From the images and their logits; perturbations are given to `save` before the rows."""


@dataclass(frozen=True)
class Work(Rowing[C]):
    """Of a task with one attribution and one norm."""

    @classmethod
    def need(cls, config: C) -> Callable[[Classifier, Tensor], Finding] | None:
        """What the model must have."""
        return None

    @classmethod
    def vectors(cls, config: C) -> int:
        """Vectors of the input's size that a sample needs beside its graph."""
        return 1

    @classmethod
    @abstractmethod
    def ready(cls, config: C, scene: Scene) -> "Work[C]":
        """What all batches need."""

    def batch_size(self, scene: Scene) -> int:
        """Samples that fit at once."""
        return scene.points


AnyWork = Work[Any]  # of whatever task


@dataclass(frozen=True)
class Together(Rowing[Task]):
    """Of several tasks: what each gives, one after the other, so that no more than one of them is in memory."""

    works: tuple[Rowing[Any], ...]

    def with_chunk(self, chunk: int | None) -> Self:
        return replace(super().with_chunk(chunk), works=tuple(work.with_chunk(chunk) for work in self.works))

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        found: Rows = {index: [] for index in batch.indices}
        for work in self.works:
            keep = save and partial(_kept, save, work.config)
            for index, rows in work.rows(f, batch, logits, keep).items():
                found[index] += rows
        return found


def _kept(save: Deltas, config: Task, found: dict[str, Tensor]) -> None:
    save({of_part(name, **told(config)): tensor for name, tensor in found.items()})
