"""Samples that code gives: arrays, map-style datasets, and what a user's factory makes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from attrcert.errors import DataError, SampleError
from attrcert.loading.architectures import reported
from attrcert.loading.arrays import array_samples
from attrcert.loading.libraries.library import Preparation
from attrcert.loading.pixels import Form, Images, Wanted, as_sample, class_number

PICTURE = ("C", "H", "W")
LOOKED_AT = 16  # items of a dataset, for one that can be read


@dataclass(frozen=True)
class Opened:
    """Samples as they were found: what they are, a hash where there is a file or folder to hash, what they are called, how such samples
    are usually prepared, what was settled without being asked for, and a table's columns of features.
    """

    images: Images
    form: Form
    digest: str | None = None
    sources: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    usual: Preparation | None = None
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrappedSamples:
    """A map-style dataset of (sample, label) pairs: torchvision's or the user's."""

    dataset: Any
    form: Form = field(default_factory=Form)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "*shape"], int | None]:
        try:
            item = self.dataset[index]
        except Exception as error:
            raise SampleError(
                f"sample {index} cannot be read: {type(error).__name__}: {error}", kind="unreadable"
            ) from error
        sample, label = _pair(item)
        if not isinstance(sample, Tensor | np.ndarray | Image.Image):
            raise SampleError(f"an item must be a sample or (sample, label), got {type(item).__name__}", kind="item")
        return as_sample(sample, self.form, channels_last=not isinstance(sample, Tensor)), class_number(label)


def _pair(item: Any) -> tuple[Any, Any]:
    """A sample and its label; TensorDatasets without labels have items of one."""
    if isinstance(item, tuple | list) and len(item) in (1, 2):
        return item[0], item[1] if len(item) == 2 else None
    return item, None


def wrap(made: Any, name: str = "data", *, wanted: Wanted | None = None) -> Opened:
    """A pair (samples, labels) of arrays, or a map-style dataset of (sample, label) pairs; a DataLoader stands for its dataset."""
    made, wanted = made.dataset if isinstance(made, DataLoader) else made, wanted or Wanted()
    if isinstance(made, np.ndarray | Tensor):
        made = made, None
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], np.ndarray | Tensor):
        arrays = array_samples(made[0], made[1], name, wanted)
        return Opened(arrays, arrays.form)
    if isinstance(made, Mapping) or not hasattr(made, "__len__") or not hasattr(made, "__getitem__"):
        raise DataError(f"{name} must give arrays (samples, labels) or a map-style dataset, got {type(made).__name__}")
    return wrapped(made, wanted, name)


def wrapped(dataset: Any, wanted: Wanted, name: str = "data") -> Opened:
    """A dataset; the first sample that can be read tells its form."""
    shape: Sequence[Any] = PICTURE
    for index in range(min(len(dataset), LOOKED_AT)):
        try:
            sample, _ = _pair(dataset[index])
        except Exception:  # the user's code; a row will tell
            continue
        if isinstance(sample, Tensor | np.ndarray):
            shape = tuple(sample.shape)
        break
    form = wanted.form(shape, name) if 1 <= len(shape) <= 3 else Form()
    return Opened(WrappedSamples(dataset, form), form)


def called(make: Callable[..., Any], arguments: dict[str, Any], name: str, hint: str = "") -> Any:
    """What a user's or torchvision's code makes; its failures are reported as such."""
    with reported(f"opening {name}", DataError, hint=hint):
        return make(**arguments)
