"""Samples in memory, as array files, tables and factories give them: arrays of numbers, and class numbers beside them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.errors import DataError
from attrcert.loading.pixels import MOST_CLASSES, Form, Wanted, as_sample
from attrcert.vocabulary import Kind

AT_ONCE = 4096  # samples that become doubles together


@dataclass(frozen=True)
class ArraySamples:
    """Samples in memory: images, uint8 or float, channels last or first; signals; features."""

    samples: np.ndarray | Tensor
    labels: Sequence[int] | np.ndarray | Tensor | None
    form: Form = field(default_factory=Form)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "*shape"], int | None]:
        label = None if self.labels is None else int(self.labels[index])
        return as_sample(self.samples[index], self.form, self._channels_last()), label

    def blocks(self) -> Iterator[Float[Tensor, "n *shape"]]:
        """All usable samples that are not images, many at a time."""
        for start in range(0, len(self), AT_ONCE):
            part: Any = self.samples[start : start + AT_ONCE]
            numbers = part if isinstance(part, Tensor) else torch.from_numpy(np.asarray(part, dtype=np.float64))
            usable = numbers.flatten(1).isfinite().all(dim=1)
            shaped = numbers[:, None] if self.form.kind is Kind.SIGNALS and numbers.ndim == 2 else numbers
            yield shaped[usable].double()

    def _channels_last(self) -> bool:
        shape = self.samples.shape
        return (
            len(shape) == 4 and shape[3] in (1, 3) and (shape[1] not in (1, 3) or isinstance(self.samples, np.ndarray))
        )


def array_samples(
    samples: Any, labels: Any, name: str, wanted: Wanted | None = None, *, called: Kind | None = None
) -> ArraySamples:
    """The arrays, if they can be samples and class numbers; `name` is what errors call them, `called` what they call themselves."""
    form = (wanted or Wanted()).form(samples.shape[1:], name, called=called)
    if isinstance(samples, np.ndarray) and samples.dtype.kind not in "buif":
        raise DataError(f"{form.kind} of {name} must be numbers, got {samples.dtype}")
    if 0 in samples.shape[1:]:
        what = "pixels" if form.kind is Kind.IMAGES else "features"
        raise DataError(f"{form.kind} of {name} must have {what}, got the shape {tuple(samples.shape)}")
    numbers = None if labels is None else class_numbers(np.asarray(labels), len(samples), name, form.kind)
    return ArraySamples(samples, numbers, form)


def class_numbers(labels: np.ndarray, size: int, name: str, what: str) -> np.ndarray:
    """From whatever numbers they were stored as."""
    if labels.ndim != 1 or labels.dtype.kind not in "uif":
        raise DataError(
            f"labels of {name} must be one class number per sample, got {labels.dtype} of shape {labels.shape}"
        )
    if len(labels) != size:
        raise DataError(f"{name} has {size} {what} but {len(labels)} labels")
    labels = labels.astype(np.float64) if labels.dtype.kind == "f" else labels
    wrong = ~((labels >= 0) & (labels <= MOST_CLASSES) & (labels == np.floor(labels)))  # NaN is nothing of that
    if wrong.any():
        came = labels[wrong.argmax()]
        raise DataError(f"labels must be class numbers 0, 1, 2, ..., but {name} has {came} at index {wrong.argmax()}")
    return labels.astype(np.int64)
