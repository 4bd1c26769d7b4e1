"""Rows of a run, a batch at a time: reading, explaining, and whatever is made of that; nothing is printed or saved here."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.columns import Cell, Row
from attrcert.errors import SampleError, out_of_memory
from attrcert.loading.datasets import Images
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.cells import Subject, explain
from attrcert.running.evaluating.methods import attribution_label, torch_dtype
from attrcert.running.evaluating.proving import Proving
from attrcert.running.evaluating.rounding import Otherwise
from attrcert.running.settings.config import BoundConfig, RunConfig
from attrcert.types import Batch

Warn = Callable[[str], None]
RowsOf = Callable[[Classifier, Batch, Tensor], dict[int, list[Row]]]  # of a batch, from the images and their logits


@dataclass(frozen=True)
class Failed:
    """A sample that cannot be used, and why."""

    index: int
    label: int | None
    kind: str
    message: str


@dataclass
class Limit:
    """What a run has learnt of the memory: more than `most` samples at once did not fit."""

    most: int | None = None


def evaluate(
    classifier: Classifier,
    images: Images,
    batches: Sequence[tuple[int, ...]],
    config: RunConfig,
    rows_of: RowsOf,
    *,
    device: torch.device,
    shape: tuple[int, ...],
    limit: Limit,
    warn: Warn,
) -> Iterator[list[Row]]:
    """The rows of each batch of indices, in their order; every sample has a row per case of the
    configuration, whatever became of it.
    """
    work = _Work(classifier, config, rows_of, limit, warn)
    with classifier.prepared():
        for indices in batches:
            started = time.perf_counter()
            batch, failed = read(images, indices, shape, device=device, dtype=torch_dtype(config))
            rows = work.fitted(batch) if batch else {}
            rows |= {failure.index: _failed_rows(failure, config) for failure in failed}
            seconds = (time.perf_counter() - started) / len(indices)
            yield [{**row, "seconds": seconds, "seed": config.seed} for index in indices for row in rows[index]]


def read(
    images: Images, indices: Sequence[int], shape: tuple[int, ...], *, device: torch.device, dtype: torch.dtype
) -> tuple[Batch | None, list[Failed]]:
    """The usable images of a batch, and the others with their reasons."""
    good: list[tuple[int, Tensor, int | None]] = []
    failed: list[Failed] = []
    for index in indices:
        try:
            image, label = images[index]
        except SampleError as error:
            failed.append(Failed(index, None, error.kind, error.message))
            continue
        if tuple(image.shape) == shape:
            good.append((index, image, label))
        else:
            message = (
                f"the run's images have the shape {shape}, this one {tuple(image.shape)} (use --resize and --crop)"
            )
            failed.append(Failed(index, label, "shape", message))
    if not good:
        return None, failed
    usable, pictures, labels = zip(*good, strict=True)
    return Batch(usable, torch.stack([p.to(dtype) for p in pictures]).to(device), labels), failed


@dataclass(frozen=True)
class _Work:
    """What is done with every batch."""

    classifier: Classifier
    config: RunConfig
    rows_of: RowsOf
    limit: Limit
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
            return {failure.index: _failed_rows(failure, self.config)}
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
        failed, keep = unusable(batch, logits, self.config)
        rows = {failure.index: _failed_rows(failure, self.config) for failure in failed}
        return rows | (self.rows_of(self.classifier, picked(batch, keep), logits[keep]) if keep else {})


def with_derivatives(
    config: BoundConfig,
    rows_of: Callable[[Subject], dict[int, list[Row]]],
    prover: Proving | None = None,
    other: Otherwise | None = None,
) -> RowsOf:
    """Rows that need the attribution's derivatives; a sample whose are not finite is set apart and the others go on."""

    def rows(classifier: Classifier, batch: Batch, logits: Tensor) -> dict[int, list[Row]]:
        subject = explain(classifier, batch, logits, config, prover, other)
        finite = subject.finite()
        if finite.all():
            return rows_of(subject)
        bad, keep = (~finite).nonzero()[:, 0].tolist(), finite.nonzero()[:, 0].tolist()
        message = "the attribution or its derivative is NaN or infinite"
        failed = [Failed(batch.indices[i], batch.labels[i], "non-finite-derivative", message) for i in bad]
        apart = {failure.index: _failed_rows(failure, config) for failure in failed}
        return apart | (rows(classifier, picked(batch, keep), logits[keep]) if keep else {})

    return rows


def picked(batch: Batch, keep: list[int]) -> Batch:
    return Batch(tuple(batch.indices[i] for i in keep), batch.images[keep], tuple(batch.labels[i] for i in keep))


def unusable(batch: Batch, logits: Tensor, config: RunConfig) -> tuple[list[Failed], list[int]]:
    """The samples that have no figure whatever is made of them, and the places of the others."""
    finite, classes = logits.isfinite().all(dim=1).tolist(), logits.shape[1]
    failed, keep = [], []
    for i, (index, label) in enumerate(zip(batch.indices, batch.labels, strict=True)):
        if not finite[i]:
            failed.append(Failed(index, label, "non-finite-output", "the model's output is NaN or infinite"))
        elif label is not None and not 0 <= label < classes:
            failed.append(Failed(index, label, "label", f"label {label}, but the model has {classes} classes"))
        elif label is None and config.target == "label":
            failed.append(Failed(index, label, "label", "target is the label, but the sample has none"))
        else:
            keep.append(i)
    return failed, keep


def _failed_rows(failure: Failed, config: RunConfig) -> list[Row]:
    common: dict[str, Cell] = {
        "index": failure.index,
        "label": failure.label,
        "status": f"error:{failure.kind}",
        "attribution": attribution_label(config),
        "norm": str(config.delta_norm),
        "message": failure.message,
    }
    return [{**common, **case} for case in config.cases]
