"""The cosine of two maps, and the angle between them, which is the better figure where the cosine is near 1."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from attrcert.metrics.metric import length, measurable
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class Cosine:
    """The cosine similarity, -1 to 1; undefined for a zero map."""

    rising: ClassVar[bool] = False

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        return cosine(measurable(g), measurable(reference)).clamp(-1, 1)


@dataclass(frozen=True)
class Degrees:
    """The angle in degrees, 0 to 180, with an error of some 1e-14 however small it is; undefined for a zero map."""

    rising: ClassVar[bool] = True

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        a, b = _unit(measurable(g)), _unit(measurable(reference))
        # acos would be off by 1e-8 radians near 0 and 180 degrees: its slope is infinite there
        return torch.rad2deg(2 * torch.atan2(length(a - b), length(a + b)))


def cosine(g: Flat, reference: Flat) -> Figures:
    """The cosine, with a graph; up to rounding between -1 and 1, NaN for a zero map."""
    return (_unit(g) * _unit(reference)).sum(dim=1)


def _unit(g: Flat) -> Flat:
    # squares of small maps underflow. The direction is the same whatever the scale, so a constant one leaves the
    # gradient as it is
    scaled = g / g.detach().abs().amax(dim=1, keepdim=True)
    return scaled / length(scaled)[:, None]
