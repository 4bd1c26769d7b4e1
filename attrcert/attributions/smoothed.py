"""Attributions averaged over noise: h(x) = mean_i g(x + noise_i) [smilkov2017smoothgrad, wang2024certified].

The noise is drawn once per sample, from the sample's own stream (common random numbers). h is then a deterministic
map as smooth as g, which can be bounded and attacked like any other, and its Jacobian is the mean of the Js.

Not claimed: anything about the expectation over the noise, which h only estimates.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.gradient import Saliency
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.types import Attribution, Classes, Explained, Flat, Inputs, LinearMap, Logits

PLAIN = Saliency()


@dataclass(frozen=True)
class MeanJacobian(LinearMap):
    """The mean of `samples` consecutive maps."""

    maps: LinearMap
    samples: int

    @property
    def like(self) -> LinearMap:
        return self.maps

    @property
    def shape(self) -> tuple[int, int, int]:
        points, m, n = self.maps.shape
        return points // self.samples, m, n

    @property
    def symmetric(self) -> bool:
        return self.maps.symmetric

    def matvec(self, v: Flat) -> Float[Tensor, "b m"]:
        return _mean(self.maps.matvec(v.repeat_interleave(self.samples, dim=0)), self.samples)

    def rmatvec(self, u: Float[Tensor, "b m"]) -> Flat:
        return _mean(self.maps.rmatvec(u.repeat_interleave(self.samples, dim=0)), self.samples)

    def select(self, keep: Int64[Tensor, " kept"]) -> "MeanJacobian":
        points = keep[:, None] * self.samples + torch.arange(self.samples, device=keep.device)
        return MeanJacobian(self.maps.select(points.flatten()), self.samples)


class _Smoothed(Attribution):
    """`base` averaged over `samples` noisy copies of the input."""

    base: Attribution
    samples: int

    @abstractmethod
    def noise(self, draws: Draws, x: Inputs) -> Float[Tensor, "b samples n"]:
        """The noise of each sample, the same at every call."""

    @property
    def points(self) -> int:
        return self.samples * self.base.points

    def map_shape(self, f: Logits, x: Inputs) -> tuple[int, ...]:
        return self.base.map_shape(f, x)

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        return _mean(self.base.value(f, *self._noisy(x, y, draws)), self.samples)

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        explained = self.base.explain(f, *self._noisy(x, y, draws))
        return Explained(_mean(explained.value, self.samples), MeanJacobian(explained.jacobian, self.samples))

    def _noisy(
        self, x: Tensor, y: Tensor, draws: Draws | None
    ) -> tuple[Float[Tensor, "points *shape"], Int64[Tensor, " points"]]:
        noise = self.noise(draws or Draws(0, tuple(range(len(x)))), x)
        points = x[:, None] + noise.view(len(x), self.samples, *x.shape[1:])
        return points.flatten(0, 1), y.repeat_interleave(self.samples)

    def _check(self, name: str, spread: float) -> None:
        if not spread > 0:
            raise UsageError(f"{name} must be positive, got {spread}", hint="it is in pixel units (0 to 1)")
        if self.samples < 1:
            raise UsageError(f"the number of noise draws must be at least 1, got {self.samples}")


@dataclass(frozen=True)
class SmoothGrad(_Smoothed):
    """The mean over Gaussian noise of standard deviation `sigma` per pixel."""

    sigma: float = 0.1
    samples: int = 50
    base: Attribution = PLAIN

    def __post_init__(self) -> None:
        self._check("sigma", self.sigma)

    def noise(self, draws: Draws, x: Inputs) -> Float[Tensor, "b samples n"]:
        return self.sigma * draws.normal("gaussian-noise", self.samples, x[0].numel(), like=x)


@dataclass(frozen=True)
class UniformSmooth(_Smoothed):
    """The mean over noise uniform in the l2 ball of `radius` (the ball, not the cube)."""

    radius: float = 1.0
    samples: int = 50
    base: Attribution = PLAIN

    def __post_init__(self) -> None:
        self._check("radius", self.radius)

    def noise(self, draws: Draws, x: Inputs) -> Float[Tensor, "b samples n"]:
        """A uniform direction, and radius U^(1/d) as its length."""
        d = x[0].numel()
        directions = torch.nn.functional.normalize(draws.normal("uniform-noise", self.samples, d, like=x), dim=2)
        uniform = torch.erf(draws.normal("uniform-length", self.samples, 1, like=x).abs() / sqrt(2))
        return self.radius * uniform ** (1 / d) * directions


def _mean(values: Float[Tensor, "points n"], samples: int) -> Flat:
    return values.view(-1, samples, values.shape[1]).mean(dim=1)
