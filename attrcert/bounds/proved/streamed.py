"""max |g(x + delta) - g(x)|_2 over a ball, proved, for deep networks whose Jacobians do not fit into memory.

The theorem is `streamed_form`, with ranges from `streamed_ranges` and `streamed_bends`: nothing is held but d x d matrices and a few
numbers for every neuron. Attributions are sums over the nodes of a path, as in `bound`; entry by entry the change is bounded too, and the
smaller is taken. lambda_max is proved by a Cholesky factor.

Guarantee: as in `bound`. Departures: ranges are closed neuron by neuron, in l2 too, so that it is for small balls: as the radius grows it
becomes infinite where the joint form of `joint` does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.bounds.proved.bound import SLACK, ProvedBound
from attrcert.bounds.proved.loops import CLOSE, ENLARGED
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.nodes import Path
from attrcert.bounds.proved.point import Point, without_jacobians
from attrcert.bounds.proved.reach import Reach, length
from attrcert.bounds.proved.streamed_bends import Bends, bends_over
from attrcert.bounds.proved.streamed_form import Matrices, Ranged, StreamedForm, matrices
from attrcert.bounds.proved.streamed_ranges import Moved, moved_over
from attrcert.bounds.proved.streamed_search import Node, StreamedChoice, StreamedSum, searched
from attrcert.bounds.proved.streams import AT_ONCE as ROWS
from attrcert.bounds.proved.streams import Streams, fast_precision, streams
from attrcert.bounds.proved.sweeps import AT_ONCE, Curvature, Sweeps, curvature
from attrcert.linalg.proofs import proved_near
from attrcert.linalg.ritz import ritz

PROVING = 40  # steps of Lanczos
METHOD = "streamed"


@dataclass(frozen=True)
class At:
    """A node of the path: all that is known of it, over every ball."""

    streams: Streams
    point: Point
    curvature: Curvature
    moved: dict[int, Moved]
    bends: Bends
    weight: float
    step: float

    def form(self, ball: int) -> StreamedForm:
        layers = {}
        for i, bent in self.bends.found.items():
            parts = (self.moved[i].apart, bent.radius, bent.loose, bent.unsure)
            apart, radius, loose, unsure = (part[None, :, ball] for part in parts)
            layers[i] = Ranged(apart, radius, loose, unsure, float(self.moved[i].beyond[ball]), self.moved[i], bent)
        return StreamedForm(self.curvature.c, layers)

    def node(self, ball: int) -> Node:
        return Node(Sweeps(self.streams.fast, self.streams.fast_slope), self.form(ball), self.weight, self.step)


def streamed_bounds(
    network: Network,
    nodes: Path,
    classes: Int64[Tensor, " 1"],
    reaches: Sequence[Reach],
    effort: int,
    kind: torch.dtype | None = None,
) -> list[ProvedBound]:
    """Of one sample, over each of several balls of one norm; `kind` is the precision that rows are streamed in."""
    if not network.curves:
        return [_straight(network, nodes, classes, reach) for reach in reaches]
    at = []
    for z, w, a in zip(nodes.points, nodes.weights, nodes.steps, strict=True):
        kind = kind or fast_precision(z)
        at.append(_at(network, z, classes, [reach.scaled(a) for reach in reaches], (w, a), kind))
    mean = sum((one.weight * one.point.gradient for one in at), torch.zeros_like(nodes.points[0].flatten(1)))
    beside = None if nodes.difference is None else mean
    wholes = [StreamedSum(tuple(one.node(k) for one in at), nodes.difference, beside) for k in range(len(reaches))]
    choices = [searched(whole, reach, effort) for whole, reach in zip(wholes, reaches, strict=True)]
    parts = []
    for n, one in enumerate(at):
        forms = [whole.nodes[n].form for whole in wholes]
        parts.append(matrices(one.streams, one.curvature, forms, [choice.by[n] for choice in choices]))
    found = []
    for k, (reach, choice) in enumerate(zip(reaches, choices, strict=True)):
        top = _proved(at, [part[k] for part in parts], choice, reach, wholes[k])
        found.append(_bound(at, nodes, reach, k, mean, top))
    return found


def _at(
    network: Network,
    z: Float[Tensor, "1 *shape"],
    classes: Int64[Tensor, " 1"],
    reaches: Sequence[Reach],
    path: tuple[float, float],
    kind: torch.dtype,
) -> At:
    point, values = without_jacobians(network, z, classes), network.values(z)
    ready = streams(network, point.slope, kind)
    c = {i: network.curve(i).bend(point.z[i]) * point.F[i] for i in point.z}
    known = curvature(Sweeps(network, point.slope), c, reaches[0].norm.dual)
    moved = moved_over(ready, values, known.straight, reaches)
    return At(ready, point, known, moved, bends_over(ready, point, known, moved, reaches), *path)


def _proved(at: list[At], parts: list[Matrices], choice: StreamedChoice, reach: Reach, whole: StreamedSum) -> float:
    """At least the largest u^T D g but for the part of second order."""
    d, shape = choice.shape.shape[1], choice.shape[0]
    G = torch.zeros(2 * d, 2 * d).to(shape)
    P, M, Q = G[:d, :d], G[d:, :d], G[d:, d:]
    farthest = float(reach.radius) * (1.0 if reach.is_l2 else d**0.5)  # at least |delta|
    most, beside = 1.0 if whole.rows is None else float(whole.rows.abs().max()), 0.0
    for one, part in zip(at, parts, strict=True):
        w, a = abs(one.weight), one.step
        P += w * (part.P + part.P.mT) / 2
        M += one.weight * a * one.curvature.M
        Q += w * a**2 * (part.Q + part.Q.mT) / 2
        off = most**2 * part.off[0] / 2 + most * a * farthest * part.off[1] + (a * farthest) ** 2 * part.off[2] / 2
        beside += w * (part.beside + off + most * part.unsure)
    if whole.rows is not None and whole.mean is not None:
        P *= whole.rows[0][:, None] * whole.rows[0]
        M *= whole.rows[0]
        M.diagonal().add_(whole.mean[0])
    M *= shape[:, None]
    Q *= shape[:, None] * shape
    G[:d, d:] = M.mT
    assert choice.vectors is not None
    value = ritz(lambda x: x @ G, choice.vectors[:, 0], PROVING, 1)[0][:, 0]
    return float(proved_near(G[None], (1 + CLOSE) * value, ENLARGED)) + beside


def _bound(at: list[At], nodes: Path, reach: Reach, ball: int, mean: Float[Tensor, "1 d"], top: float) -> ProvedBound:
    """The smaller of what was proved for the form and entry by entry."""
    each, off, rounding = torch.zeros_like(mean), torch.zeros_like(mean), torch.zeros_like(mean[:, 0])
    for one in at:
        each = each + abs(one.weight) * one.bends.each[:, ball]
        off = off + abs(one.weight) * one.bends.off
        for i, known in one.moved.items():
            rounding = torch.maximum(rounding, one.streams.network.curve(i).quickest * known.off.max())
    return _smaller(top, nodes.difference, reach, (mean, each, off), rounding)


def _straight(network: Network, nodes: Path, classes: Int64[Tensor, " 1"], reach: Reach) -> ProvedBound:
    """Of a network whose gradient is the same everywhere."""
    points = [without_jacobians(network, z, classes) for z in nodes.points]
    mean = torch.stack([w * point.gradient for w, point in zip(nodes.weights, points, strict=True)]).sum(dim=0)
    off = torch.stack([abs(w) * point.doubt.gradient for w, point in zip(nodes.weights, points, strict=True)]).sum(
        dim=0
    )
    none = torch.zeros_like(mean)
    return _smaller(torch.inf, nodes.difference, reach, (mean, none, off), none[:, 0])


def _smaller(
    top: float, D: Tensor | None, reach: Reach, entries: tuple[Tensor, Tensor, Tensor], rounding: Float[Tensor, " 1"]
) -> ProvedBound:
    """Of the mean gradient, how far its entries change, and their errors."""
    mean, each, off = entries
    second, boxes, value = torch.zeros_like(rounding), length(each), mean
    if D is not None:
        second = reach.entries(each) + reach.entries(off)
        boxes, value, off = length(D * each) + reach.entries(mean) + second, D * mean, D * off
    upper = torch.minimum((top + second).nan_to_num(torch.inf), boxes.nan_to_num(torch.inf)) * (1 + SLACK)
    return ProvedBound(upper, value, (METHOD,), rounding, length(off))


def streamed_bytes(network: Network, balls: int = 1) -> int:
    """What a sample needs: G with what its factor takes, M, P and Q, what sweeps hold at once, and a few numbers for every neuron."""
    d, sizes = network.inputs, [network.steps[i].size for i in network.curves]
    widest = max((step.size for step in network.steps), default=d)
    at_once = 1 + min(AT_ONCE // widest, d)
    rows = 1 + ROWS // widest
    held = (5 * at_once + rows) * (sum(sizes) + 2 * widest)
    return 8 * (4 * (2 * d) ** 2 + (1 + 2 * balls) * d * d + held + (24 + 12 * balls) * sum(sizes) + 600 * widest)
