"""Squares, and powers of what stays away from 0: the curves of norms and products.

A product is a difference of squares,

    x y = (k x / 2 + y / (2 k))^2 - (k x / 2 - y / (2 k))^2,

for any k, and a norm divides by the root of a mean square. Squares are as steep as they are far out; s'' is constant.

A power v^p, p < 1, is only asked for at v >= `least` > 0. Below it, it goes on with the same s, s' and s'' (a parabola): a network that
never goes there is the same function, and s' is Lipschitz everywhere. |s''| is largest, and constant, below `least`, and falls beyond;
s''' = (p - 2) s'' / v, so |s'''| <= (2 - p) / least |s''|.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Square:
    """sign z^2."""

    sign: float = 1.0
    turns: tuple[float, ...] = ()
    flexes: tuple[float, ...] = ()
    quickest: float = 0.0
    jump: float = 0.0

    def value(self, z: Tensor) -> Tensor:
        return self.sign * z * z

    def slope(self, z: Tensor) -> Tensor:
        return 2 * self.sign * z

    def bend(self, z: Tensor) -> Tensor:
        return torch.full_like(z, 2 * self.sign)


@dataclass(frozen=True)
class Power:
    """z^exponent from `least` on, its parabola below."""

    exponent: float
    least: float
    turns: tuple[float, ...] = ()
    flexes: tuple[float, ...] = ()
    jump: float = 0.0

    @property
    def quickest(self) -> float:
        return (2 - self.exponent) / self.least

    def value(self, z: Tensor) -> Tensor:
        above, below = self._parts(z)
        p, v = self.exponent, self.least
        return above**p + p * v ** (p - 1) * below + p * (p - 1) * v ** (p - 2) * below * below / 2

    def slope(self, z: Tensor) -> Tensor:
        above, below = self._parts(z)
        p = self.exponent
        return p * above ** (p - 1) + p * (p - 1) * self.least ** (p - 2) * below

    def bend(self, z: Tensor) -> Tensor:
        above, _ = self._parts(z)
        return self.exponent * (self.exponent - 1) * above ** (self.exponent - 2)

    def _parts(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z, or `least` where z is below it; and by how much z is below it, negative."""
        far = z > self.least
        return torch.where(far, z, self.least), torch.where(far, 0.0, z - self.least)
