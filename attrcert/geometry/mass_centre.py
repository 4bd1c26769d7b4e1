"""From a deviation to the centre of mass of |g|: how many pixels it can move if |g' - g|_2 <= T.

Let p_i be the pixel of entry i, c the centre, W = sum |g_i|, and e a direction. With weights w = |g| + change, |change|_2 <= T, the centre
moves by t or more along e only if sum_i (e.(p_i - c) - t) w_i >= 0. The left side is at most -t W + T sqrt(sum_i (e.(p_i - c) - t)^2), so

    t^2 (W^2 - n T^2) + 2 t T^2 P - T^2 Q <= 0,    P = sum_i e.(p_i - c),    Q = sum_i (e.(p_i - c))^2,

whose larger root bounds t where W^2 > n T^2. In any case the centre stays among the pixels. The largest over the corners of a polygon of
directions, divided by the cosine of half its step, bounds the displacement in every direction.

Not claimed: that it is attained. The weights of a map are not negative, which is not used.
"""

from math import cos, pi

import torch
from jaxtyping import Float, Float64
from torch import Tensor

DIRECTIONS = 64
OUTWARDS = 1e-9  # relative, towards the weaker claim


class Masses:
    """The maps' masses by pixel, and what does not depend on T."""

    def __init__(self, g: Float[Tensor, "b n"], shape: tuple[int, ...]) -> None:
        channels, (height, width) = shape[0], shape[1:]
        sizes = g.detach().cpu().double().abs()
        largest = sizes.amax(dim=1)
        self.scale = torch.where(largest > 0, largest, 1.0)  # squares neither over- nor underflow
        mass = (sizes / self.scale[:, None]).view(len(g), channels, -1).sum(dim=1)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        places = torch.stack([rows, columns]).flatten(1).double()
        angles = 2 * pi * torch.arange(DIRECTIONS).double() / DIRECTIONS
        directions = torch.stack([angles.cos(), angles.sin()], dim=1)
        self.W = mass.sum(dim=1)
        self.n = g.shape[1]
        along = directions @ places
        centres = (mass / self.W[:, None]) @ along.T
        self.farthest = along.amax(dim=1) - centres
        sums = along.sum(dim=1)
        self.P = channels * (sums - height * width * centres)
        self.Q = channels * (along.square().sum(dim=1) - 2 * centres * sums + height * width * centres.square())

    def displacement(self, T: Float64[Tensor, " b"]) -> Float64[Tensor, " b"]:
        """Pixels, from above; NaN for a zero map."""
        square = (T / self.scale * (1 + OUTWARDS)).square()[:, None]
        room = (self.W.square()[:, None] - self.n * square).clamp_min(0)
        root = (square.square() * self.P.square() + room * square * self.Q).sqrt()
        # the larger root of the quadratic, in the form that does not cancel
        moved = torch.where(self.P > 0, square * self.Q / (square * self.P + root), (root - square * self.P) / room)
        moved = torch.where(room > 0, moved.minimum(self.farthest), self.farthest)
        moved = torch.where(square > 0, moved, 0.0)
        return moved.amax(dim=1) / cos(pi / DIRECTIONS) * (1 + OUTWARDS)
