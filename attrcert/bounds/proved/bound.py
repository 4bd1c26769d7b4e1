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
from functools import cached_property, partial

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.bounds.proved.cases import joined, put, taken
from attrcert.bounds.proved.form import Parts, parts
from attrcert.bounds.proved.joint import Whole, proved
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.nodes import Path, path
from attrcert.bounds.proved.point import at_points
from attrcert.bounds.proved.reach import Reach, length
from attrcert.bounds.proved.search import Found, searched
from attrcert.bounds.proved.secant import Change, change
from attrcert.bounds.proved.trust import WIDEST
from attrcert.draws import Draws
from attrcert.types import Attribution
from attrcert.vocabulary import Norm

SLACK = 1e-9
LITTLE = 0.01  # share of errors in the secant bound: as the norm of M less the errors is reached, l2 gains about twice that at most
TOGETHER = 8  # samples whose multipliers are searched for together
METHODS = "secant", "interval", "joint"


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

    def put(self, rows: Int64[Tensor, " k"], new: "ProvedBound") -> "ProvedBound":
        """With new bounds of some samples."""
        names = dict(zip(rows.tolist(), new.method, strict=True))
        method = tuple(names.get(i, mine) for i, mine in enumerate(self.method))
        both = put(replace(self, method=()), rows, replace(new, method=()))
        return replace(both, method=method)

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
    draws: Draws
    M: Float[Tensor, "b d d"]
    least: Float[Tensor, " b"]
    each: Float[Tensor, "b d"]
    rounding: Float[Tensor, " b"]
    off: Float[Tensor, "b d"]
    mean: Float[Tensor, "b d"]
    D: Float[Tensor, "b d"] | None
    errors: list[Callable[[], Float[Tensor, " b"]]] = field(default_factory=list)
    nodes: list[tuple[Parts, float, float]] = field(default_factory=list)

    @cached_property
    def A(self) -> Float[Tensor, "b d d"]:
        """What the change is of first order."""
        return self.M if self.D is None else torch.diag_embed(self.mean) + self.D[:, :, None] * self.M

    @cached_property
    def second(self) -> Float[Tensor, " b"]:
        """The part of second order."""
        if self.D is None:
            return torch.zeros_like(self.least)
        return self.reach.entries(self.each) + self.reach.entries(self.off)

    @cached_property
    def boxes(self) -> Float[Tensor, " b"]:
        """The bound entry by entry."""
        if self.D is None:
            return length(self.each)
        return length(self.D * self.each) + self.reach.entries(self.mean) + self.second

    @cached_property
    def enough(self) -> Float[Tensor, " b"]:
        """At most the secant bound, but for the part of second order."""
        return self.reach.least(self.A) + self.least

    @property
    def loose(self) -> bool:
        """Whether a joint form may be worth a search."""
        return bool(self.nodes) and bool((self.least > LITTLE * self.enough).any())

    def bound(self, best: tuple[Whole, Found] | None, *, trusted: bool) -> ProvedBound:
        """The smallest of all; what cannot be it is not proved."""
        secant = joint = torch.full_like(self.second, torch.inf)
        if best is not None:
            whole, found = best
            if bool((found.estimate > self.enough).any()):
                secant = self.secant()
            if bool((found.estimate + self.second < torch.minimum(secant, self.boxes)).any()):
                unit = max(part.unit for part, _, _ in self.nodes)
                joint = proved(whole, found.choice, found.vectors[:, 0], unit) + self.second
        if bool((secant.isinf() & ~(joint < self.enough)).any()):
            secant = self.secant()
        uppers = [part.nan_to_num(torch.inf, torch.inf) for part in (secant, self.boxes, joint)]
        upper, smallest = torch.stack(uppers).min(dim=0)
        method = tuple(METHODS[i] for i in smallest.tolist())
        value, off = (part if self.D is None else self.D * part for part in (self.mean, self.off))
        return ProvedBound(upper * (1 + SLACK), value, method, self.rounding, length(off), trusted=trusted)

    def secant(self) -> Float[Tensor, " b"]:
        """What the norm of A and the errors prove."""
        errors = sum((errors() for errors in self.errors), torch.zeros_like(self.least))
        return self.reach.whole(self.A, self.draws) + errors + self.second


def _errors(moved: Change, weight: float, difference: Float[Tensor, "b d"] | None) -> Float[Tensor, " b"]:
    return weight * moved.errors(difference)


def summed(
    network: Network,
    nodes: Path,
    classes: Int64[Tensor, " b"],
    reaches: Sequence[Reach],
    draws: Draws,
    effort: int = 0,
) -> list[Sums]:
    """Of each sample, over each of several balls."""
    x = nodes.points[0].flatten(1)
    none, nothing = torch.zeros_like(x[:, 0]), torch.zeros_like(x)
    M, mean = torch.diag_embed(nothing), torch.zeros_like(x)
    sums = [Sums(reach, draws, M.clone(), none, nothing, none, nothing, mean, nodes.difference) for reach in reaches]
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
            one.each = one.each + w * moved.each
            one.rounding = torch.maximum(one.rounding, point.doubt.share)
            one.off = one.off + abs(w) * point.doubt.gradient
    return sums


def bounds_of(cases: Sequence[Sums], effort: int) -> list[ProvedBound]:
    """Of single samples, each in one ball: the multipliers of all joint forms are searched for together."""
    loose = [case for case in cases if case.loose]
    found: dict[int, tuple[Whole, Found]] = {}
    if loose:
        _, weights, steps = zip(*loose[0].nodes, strict=True)
        rows = joined([(case.D, None if case.D is None else case.mean) for case in loose])
        reach, rival = joined([case.reach for case in loose]), torch.cat([case.boxes for case in loose])
        parts = joined([tuple(part for part, _, _ in case.nodes) for case in loose])
        best = searched(parts, Whole((), weights, steps, *rows), reach, effort, rival)
        found = {id(case): taken(best, torch.tensor([k], device=rival.device)) for k, case in enumerate(loose)}
    return [case.bound(found.get(id(case)), trusted=effort > 0) for case in cases]


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
        usual, more = sample_bytes(self.network, len(eps)), joint_bytes(self.network)
        effort = self.effort if usual + more <= self.memory else 0
        at_once = min(TOGETHER, self.memory // (usual + more)) if effort else max(1, self.memory // usual)
        parts = []
        for rows in torch.arange(len(x), device=x.device).split(at_once):
            groups = rows.split(1) if effort else [rows]  # ranges look at one sample at a time
            sums = [
                self._summed(x[group], classes[group], [one[group] for one in eps], draws.select(group), effort)
                for group in groups
            ]
            flat = [case for group in sums for case in group]
            found = bounds_of(flat, effort)
            parts.append([gathered(found[k :: len(eps)]) for k in range(len(eps))])
        return [gathered(part) for part in zip(*parts, strict=True)]

    def _summed(
        self,
        x: Float[Tensor, "b *shape"],
        classes: Int64[Tensor, " b"],
        eps: Sequence[Float[Tensor, " b"]],
        draws: Draws,
        effort: int,
    ) -> list[Sums]:
        reaches = [Reach(one.to(x.device, torch.float64), self.norm) for one in eps]
        return summed(self.network, path(self.attribution, x.double()), classes, reaches, draws, effort)


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


def gathered(parts: Sequence[ProvedBound]) -> ProvedBound:
    return ProvedBound(
        torch.cat([part.upper for part in parts]),
        torch.cat([part.value for part in parts]),
        tuple(method for part in parts for method in part.method),
        torch.cat([part.rounding for part in parts]),
        torch.cat([part.off for part in parts]),
        trusted=any(part.trusted for part in parts),
    )
