"""The samples of a batch: read, and those that no figure can be had of set apart with their reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.columns import Cell, Row
from attrcert.errors import SampleError
from attrcert.loading.pixels import Images
from attrcert.settings.several import told
from attrcert.settings.tasks import Task
from attrcert.types import PIXELS, Batch, Box


@dataclass(frozen=True)
class Failed:
    """A sample that cannot be used, and why."""

    index: int
    label: int | None
    kind: str
    message: str


def read(
    images: Images,
    indices: Sequence[int],
    shape: tuple[int, ...],
    *,
    device: torch.device,
    dtype: torch.dtype,
    within: Box = PIXELS,
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
            hint = " (use --resize and --crop)" if len(shape) == 3 else ""
            message = f"the run's samples have the shape {shape}, this one {tuple(image.shape)}{hint}"
            failed.append(Failed(index, label, "shape", message))
    if not good:
        return None, failed
    usable, pictures, labels = zip(*good, strict=True)
    return Batch(usable, torch.stack([p.to(dtype) for p in pictures]).to(device), labels, within), failed


def picked(batch: Batch, keep: list[int]) -> Batch:
    indices, labels = tuple(batch.indices[i] for i in keep), tuple(batch.labels[i] for i in keep)
    return Batch(indices, batch.images[keep], labels, batch.within)


def unusable(batch: Batch, logits: Tensor, config: Task) -> tuple[list[Failed], list[int]]:
    """The samples that have no figure whatever is made of them, and the places of the others."""
    finite, classes = logits.isfinite().all(dim=1).tolist(), logits.shape[1]
    failed, keep = [], []
    for i, (index, label) in enumerate(zip(batch.indices, batch.labels, strict=True)):
        if not finite[i]:
            failed.append(Failed(index, label, "non-finite-output", "the model's output is NaN or infinite"))
        elif label is not None and not 0 <= label < classes:
            failed.append(Failed(index, label, "label", f"label {label}, but the model has {classes} classes"))
        elif label is None and config.explanation.target == "label":
            failed.append(Failed(index, label, "label", "target is the label, but the sample has none"))
        else:
            keep.append(i)
    return failed, keep


def sample_cells(
    config: Task, index: int, label: int | None, predicted: int | None = None, target: int | None = None
) -> dict[str, Cell]:
    """The cells that say which sample it is and what is explained of it."""
    return {
        "index": index,
        "label": label,
        "predicted": predicted,
        "target": target,
        "correct": None if label is None or predicted is None else label == predicted,
        **told(config),
    }


def failed_rows(failure: Failed, config: Task) -> list[Row]:
    """A row for each case of the task, with the reason."""
    reason: dict[str, Cell] = {"status": f"error:{failure.kind}", "message": failure.message}
    return [{**sample_cells(config, failure.index, failure.label), **reason, **case} for case in config.cases]
