"""The structural similarity of two maps as pictures: |g| summed over channels, divided by its maximum.

Notation: in each window of 7 x 7 pixels, with means m, m', variances v, v' and covariance c,
    (2 m m' + C1) (2 c + C2) / ((m^2 + m'^2 + C1) (v + v' + C2)),  C1 = (K1 L)^2, C2 = (K2 L)^2, L = 1;
the figure is the mean over the windows that lie inside the picture. The pixels of a window have equal weight and variances are the
sample's, which are scikit-image's defaults; or, with a sigma, the weights of a Gaussian, and variances are plain weighted means.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import avg_pool2d

from attrcert.metrics.metric import measurable
from attrcert.types import Figures, Flat

WINDOW = 7
UNBIASED = WINDOW**2 / (WINDOW**2 - 1)
C1, C2 = 0.01**2, 0.03**2


@dataclass(frozen=True)
class SSIM:
    """The structural similarity, -1 to 1; undefined for a zero map, and for images of 7 x 7 pixels or more only."""

    sigma: float | None = None
    rising: ClassVar[bool] = False

    def __call__(self, g: Flat, reference: Flat, shape: tuple[int, ...]) -> Figures | None:
        if len(shape) != 3 or min(shape[1:]) < WINDOW:
            return None
        x, y = _picture(g, shape), _picture(reference, shape)
        mx, my = self._means(x), self._means(y)
        light = (2 * mx * my + C1) / (mx * mx + my * my + C1)
        both, of_x, of_y = (self._covariances(a, b) for a, b in ((x, y), (x, x), (y, y)))
        structure = (2 * both + C2) / (of_x + of_y + C2)
        return (light * structure).flatten(1).mean(dim=1)

    def _means(self, picture: Float64[Tensor, "b h w"]) -> Float64[Tensor, "b rows columns"]:
        if self.sigma is None:
            return avg_pool2d(picture[:, None], WINDOW, stride=1)[:, 0]
        return self._window(picture.shape[1]) @ picture @ self._window(picture.shape[2]).mT

    def _window(self, side: int) -> Float64[Tensor, "places side"]:
        """The Gaussian weights of a row's pixels, around each place where a window fits."""
        assert self.sigma is not None
        first = torch.arange(side - WINDOW + 1, dtype=torch.float64)[:, None]
        away = torch.arange(side, dtype=torch.float64) - first - WINDOW // 2
        weights = torch.exp(-0.5 * (away / self.sigma) ** 2) * (away.abs() <= WINDOW // 2)
        return weights / weights.sum(dim=1, keepdim=True)

    def _covariances(
        self, x: Float64[Tensor, "b h w"], y: Float64[Tensor, "b h w"]
    ) -> Float64[Tensor, "b rows columns"]:
        plain = self._means(x * y) - self._means(x) * self._means(y)
        return UNBIASED * plain if self.sigma is None else plain


def _picture(g: Flat, shape: tuple[int, ...]) -> Float64[Tensor, "b h w"]:
    mass = measurable(g).abs().unflatten(1, shape).sum(dim=1)
    return mass / mass.amax(dim=(1, 2), keepdim=True)
