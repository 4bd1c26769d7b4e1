"""How many pixels the centre of mass of a map moves [ghorbani2019interpretation].

The mass of a pixel is the sum of |g| over channels. Departures: the centre is not rounded to a whole pixel.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.metrics.metric import length, measurable
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class MassCentre:
    """The distance of the centres of mass in pixels; undefined for a zero map, and for images only."""

    rising: ClassVar[bool] = True

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        if len(shape) < 3:
            return None
        return length(centre(measurable(g), shape) - centre(measurable(reference), shape))


def centre(g: Flat, shape: tuple[int, ...]) -> Float[Tensor, "b axes"]:
    """The centre of mass, one coordinate for each axis after the channels, with a graph; NaN for a zero map."""
    mass = g.abs().unflatten(1, shape).sum(dim=1).flatten(1)
    sides = [torch.arange(side, dtype=g.dtype, device=g.device) for side in shape[1:]]
    places = torch.stack(torch.meshgrid(*sides, indexing="ij")).flatten(1)
    return (mass / mass.sum(dim=1, keepdim=True)) @ places.T
