"""Rows of a run, a batch at a time; nothing is printed or saved here."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from attrcert.columns import Row
from attrcert.errors import out_of_memory
from attrcert.loading.datasets import Images
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import torch_dtype
from attrcert.running.evaluating.samples import Failed, failed_rows, picked, read, unusable
from attrcert.running.evaluating.work import Deltas, Work
from attrcert.types import Batch

Warn = Callable[[str], None]


@dataclass
class Limit:
    """What a run has learnt of the memory: more than `most` samples at once did not fit."""

    most: int | None = None


def evaluate(
    classifier: Classifier,
    images: Images,
    batches: Sequence[tuple[int, ...]],
    work: Work,
    *,
    device: torch.device,
    shape: tuple[int, ...],
    limit: Limit,
    save: Deltas | None,
    warn: Warn,
) -> Iterator[list[Row]]:
    """The rows of each batch of indices, in their order; every sample has a row per case of the task, whatever became of it."""
    config, batchwise = work.config, _Batchwise(classifier, work, limit, save, warn)
    with classifier.prepared():
        for indices in batches:
            started = time.perf_counter()
            batch, failed = read(images, indices, shape, device=device, dtype=torch_dtype(config))
            rows = batchwise.fitted(batch) if batch else {}
            rows |= {failure.index: failed_rows(failure, config) for failure in failed}
            seconds = (time.perf_counter() - started) / len(indices)
            yield [
                {**row, "seconds": seconds, "seed": config.arithmetic.seed} for index in indices for row in rows[index]
            ]


@dataclass(frozen=True)
class _Batchwise:
    """The work, on batches that may have to be halved."""

    classifier: Classifier
    work: Work
    limit: Limit
    save: Deltas | None
    warn: Warn

    def fitted(self, batch: Batch) -> dict[int, list[Row]]:
        """The rows of a batch by index; a batch that does not fit into memory is halved, and so are those that come after it."""
        b = len(batch.indices)
        if self.limit.most is not None and b > self.limit.most:
            return self._halved(batch)
        try:
            return self._whole(batch)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        # only here is the error gone, and with it what its frames held
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if b == 1:
            failure = Failed(batch.indices[0], batch.labels[0], "memory", "one sample does not fit into memory")
            return {failure.index: failed_rows(failure, self.work.config)}
        self.limit.most = b // 2
        self.warn(f"out of memory with {b} samples at once; going on with {b // 2}")
        return self._halved(batch)

    def _halved(self, batch: Batch) -> dict[int, list[Row]]:
        b = len(batch.indices)
        first, second = picked(batch, list(range(b // 2))), picked(batch, list(range(b // 2, b)))
        return self.fitted(first) | self.fitted(second)

    def _whole(self, batch: Batch) -> dict[int, list[Row]]:
        with torch.no_grad():
            logits = self.classifier(batch.images)
        failed, keep = unusable(batch, logits, self.work.config)
        rows = {failure.index: failed_rows(failure, self.work.config) for failure in failed}
        return rows | (self.work.rows(self.classifier, picked(batch, keep), logits[keep], self.save) if keep else {})
