"""Where the pixels of an original image are in the input that is made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from attrcert.loading.pixels import Images


@dataclass(frozen=True)
class Frame:
    """An image of `original` height and width whose coordinates (x, y) were multiplied by `scale` and moved by `shift`, and of which a
    window of `size` is left.
    """

    original: tuple[int, int]
    size: tuple[int, int]
    scale: tuple[float, float] = (1.0, 1.0)
    shift: tuple[float, float] = (0.0, 0.0)

    def resized(self, size: tuple[int, int]) -> "Frame":
        by = size[1] / self.size[1], size[0] / self.size[0]
        scale, shift = ((a * by[0], b * by[1]) for a, b in (self.scale, self.shift))
        return replace(self, size=size, scale=scale, shift=shift)

    def cropped(self, side: int) -> "Frame":
        """About the centre, as torchvision does it; a smaller image is padded."""
        left, top = (_start(length, side) for length in (self.size[1], self.size[0]))
        return replace(self, size=(side, side), shift=(self.shift[0] - left, self.shift[1] - top))

    def moved(self, boxes: Float64[ndarray, "n 4"]) -> Float64[ndarray, "n 4"]:
        """Boxes of the original, and what of them the window shows."""
        there = boxes * np.tile(self.scale, 2) + np.tile(self.shift, 2)
        return there.clip(0, np.tile(self.size[::-1], 2))


def _start(length: int, side: int) -> int:
    return round((length - side) / 2) if length >= side else -((side - length) // 2)


def sides(size: tuple[int, int], resize: int | Sequence[int]) -> tuple[int, int]:
    """Of an image whose shorter side, or both, are to be that long."""
    if not isinstance(resize, int):
        height, width = resize
        return height, width
    short, long = sorted(size)
    other = int(resize * long / short)
    return (resize, other) if size[0] <= size[1] else (other, resize)


def frame_of(images: Images, index: int) -> Frame:
    """Of a sample; those who change images say how."""
    told = getattr(images, "frame", None)
    if told is not None:
        found: Frame = told(index)
        return found
    height, width = images[index][0].shape[-2:]
    return Frame((height, width), (height, width))
