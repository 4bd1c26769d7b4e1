"""max |g(x + delta) - g(x)|_2 over a ball, proved, for saliency, input x gradient and integrated gradients.

All three are g(x) = D sum_k w_k grad f(b + a_k D), D = x - b, or without the factor D (saliency: one node, a = 1). With m the weighted mean
of the gradients at the nodes, each of which moves by a_k delta,

    g(x + delta) - g(x) = [diag(m) + diag(D) sum_k w_k a_k M_k] delta + D sum_k w_k errors_k + delta sum_k w_k D grad f_k,

M_k and errors_k from `secant` with the radius a_k eps. The last term is of second order and bounded entry by entry.

Guarantee: proved, for the network in exact arithmetic with the activations as written (softplus for a ReLU's twin, without torch's linear
continuation). Rounding of float64 in the network is bounded (`rounding`) and in the bound; what the last sums and norms take is covered
by `SLACK`, relative to it: single neurons, where nothing else is loose, stay 1e-9 above their exact change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.baselines import Constant
from attrcert.attributions.gradient import Saliency
from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.bounds.proved.form import Parts, parts
from attrcert.bounds.proved.joint import Whole, proved
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.point import at_points
from attrcert.bounds.proved.reach import Reach, length
from attrcert.bounds.proved.search import searched
from attrcert.bounds.proved.secant import Change, change
from attrcert.bounds.proved.trust import WIDEST
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.types import Attribution
from attrcert.vocabulary import Norm

SLACK = 1e-9
LITTLE = 0.01  # share of errors in the secant bound: as the norm of M less the errors is reached, l2 gains about twice that at most
METHODS = "secant", "interval", "joint"


@dataclass(frozen=True)
class Path:
    """Nodes b + a_k D with weights w_k; `difference` is D, None where the attribution is the gradient itself."""

    points: tuple[Float[Tensor, "b *shape"], ...]
    weights: tuple[float, ...]
    steps: tuple[float, ...]
    difference: Float[Tensor, "b d"] | None


def path(attribution: Attribution, x: Float[Tensor, "b *shape"]) -> Path:
    """The nodes of an attribution that is linear in gradients."""
    if isinstance(attribution, Saliency):
        return Path((x,), (1.0,), (1.0,), None)
    if isinstance(attribution, InputTimesGradient):
        return Path((x,), (1.0,), (1.0,), x.flatten(1))
    if isinstance(attribution, IntegratedGradients) and isinstance(attribution.baseline, Constant):
        base = attribution.baseline(x)
        nodes, weights = (part.tolist() for part in attribution.rule(x))
        points = tuple(base + a * (x - base) for a in nodes)
        return Path(points, tuple(weights), tuple(nodes), (x - base).flatten(1))
    if isinstance(attribution, IntegratedGradients):
        raise UsageError("proved bounds of integrated-gradients need a constant baseline", hint="--baseline 0 or mean")
    raise UsageError(
        "proved bounds are for saliency, input-x-gradient and integrated-gradients, not for "
        + getattr(attribution, "name", "smoothed attributions"),
        hint="--smooth uniform has a certificate of its own",
    )


@dataclass(frozen=True)
class ProvedBound:
    """`upper` >= |g(x + delta) - g(x)|_2 for every delta of the ball, by `method`; `value` is g(x).

    `upper` is infinite where the arithmetic overflowed. `rounding` is what float64 may take of second derivatives, relative; `off` of g(x).
    """

    upper: Float[Tensor, " b"]
    value: Float[Tensor, "b d"]
    method: tuple[str, ...]
    rounding: Float[Tensor, " b"]
    off: Float[Tensor, " b"]
    trusted: bool = False  # whether ranges came from trust regions

    @property
    def length(self) -> Float[Tensor, " b"]:
        """At most |g(x)|_2, by no more than rounding."""
        return (length(self.value) - self.off).clamp_min(0.0)

    def rate(self, eps: float) -> Float[Tensor, " b"]:
        """At least |g(x + delta) - g(x)|_2 / |delta| for every delta of the ball of this eps; infinite where the bound is of another kind.

        Every term of the joint form is homogeneous in the change, with ranges that are fixed over the ball: a shorter delta has the same
        ranges, and the same share of the bound. So has the secant form's but for trust-region ranges, which are not proportional to
        |delta|, and intervals.
        """
        forms = ("joint",) if self.trusted else ("joint", "secant")
        linear = torch.tensor([method in forms for method in self.method], device=self.upper.device)
        return torch.where(linear, self.upper / eps, torch.inf)

    def at_most(self, other: "ProvedBound") -> "ProvedBound":
        """The smaller of two bounds that both hold."""
        kept = (self.upper <= other.upper).tolist()
        method = tuple(
            mine if keep else theirs for keep, mine, theirs in zip(kept, self.method, other.method, strict=True)
        )
        return replace(self, upper=torch.minimum(self.upper, other.upper), method=method)


@dataclass
class Sums:
    """Over the nodes of a path, at one eps: M, the errors, and what bounds each entry of the mean gradient's change.

    `least` is at most `errors`, which a single node is only asked for when they are needed.
    """

    reach: Reach
    M: Float[Tensor, "b d d"]
    least: Float[Tensor, " b"]
    each: Float[Tensor, "b d"]
    rounding: Float[Tensor, " b"]
    off: Float[Tensor, "b d"]
    errors: list[Callable[[], Float[Tensor, " b"]]] = field(default_factory=list)
    nodes: list[tuple[Parts, float, float]] = field(default_factory=list)

    def bound(
        self, mean: Float[Tensor, "b d"], D: Float[Tensor, "b d"] | None, draws: Draws, effort: int
    ) -> ProvedBound:
        """The smallest of all; what cannot be it is not proved."""
        if D is None:
            second = torch.zeros_like(self.least)
            A, boxes = self.M, length(self.each)
        else:
            second = self.reach.entries(self.each) + self.reach.entries(self.off)
            A = torch.diag_embed(mean) + D[:, :, None] * self.M
            boxes = length(D * self.each) + self.reach.entries(mean) + second
        joint = torch.full_like(second, torch.inf)
        secant = joint
        least = self.reach.least(A) + self.least
        found = None
        if self.nodes and bool((self.least > LITTLE * least).any()):
            parts, weights, steps = zip(*self.nodes, strict=True)
            whole = Whole((), weights, steps, D, None if D is None else mean)
            whole, found = searched(parts, whole, self.reach, effort, boxes)
            if bool((found.estimate > least).any()):
                secant = self.secant(A, draws) + second
            if bool((found.estimate + second < torch.minimum(secant, boxes)).any()):
                unit = max(part.unit for part in parts)
                joint = proved(whole, found.choice, found.vectors[:, 0], unit) + second
        if bool((secant.isinf() & ~(joint < least)).any()):
            secant = self.secant(A, draws) + second
        uppers = [part.nan_to_num(torch.inf, torch.inf) for part in (secant, boxes, joint)]
        upper, smallest = torch.stack(uppers).min(dim=0)
        method = tuple(METHODS[i] for i in smallest.tolist())
        value, off = (part if D is None else D * part for part in (mean, self.off))
        return ProvedBound(upper * (1 + SLACK), value, method, self.rounding, length(off), trusted=effort > 0)

    def secant(self, A: Float[Tensor, "b d d"], draws: Draws) -> Float[Tensor, " b"]:
        """What the norm of A and the errors prove, but for the part of second order."""
        return self.reach.whole(A, draws) + sum((errors() for errors in self.errors), torch.zeros_like(self.least))


def _errors(moved: Change, weight: float, difference: Float[Tensor, "b d"] | None) -> Float[Tensor, " b"]:
    return weight * moved.errors(difference)


def proved_bounds(
    network: Network,
    nodes: Path,
    classes: Int64[Tensor, " b"],
    reaches: Sequence[Reach],
    draws: Draws,
    effort: int = 0,
) -> list[ProvedBound]:
    """Of each sample, over each of several balls."""
    x = nodes.points[0].flatten(1)
    mean, none = torch.zeros_like(x), torch.zeros_like(x[:, 0])
    sums = [
        Sums(reach, torch.diag_embed(torch.zeros_like(x)), none, torch.zeros_like(x), none, torch.zeros_like(x))
        for reach in reaches
    ]
    for z, w, a in zip(nodes.points, nodes.weights, nodes.steps, strict=True):
        point = at_points(network, z, classes)
        mean += w * point.gradient
        for one in sums:
            moved = change(point, one.reach.scaled(a), trusted=effort > 0)
            if effort and w * a and moved.q:
                one.nodes.append((parts(moved), w, a))
            one.M += w * a * moved.M
            errors = partial(_errors, moved, w, nodes.difference)
            if effort and len(nodes.points) == 1:
                one.errors.append(errors)
                one.least = one.least + w * moved.least_errors(nodes.difference)
            else:  # what they need would have to be kept for every node
                known = errors()
                one.errors.append(partial(torch.clone, known))
                one.least = one.least + known
            one.each += w * moved.each
            one.rounding = torch.maximum(one.rounding, point.doubt.share)
            one.off = one.off + abs(w) * point.doubt.gradient
    return [one.bound(mean, nodes.difference, draws, effort) for one in sums]


@dataclass(frozen=True)
class Prover:
    """The bound of one attribution of one network, a few samples at a time: as many as fit into `memory` bytes.

    `effort` is how many steps the search for the joint form's multipliers takes; with 0, and where the joint form does not fit, there are
    only the secant and interval bounds.
    """

    network: Network
    attribution: Attribution
    norm: Norm
    memory: int
    effort: int = 0

    def __call__(
        self,
        x: Float[Tensor, "b *shape"],
        classes: Int64[Tensor, " b"],
        eps: Sequence[Float[Tensor, " b"]],
        draws: Draws,
    ) -> list[ProvedBound]:
        """Of each sample at each eps, which may differ between samples."""
        usual = sample_bytes(self.network, len(eps))
        effort = self.effort if usual + joint_bytes(self.network) <= self.memory else 0
        at_once = 1 if effort else max(1, self.memory // usual)  # a search looks at its samples together
        parts = []
        for rows in torch.arange(len(x), device=x.device).split(at_once):
            reaches = [Reach(one.to(x.device, torch.float64)[rows], self.norm) for one in eps]
            nodes = path(self.attribution, x[rows].double())
            parts.append(proved_bounds(self.network, nodes, classes[rows], reaches, draws.select(rows), effort))
        return [joined(part) for part in zip(*parts, strict=True)]


def sample_bytes(network: Network, balls: int = 1) -> int:
    """What a sample needs: the Jacobians of all activations at x and over the ball, what is carried past the widest, and M."""
    d, sizes = network.inputs, [network.steps[i].size for i in network.curves]
    widest = max((step.size for step in network.steps), default=d)
    return 8 * (2 * d * sum(sizes) + 6 * d * widest + (4 + balls) * d * d)


def joint_bytes(network: Network) -> int:
    """What the joint form needs beside it: G and R with their factors, and the overlaps of rows for the ranges of z."""
    sizes = [network.steps[i].size for i in network.curves]
    largest = max(2 * network.inputs, sum(sizes[1:]))
    return 24 * largest**2 + sum(4 * size**2 for size in sizes if size <= WIDEST)


def joined(parts: Sequence[ProvedBound]) -> ProvedBound:
    return ProvedBound(
        torch.cat([part.upper for part in parts]),
        torch.cat([part.value for part in parts]),
        tuple(method for part in parts for method in part.method),
        torch.cat([part.rounding for part in parts]),
        torch.cat([part.off for part in parts]),
        trusted=any(part.trusted for part in parts),
    )
