"""Boxes in pictures: how well they agree, and the boxes around the parts of a map that are above a threshold.

A box is x0, y0, x1, y1 in pixels: it covers x0 <= x < x1 and y0 <= y < y1. The pixel in column x covers x to x + 1.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from scipy.ndimage import find_objects, label

TOUCHING = np.ones((3, 3))  # also over a corner, as contours are traced


def iou(a: Float64[ndarray, "a 4"], b: Float64[ndarray, "b 4"]) -> Float64[ndarray, "a b"]:
    """Intersection over union of each pair; 0 of boxes that do not meet."""
    sides = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    common = sides.clip(0).prod(axis=2)
    union = area(a)[:, None] + area(b)[None, :] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def area(boxes: Float64[ndarray, "n 4"]) -> Float64[ndarray, " n"]:
    return (boxes[:, 2:] - boxes[:, :2]).clip(0).prod(axis=1)


def parts(mask: Bool[ndarray, "h w"]) -> tuple[Float64[ndarray, "n 4"], Int64[ndarray, " n"]]:
    """The boxes around the connected parts of a mask, and how many pixels each part has."""
    numbers, count = label(mask, TOUCHING)
    found = [(x.start, y.start, x.stop, y.stop) for y, x in find_objects(numbers)]
    return np.array(found, dtype=np.float64).reshape(-1, 4), np.bincount(numbers.ravel(), minlength=count + 1)[1:]


def largest(h: Float64[ndarray, "h w"], threshold: float) -> Float64[ndarray, "n 4"]:
    """The box around the largest part of a map, from 0 to 1, above the threshold; none of a map that is 0."""
    boxes, sizes = parts(h > threshold)
    return boxes[[sizes.argmax()]] if len(boxes) else boxes


def unit(h: Float64[ndarray, "h w"]) -> Float64[ndarray, "h w"]:
    """The map from 0 to 1; 0 throughout where it is the same everywhere."""
    low, high = h.min(), h.max()
    return (h - low) / (high - low) if high > low else np.zeros_like(h)


def agreement(
    h: Float64[ndarray, "h w"], truths: Float64[ndarray, "n 4"], steps: int, least: float
) -> tuple[Float64[ndarray, " steps"], Float64[ndarray, " steps"]]:
    """At the thresholds 0, 1 / steps, ... below 1, the largest IoU with a true box of the box around the largest part of the map, and of
    those around all parts.

    Parts only shrink as the threshold rises. Once none has a box with `least` of the area of a true one, no IoU is that large any more,
    and the rest is left at 0.
    """
    of_largest, of_any = np.zeros(steps), np.zeros(steps)
    above = len(h.ravel()) - np.searchsorted(np.sort(h, axis=None), np.arange(steps) / steps, side="right")
    smallest = area(truths).min()
    for i in range(steps):
        if i and above[i] == above[i - 1]:
            of_largest[i], of_any[i] = of_largest[i - 1], of_any[i - 1]
            continue
        boxes, sizes = parts(h > i / steps)
        if not len(boxes) or area(boxes).max() < least * smallest:
            break
        found = iou(boxes, truths).max(axis=1)
        of_largest[i], of_any[i] = found[sizes.argmax()], found.max()
    return of_largest, of_any
