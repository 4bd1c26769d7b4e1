"""What rounding takes of a sample's attribution and of its Jacobian, measured against the same network computed otherwise.

In float32 the other network is the same in float64. In float64 it is one whose weights are off by 2^-40 of themselves, at random: what
that changes, times 2^-13, is about what rounding (2^-53) changes, and eight times that is taken.

With E the difference of the two Jacobians, E w is seen at a normal vector w; |E w| is about the Frobenius norm of E. Where it is more
than next to nothing (2e-6 of |J w|), E^T u is seen too, u = E w / |E w|, which is the norm of E where one direction dominates it. Three
times the largest of these is taken for |E|_2, and the upper ends are enlarged by it. It is a measurement, not a bound: an E whose
largest direction w has missed can be larger.
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.types import Attribution, Figures, LinearMap

SAFETY = 3.0
LITTLE = 2e-6  # of |J w|
# What rounding may make of the difference of two maps: so many times what it takes of one, or, where that is not known, this share of
# their length.
TWICE_BOTH = 4.0
USUAL = {torch.float32: 8e-6, torch.float64: 4e-13}
APART = 2.0**-40  # of the weights, in float64
SHARE = 8 * 2.0**-13


@dataclass(frozen=True)
class Otherwise:
    """The same network computed otherwise; `share` of what differs is rounding."""

    f: Classifier
    share: float


@dataclass(frozen=True)
class Rounding:
    """What rounding may take of g(x), as a length, and of J, as a spectral norm."""

    value: Float[Tensor, " b"]
    product: Float[Tensor, " b"]


def between(g: Float[Tensor, "b m"], rounding: Rounding | None) -> Figures:
    """What rounding alone may make of the difference of g and another map: one that is not longer is noise."""
    return USUAL[g.dtype] * g.double().norm(dim=1).cpu() if rounding is None else TWICE_BOTH * rounding.value.double()


def otherwise(f: Classifier, x: Float[Tensor, "b *shape"]) -> Otherwise | None:
    """None where the network does not run in float64."""
    network = deepcopy(f.network).double().requires_grad_(False)
    other = replace(f, network=network)
    try:
        with torch.no_grad():
            other(x[:1].double())
    except RuntimeError:  # constants or casts of its own
        return None
    if x.dtype == torch.float32:
        return Otherwise(other, 1.0)
    rng = torch.Generator().manual_seed(0)
    for part in network.state_dict().values():
        if part.is_floating_point():
            part.mul_(1 + APART * torch.randn(part.shape, generator=rng, dtype=torch.float64).sign().to(part.device))
    return Otherwise(other, SHARE)


@dataclass(frozen=True)
class Measured:
    """An attribution with its Jacobian as a run has them: g(x), J, a normal vector w and J w."""

    value: Float[Tensor, "b m"]
    J: LinearMap
    w: Float[Tensor, "b n"]
    image: Float[Tensor, "b m"]

    def against(
        self,
        other: Otherwise,
        attribution: Attribution,
        x: Float[Tensor, "b *shape"],
        classes: Int64[Tensor, " b"],
        draws: Draws,
        *,
        at_once: int,
    ) -> Rounding:
        """The same computed otherwise, `at_once` samples at a time."""

        little = LITTLE * self.image.double().norm(dim=1)

        def part(rows: Int64[Tensor, " rows"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            exact = attribution.explain(other.f, x[rows].double(), classes[rows], draws.select(rows))
            off = self.image[rows].double() - exact.jacobian.matvec(self.w[rows].double())
            much = off.norm(dim=1) > little[rows]
            tiny = torch.finfo(off.dtype).tiny
            unit = (off / off.norm(dim=1, keepdim=True).clamp_min(tiny) * much[:, None]).to(x.dtype)
            back = exact.jacobian.rmatvec(unit.double()) if much.any() else torch.zeros_like(self.w[rows].double())
            return (self.value[rows].double() - exact.value).norm(dim=1), off.norm(dim=1), unit, back

        parts = [part(rows) for rows in torch.arange(len(x), device=x.device).split(at_once)]
        values, products, units, backs = (torch.cat(column) for column in zip(*parts, strict=True))
        most = torch.maximum(products, little)
        if units.any():
            most = torch.maximum(most, (self.J.rmatvec(units).double() - backs).norm(dim=1))
        return Rounding((other.share * values).cpu(), (SAFETY * other.share * most).cpu())
