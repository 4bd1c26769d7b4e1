"""Baselines of integrated gradients: images b(x) = B x + constant, with the linear part B and its adjoint."""

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.errors import UsageError
from attrcert.types import Inputs
from attrcert.vocabulary import parse_number

Pixels = Inputs


class Baseline(Protocol):
    def __call__(self, x: Pixels) -> Pixels: ...
    def linear(self, v: Pixels) -> Pixels: ...
    def adjoint(self, u: Pixels) -> Pixels: ...


@dataclass(frozen=True)
class Constant:
    """One colour everywhere; B = 0."""

    values: tuple[float, ...]

    def __call__(self, x: Pixels) -> Pixels:
        colour = torch.tensor(self.values, dtype=x.dtype, device=x.device)
        return colour.reshape(-1, *[1] * (x.ndim - 2)).expand_as(x) if len(self.values) > 1 else colour.expand_as(x)

    def linear(self, v: Pixels) -> Pixels:
        return torch.zeros_like(v)

    def adjoint(self, u: Pixels) -> Pixels:
        return torch.zeros_like(u)


@dataclass(frozen=True)
class Blurred:
    """The image itself under a Gaussian blur whose weights sum to one at the border too; B is the blur.

    The baseline moves with the image, as it does for a user who explains the perturbed image, and J says so. Of the blur's weights `taps`
    are there, or all.
    """

    sigma: float = 3.0
    taps: int | None = None

    def __call__(self, x: Pixels) -> Pixels:
        return self.linear(x)

    def linear(self, v: Pixels) -> Pixels:
        if v.ndim != 4:
            raise UsageError(f"a blur needs images (channels, height, width), got inputs of shape {tuple(v.shape[1:])}")
        return self._kernel(v, -2) @ v @ self._kernel(v, -1).mT

    def adjoint(self, u: Pixels) -> Pixels:
        return self._kernel(u, -2).mT @ u @ self._kernel(u, -1)

    def _kernel(self, like: Tensor, dim: int) -> Float[Tensor, "side side"]:
        place = torch.arange(like.shape[dim], device=like.device, dtype=like.dtype)
        away = (place[:, None] - place).abs()
        weights = torch.exp(-0.5 * (away / self.sigma) ** 2)
        if self.taps is not None:
            weights = weights * (away <= self.taps // 2)
        return weights / weights.sum(dim=1, keepdim=True)


def parse_baseline(text: str, mean: tuple[float, ...] | None) -> Baseline:
    """A pixel value, `mean` (the colour that the model's normalisation maps to 0), or `blur`."""
    if text == "blur":
        return Blurred()
    if text == "mean":
        if mean is None:
            raise UsageError(
                "baseline mean is the colour that normalisation maps to 0, and this model has no mean",
                hint="give --mean, or a pixel value such as --baseline 0.5",
            )
        return Constant(mean)
    value = parse_number(text)
    if not 0 <= value <= 1:
        raise UsageError(f"a baseline is a pixel value between 0 and 1, mean or blur, got {text}")
    return Constant((value,))
