"""Images in memory, as .npz files and factories give them: arrays of numbers, and class numbers beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attrcert.errors import DataError
from attrcert.loading.pixels import MOST_CLASSES, as_image


@dataclass(frozen=True)
class ArrayImages:
    """Images in memory, as they come in .npz files: uint8 or float in [0, 1], channels last or first."""

    images: np.ndarray | Tensor
    labels: Sequence[int] | np.ndarray | Tensor | None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]:
        label = None if self.labels is None else int(self.labels[index])
        return as_image(self.images[index], self._channels_last()), label

    def _channels_last(self) -> bool:
        shape = self.images.shape
        return (
            len(shape) == 4 and shape[3] in (1, 3) and (shape[1] not in (1, 3) or isinstance(self.images, np.ndarray))
        )


def array_images(images: Any, labels: Any, name: str) -> ArrayImages:
    """The arrays, if they can be images and class numbers; `name` is what errors call them."""
    if images.ndim not in (3, 4):
        raise DataError(
            f"images of {name} must have the shape (N, H, W, C), (N, C, H, W) or (N, H, W), got {tuple(images.shape)}"
        )
    if isinstance(images, np.ndarray) and images.dtype.kind not in "uif":
        raise DataError(f"images of {name} must be numbers, got {images.dtype}")
    if 0 in images.shape[1:]:
        raise DataError(f"images of {name} must have pixels, got the shape {tuple(images.shape)}")
    return ArrayImages(images, None if labels is None else _labels(np.asarray(labels), len(images), name))


def _labels(labels: np.ndarray, size: int, name: str) -> np.ndarray:
    """Class numbers, from whatever numbers they were stored as."""
    if labels.ndim != 1 or labels.dtype.kind not in "uif":
        raise DataError(
            f"labels of {name} must be one class number per image, got {labels.dtype} of shape {labels.shape}"
        )
    if len(labels) != size:
        raise DataError(f"{name} has {size} images but {len(labels)} labels")
    labels = labels.astype(np.float64) if labels.dtype.kind == "f" else labels
    wrong = ~((labels >= 0) & (labels <= MOST_CLASSES) & (labels == np.floor(labels)))  # NaN is nothing of that
    if wrong.any():
        came = labels[wrong.argmax()]
        raise DataError(f"labels must be class numbers 0, 1, 2, ..., but {name} has {came} at index {wrong.argmax()}")
    return labels.astype(np.int64)
