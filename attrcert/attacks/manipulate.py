"""Make the map look like another one: the targeted attack [dombrowski2019explanations].

Climbs -(map_weight |h - t|^2 + output_weight |p(x + d) - p(x)|^2), both as means over their entries: h is the map of
|g| summed over channels and divided by its mean, t the target made alike, p the probabilities. The second term keeps the
whole output, beyond the label, where it was.

Departures: maps have mean 1 where the paper's have total 1, so that a weight means the same at every image size: its 1e11 at 224 x 224
pixels is 40 here.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Maps
from attrcert.ascent.steps import Adam, StepRule

FRAME = 5 / 32  # of the side: 5 pixels at 32, 35 at 224 [joo2023towards]


@dataclass(frozen=True)
class Manipulate:
    """Adam on the distance of the normalised map from a target map of the image's size."""

    target_map: Float[Tensor, " pixels"] = field(repr=False)
    map_weight: float = 1.0
    output_weight: float = 1.0
    step_size: float | None = None
    targeted: ClassVar[bool] = True
    images_only: ClassVar[bool] = True

    @property
    def rule(self) -> StepRule:
        return Adam(self.step_size)

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return self.map_weight * self.score(maps)

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        return -(heat(maps.moved, maps.shape) - self.target_map).square().mean(dim=1)


def heat(g: Float[Tensor, "b n"], shape: tuple[int, ...]) -> Float[Tensor, "b pixels"]:
    """|g| summed over channels, divided by its mean."""
    return normalised(g.abs().view(len(g), shape[0], -1).sum(dim=1))


def normalised(picture: Float[Tensor, "b pixels"]) -> Float[Tensor, "b pixels"]:
    """A non-negative picture with mean 1; a black one stays black."""
    return picture / picture.mean(dim=1, keepdim=True).clamp_min(torch.finfo(picture.dtype).tiny)


def frame(shape: tuple[int, ...], *, like: Tensor) -> Float[Tensor, " pixels"]:
    """A frame along the border, as a map."""
    height, width = shape[-2:]
    border = max(1, round(FRAME * min(height, width)))
    picture = torch.ones(height, width, dtype=like.dtype, device=like.device)
    picture[border : height - border, border : width - border] = 0
    return normalised(picture.flatten()[None])[0]
