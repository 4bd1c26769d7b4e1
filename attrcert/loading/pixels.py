"""One sample and one label, in whatever form data have them, as attrcert takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.errors import DataError, SampleError
from attrcert.vocabulary import Kind, shortened

MOST_CLASSES = 10**9
DIMENSIONS = {Kind.IMAGES: (2, 3), Kind.SIGNALS: (1, 2), Kind.TABULAR: (1,)}  # as they may come
SHAPES = {
    Kind.IMAGES: "(N, H, W, C), (N, C, H, W) or (N, H, W)",
    Kind.SIGNALS: "(N, C, L) or (N, L)",
    Kind.TABULAR: "(N, F)",
}
PIXEL_LIMITS = (0.0, 1.0)


class Images(Protocol):
    """A sequence of (sample, label or None); one bad sample raises SampleError for itself alone."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[Float[Tensor, "*shape"], int | None]: ...


@dataclass(frozen=True)
class Form:
    """What a sample is, and the least and largest number that it may hold."""

    kind: Kind = Kind.IMAGES
    low: float = PIXEL_LIMITS[0]
    high: float = PIXEL_LIMITS[1]


@dataclass(frozen=True)
class Wanted:
    """What is known of samples before one is looked at: their kind, if the user says it; what two dimensions are otherwise; and their
    limits, if the user sets some.
    """

    kind: Kind | None = None
    plane: Kind = Kind.IMAGES
    limits: tuple[float, float] | None = None

    def form(self, shape: Sequence[Any], name: str, *, called: Kind | None = None) -> Form:
        """Of samples of this shape, which the data may call something themselves."""
        dimensions = len(shape)
        kind = self.kind or {1: Kind.TABULAR, 2: self.plane}.get(dimensions, Kind.IMAGES)
        if self.kind is None and called is not None and dimensions in DIMENSIONS[called]:
            kind = called
        if dimensions not in DIMENSIONS[kind]:
            told = (
                SHAPES[kind] if self.kind else f"{SHAPES[Kind.IMAGES]}, signals {SHAPES[Kind.SIGNALS]}, features (N, F)"
            )
            raise DataError(f"{kind} of {name} must have the shape {told}, got samples of shape {tuple(shape)}")
        return Form(kind, *(self.limits or (PIXEL_LIMITS if kind is Kind.IMAGES else (-inf, inf))))


def class_number(label: Any) -> int | None:
    """A label as a number; a model may still have fewer classes."""
    if label is None:
        return None
    value: Any = label.item() if isinstance(label, Tensor) and label.numel() == 1 else label
    if (
        not isinstance(value, int | float | np.integer)
        or not -MOST_CLASSES <= value <= MOST_CLASSES
        or int(value) != value
    ):
        raise SampleError(f"a label must be a class number, got {shortened(str(label))}", kind="label")
    return int(value)


def as_sample(raw: Any, form: Form, channels_last: bool = False) -> Float[Tensor, "*shape"]:
    """Finite numbers within the form's limits, channels first; anything else is a SampleError."""
    numbers = raw if isinstance(raw, Tensor) else _tensor(np.asarray(raw))
    if numbers.is_complex() or numbers.layout is not torch.strided:
        raise SampleError(f"samples must be real numbers, got {numbers.dtype}, {numbers.layout}", kind="item")
    if numbers.ndim not in DIMENSIONS[form.kind]:
        possible = " or ".join(map(str, DIMENSIONS[form.kind]))
        raise SampleError(
            f"one of the {form.kind} must have {possible} dimensions, got {tuple(numbers.shape)}", kind="shape"
        )
    if form.kind is Kind.IMAGES and numbers.ndim == 3 and channels_last:
        numbers = numbers.permute(2, 0, 1)
    if numbers.ndim < DIMENSIONS[form.kind][-1]:
        numbers = numbers[None]
    if numbers.numel() == 0:
        raise SampleError("a sample must have features, got an empty one", kind="range")
    if form.kind is Kind.IMAGES and numbers.dtype == torch.uint8:
        numbers = numbers.float().div_(255)
    sample = numbers.double() if numbers.dtype == torch.float64 else numbers.float()
    if not sample.isfinite().all():
        raise SampleError("a sample must be finite, got NaN or infinity", kind="non-finite")
    if sample.min() < form.low or sample.max() > form.high:
        raise SampleError(_outside(form, f"{sample.min():g} to {sample.max():g}"), kind="range")
    return sample.contiguous()


def _outside(form: Form, came: str) -> str:
    if (form.low, form.high) != PIXEL_LIMITS or form.kind is not Kind.IMAGES:
        return f"inputs must lie in [{form.low:g}, {form.high:g}] (--input-range), got {came}"
    return (
        f"float pixels must lie in [0, 1], got {came} (divide by 255, or store uint8; --input-range for other ranges, "
        "--data-kind signals for signals)"
    )


def _tensor(array: np.ndarray) -> Tensor:
    """Of this machine's byte order, and of doubles where torch has no type as long."""
    if array.dtype.kind not in "buifc":
        raise SampleError(f"a sample must be numbers, got {array.dtype}", kind="item")
    native = np.float64 if array.dtype.kind == "f" and array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")
    return torch.from_numpy(np.array(array, dtype=native))
