"""Which form a sample's bound has: the dense ones where their Jacobians fit into memory, the streamed one elsewhere.

The dense forms carry rounding through the network by moduli (`rounding`), which grow with every layer where weights cancel. A network where
they leave no digits is streamed too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.bounds.proved.bound import ProvedBound, Prover, gathered, sample_bytes
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.nodes import path
from attrcert.bounds.proved.paths import Paths
from attrcert.bounds.proved.point import without_jacobians
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.streamed import streamed_bounds, streamed_bytes
from attrcert.draws import Draws


def least_bytes(network: Network, balls: int = 1) -> int:
    """What a sample needs at least."""
    return min(sample_bytes(network, balls), streamed_bytes(network, balls))


MOST_BLUR = 1e-3  # of an entry of a row, by moduli


@dataclass(frozen=True)
class FittingProver(Prover):
    """The streamed form takes its samples one by one, all balls of a sample together."""

    def __call__(
        self,
        x: Float[Tensor, "b *shape"],
        classes: Int64[Tensor, " b"],
        eps: Sequence[Float[Tensor, " b"]],
        draws: Draws,
    ) -> list[ProvedBound]:
        """Of each sample at each eps, which may differ between samples."""
        if sample_bytes(self.network, len(eps)) <= self.memory and not self._blurred(x, classes):
            return super().__call__(x, classes, eps, draws)
        parts = []
        for row in torch.arange(len(x), device=x.device).split(1):
            reaches = [Reach(one.to(x.device, torch.float64)[row], self.norm) for one in eps]
            nodes = path(self.attribution, x[row].double())
            parts.append(streamed_bounds(self.network, nodes, classes[row], reaches, self.effort))
        return [gathered(part) for part in zip(*parts, strict=True)]

    def _blurred(self, x: Float[Tensor, "b *shape"], classes: Int64[Tensor, " b"]) -> bool:
        """Whether moduli leave too few digits of the rows of some Jacobian."""
        point = without_jacobians(self.network, x[:1].double(), classes[:1])
        none = torch.zeros_like(point.gradient[:, 0])
        paths = Paths(self.network, point.z, none)
        for i, z in point.z.items():
            moduli, _ = paths.before(i)
            if point.doubt.unit * float(moduli.max()) > MOST_BLUR:
                return True
            paths.learn(i, torch.zeros_like(z), torch.zeros_like(z), point.doubt.z[i])
        return False
