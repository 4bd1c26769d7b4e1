"""A network at its points x: z, the slopes s'(z), the sensitivities F = df/da and the Jacobians B = dz/dx, exact but for rounding."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.bounds.proved.curves import CANCELLATION, sharpest
from attrcert.bounds.proved.digits import AsComputed, Digits
from attrcert.bounds.proved.network import AtActivation, Carried, Network
from attrcert.bounds.proved.rounding import Doubt, doubts

ELEMENTS = 4 * 10**6  # of the largest tensor that rows of a Jacobian are computed in: it stays near the cores


@dataclass(frozen=True)
class Point:
    """By the number of the activation; `explained` is the unit vector of the explained logit, `gradient` its gradient.

    `doubt` is what rounding leaves open. B has the slopes as they were computed. `overlaps` is what `trust` found of B B^T, for every ball.
    """

    network: Network
    explained: Float[Tensor, "b k"]
    z: dict[int, Float[Tensor, "b n"]]
    slope: dict[int, Float[Tensor, "b n"]]
    F: dict[int, Float[Tensor, "b n"]]
    gradient: Float[Tensor, "b d"]
    B: dict[int, Float[Tensor, "c n d"]]
    doubt: Doubt
    overlaps: dict[int, tuple[Tensor, float]] = field(default_factory=dict)


def at_points(network: Network, x: Float[Tensor, "b *shape"], classes: Int64[Tensor, " b"]) -> Point:
    values = network.values(x)
    point = _without_jacobians(network, values, classes)
    slope, B = point.slope, {}
    # moduli do for networks of curves that are nowhere steep
    digits = None if all(network.curve(i).flexes for i in slope) else Digits(_computed(point, values))
    N: dict[int, Tensor] = {}

    def straight(i: int, carried: Carried | None) -> Carried | None:
        if carried is None:
            return None
        if digits is not None:
            N[i] = carried.centre
        return Carried(slope[i][:, None] * carried.centre)

    for i in slope:
        parts: list[Tensor] = []
        for units in unit_rows(network, i, len(x), like=x):
            N.clear()
            parts.append(rows(network, i, units, straight))
            if digits is not None:
                digits.learn(i, sum(part.shape[1] for part in parts[:-1]), parts[-1], N)
        B[i] = torch.cat(parts, dim=1)
        if digits is not None:
            digits.finish(i)
    return replace(point, B=B, overlaps={}, doubt=point.doubt if digits is None else digits.doubt(B))


def _computed(point: Point, values: list[Tensor]) -> AsComputed:
    return AsComputed(point.network, values, point.slope, point.F, point.explained, point.doubt)


def without_jacobians(network: Network, x: Float[Tensor, "b *shape"], classes: Int64[Tensor, " b"]) -> Point:
    """The same without B, which is most of the work."""
    return _without_jacobians(network, network.values(x), classes)


def _without_jacobians(network: Network, values: list[Tensor], classes: Int64[Tensor, " b"]) -> Point:
    x = values[0]
    z = {i: values[network.before(i)].flatten(1) for i in network.curves}
    slope = {i: network.curve(i).slope(z[i]) for i in z}
    F = {i: torch.zeros_like(z[i]) for i in z}

    def sensitivity(i: int, carried: Carried | None) -> Carried | None:
        if carried is None:
            return None
        F[i] = carried.centre[:, 0]
        return Carried((slope[i] * F[i])[:, None])

    one = torch.nn.functional.one_hot(classes, network.steps[-1].size).to(x)
    pulled = network.pull(len(network.steps) - 1, Carried(one[:, None]), sensitivity)
    gradient = torch.zeros_like(x.flatten(1)) if pulled is None else pulled.centre[:, 0]
    return Point(network, one, z, slope, F, gradient, {}, doubts(network, values, slope, one))


def second_blur(point: Point, v: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    """About the derivative of the gradient along v, if every |s''| were as large as rounding may leave of the curve's largest."""
    network, moved = point.network, {}

    def forwards(i: int, t: Tensor) -> Tensor:
        moved[i] = t.abs()
        return point.slope[i][:, None] * t

    def backwards(i: int, carried: Carried | None) -> Carried:
        here = (CANCELLATION * sharpest(network.curve(i), point.z[i]) * point.F[i].abs())[:, None] * moved[i]
        return Carried(here if carried is None else here + point.slope[i].abs()[:, None] * carried.centre)

    network.push(v[:, None], forwards)
    pulled = network.magnitude.pull(len(network.steps) - 1, None, backwards)
    return torch.zeros_like(v) if pulled is None else pulled.centre[:, 0]


def unit_rows(network: Network, activation: int, samples: int, *, like: Tensor) -> Iterator[Float[Tensor, "k n"]]:
    """The unit vectors of an activation's input, as many at a time as fit."""
    before = network.before(activation)
    n, widest = network.steps[before].size, max(step.size for step in network.steps[: before + 1])
    at_once = max(1, ELEMENTS // (samples * widest))
    for start in range(0, n, at_once):
        block = like.new_zeros(min(at_once, n - start), n)
        block.diagonal(start).fill_(1.0)
        yield block


def rows(network: Network, activation: int, units: Float[Tensor, "k n"], bend: AtActivation) -> Float[Tensor, "c k d"]:
    """The rows of the derivative of an activation's input that belong to some unit vectors."""
    pulled = network.pull(network.before(activation), Carried(units[None]), bend)
    assert pulled is not None  # every step is reached from the input
    return pulled.centre
