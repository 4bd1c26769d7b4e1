"""One image and one label, in whatever form data have them, as attrcert takes them."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.errors import SampleError
from attrcert.vocabulary import shortened

MOST_CLASSES = 10**9


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


def as_image(raw: Any, channels_last: bool) -> Float[Tensor, "c h w"]:
    """Pixels in [0, 1], channels first; an image that is not finite or not in range is a SampleError."""
    pixels = raw if isinstance(raw, Tensor) else _tensor(np.asarray(raw))
    if pixels.is_complex() or pixels.layout is not torch.strided:
        raise SampleError(f"pixels must be real numbers, got {pixels.dtype}, {pixels.layout}", kind="item")
    if pixels.ndim == 2:
        pixels = pixels[None]
    elif pixels.ndim == 3 and channels_last:
        pixels = pixels.permute(2, 0, 1)
    if pixels.ndim != 3:
        raise SampleError(f"an image must have 2 or 3 dimensions, got {tuple(pixels.shape)}", kind="shape")
    if pixels.numel() == 0:
        raise SampleError("an image must have pixels, got an empty image", kind="range")
    if pixels.dtype == torch.uint8:
        return pixels.contiguous().float().div_(255)
    image = pixels.double() if pixels.dtype == torch.float64 else pixels.float()
    if not image.isfinite().all():
        raise SampleError("pixels must be finite, got NaN or infinity", kind="non-finite")
    if image.min() < 0 or image.max() > 1:
        came = f"{image.min():g} to {image.max():g}"
        raise SampleError(f"float pixels must lie in [0, 1], got {came} (divide by 255, or store uint8)", kind="range")
    return image.contiguous()


def _tensor(array: np.ndarray) -> Tensor:
    """Of this machine's byte order, and of doubles where torch has no type as long."""
    if array.dtype.kind not in "buifc":
        raise SampleError(f"pixels must be numbers, got {array.dtype}", kind="item")
    native = np.float64 if array.dtype.kind == "f" and array.dtype.itemsize > 8 else array.dtype.newbyteorder("=")
    return torch.from_numpy(np.array(array, dtype=native))
