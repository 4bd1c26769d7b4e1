"""Rows of a run, a batch at a time; nothing is printed or saved here."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attrcert.columns import Cell, Row
from attrcert.errors import out_of_memory
from attrcert.loading.datasets import LoadedData
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import torch_dtype
from attrcert.running.evaluating.samples import Failed, failed_rows, picked, read, unusable
from attrcert.running.evaluating.work import Deltas, Rowing, Rows
from attrcert.settings.tasks import Task
from attrcert.types import Batch

Warn = Callable[[str], None]


@dataclass
class Limit:
    """What a run has learnt of the memory: more than `most` samples at once did not fit."""

    most: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """A model, data and the work to do on them; `shape` is that of the images."""

    classifier: Classifier
    data: LoadedData
    work: Rowing[Any]
    device: torch.device
    shape: tuple[int, ...]
    limit: Limit = field(default_factory=Limit, kw_only=True)

    @property
    def config(self) -> Task:
        config: Task = self.work.config
        return config

    def evaluated(self, batches: Sequence[tuple[int, ...]], *, save: Deltas | None, warn: Warn) -> Iterator[list[Row]]:
        """The rows of each batch of indices, in their order; every sample has a row per case of the task, whatever became of it."""
        with self.classifier.prepared():
            for indices in batches:
                started = time.perf_counter()
                batch, failed = self._read(indices)
                rows = (self._fitted(batch, save, warn) if batch else {}) | self._failed(failed)
                seconds, seed = (time.perf_counter() - started) / len(indices), self.config.arithmetic.seed
                own = {"seconds": seconds, "seed": seed}
                yield [{**row, **self.named(row), **own} for index in indices for row in rows[index]]

    def named(self, row: Row) -> dict[str, Cell]:
        """What the data call a row's sample and its class."""
        index = row["index"]
        assert isinstance(index, int)
        return {"source": self.data.source(index), "label_name": self.data.label_name(row.get("label"))}

    def usable(self, indices: Sequence[int]) -> tuple[Batch | None, Tensor, list[Failed]]:
        """Of these samples those that figures can be had of, if any, with their logits; and the others."""
        batch, failed = self._read(indices)
        if batch is None:
            return None, torch.empty(0), self._told(failed)
        with self.classifier.prepared():
            good, logits, others = self._seen(batch)
        return good if good.indices else None, logits, self._told(failed + others)

    def _read(self, indices: Sequence[int]) -> tuple[Batch | None, list[Failed]]:
        dtype = torch_dtype(self.config.arithmetic)
        return read(self.data.images, indices, self.shape, device=self.device, dtype=dtype, within=self.data.within)

    def _told(self, failed: Sequence[Failed]) -> list[Failed]:
        return [replace(one, message=self.data.named(one.index, one.message)) for one in failed]

    def _seen(self, batch: Batch) -> tuple[Batch, Tensor, list[Failed]]:
        """The samples that the model makes something of, with their logits; and the others."""
        with torch.no_grad():
            logits = self.classifier(batch.images)
        failed, keep = unusable(batch, logits, self.config)
        return picked(batch, keep), logits[keep], failed

    def _failed(self, failed: Sequence[Failed]) -> Rows:
        return {failure.index: failed_rows(failure, self.config) for failure in self._told(failed)}

    def _fitted(self, batch: Batch, save: Deltas | None, warn: Warn) -> Rows:
        """The rows of a batch by index; a batch that does not fit into memory is halved, and so are those that come after it."""
        b = len(batch.indices)
        if self.limit.most is None or b <= self.limit.most:
            try:
                return self._whole(batch, save)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
            # only here is the error gone, and with it what its frames held
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if b == 1:
                message = "one sample does not fit into memory"
                return self._failed([Failed(batch.indices[0], batch.labels[0], "memory", message)])
            self.limit.most = b // 2
            warn(f"out of memory with {b} samples at once; going on with {b // 2}")
        halves = (list(range(b // 2)), list(range(b // 2, b)))
        first, second = (self._fitted(picked(batch, half), save, warn) for half in halves)
        return first | second

    def _whole(self, batch: Batch, save: Deltas | None) -> Rows:
        good, logits, failed = self._seen(batch)
        found = self.work.rows(self.classifier, good, logits, save) if good.indices else {}
        return self._failed(failed) | found
