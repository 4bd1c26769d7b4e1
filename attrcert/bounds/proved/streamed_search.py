"""The search for multipliers of the streamed form: whatever it finds is a bound once it is proved.

It looks at estimates. With a, U u and B delta where the form is largest its derivatives by tau, turn and eta vanish at

    tau = |t| / |a|,     turn = |t| / |U u|,     eta = |e| / |B delta|,     |t| = |B delta| + |e|,

and in linf that by s at s = v^2. Each step goes a part of the way, for mean squares over the largest Ritz vectors.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.streamed_form import Fractions, Pulled, StreamedForm
from attrcert.bounds.proved.sweeps import Block, Sweeps
from attrcert.linalg.ritz import ritz

VECTORS = 6  # Ritz vectors that multipliers are fitted to
WARMTH = 0.04  # of the largest Ritz value: how far below it a vector still counts
LEAST = 0.02  # share of a layer's mean in every neuron's energy
FIRST, NEXT = 24, 12  # steps of Lanczos, at first and from the vectors before
SHARE = 0.7  # of the way that a step goes
FAR = 1e6  # from the layer's median, the largest factor of a multiplier
STEPS, LITTLE = 8, 2e-3  # at most so many, and as long as one gains this share
TINY = 1e-150


@dataclass(frozen=True)
class Node:
    """Of a path, over one ball: it moves by `step` delta and has this weight."""

    sweeps: Sweeps
    form: StreamedForm
    weight: float
    step: float


@dataclass(frozen=True)
class StreamedSum:
    """Nodes, the factor of the attribution's rows and what stands beside them (None: saliency)."""

    nodes: tuple[Node, ...]
    rows: Float[Tensor, "1 d"] | None
    mean: Float[Tensor, "1 d"] | None

    def given(self, x: Block, shape: Tensor, node: Node) -> tuple[Block, Block]:
        u, v = x.chunk(2, dim=2)
        u = u if self.rows is None else u * self.rows[:, None]
        return (u if node.weight >= 0 else -u), node.step * shape[:, None] * v

    def apply(self, x: Block, choice: "StreamedChoice") -> tuple[Block, list[Pulled]]:
        """The form of all nodes times vectors (u, v)."""
        shape, signals = choice.shape, []
        total = self.beside(x, shape)
        for node, by in zip(self.nodes, choice.by, strict=True):
            found = node.form.apply(node.sweeps, *self.given(x, shape, node), node.form.weights(by))
            left, right = node.weight * found.image[0], abs(node.weight) * node.step * shape[:, None] * found.image[1]
            total = total + torch.cat([left if self.rows is None else left * self.rows[:, None], right], dim=2)
            signals.append(found)
        return total, signals

    def beside(self, x: Block, shape: Tensor) -> Block:
        if self.mean is None:
            return torch.zeros_like(x)
        m = (self.mean * shape)[:, None]
        u, v = x.chunk(2, dim=2)
        return torch.cat([m * v, m * u], dim=2)

    def constant(self, choice: "StreamedChoice") -> float:
        parts = zip(self.nodes, choice.by, strict=True)
        return sum(abs(node.weight) * node.form.weights(by).constant / 2 for node, by in parts)


@dataclass(frozen=True)
class StreamedChoice:
    """Multipliers of every node, and what delta is in units of; `estimate` is what it proves, about, `vectors` the largest Ritz vectors."""

    by: tuple[Fractions, ...]
    shape: Float[Tensor, "1 d"]
    estimate: float = float("inf")
    values: Float[Tensor, "1 k"] | None = None
    vectors: Float[Tensor, "1 k n"] | None = None


def searched(whole: StreamedSum, reach: Reach, effort: int) -> StreamedChoice:
    """The best choice after some steps."""
    best = _measured(whole, _starting(whole, reach), None)
    latest = best
    for _ in range(min(effort, STEPS)):
        latest = _measured(whole, _moved(whole, latest, reach), latest)
        gain = best.estimate - latest.estimate
        best = latest if latest.estimate < best.estimate else best
        if not gain > LITTLE * best.estimate:
            break
    return best


def _starting(whole: StreamedSum, reach: Reach) -> StreamedChoice:
    d = whole.nodes[0].sweeps.network.inputs
    share = reach.radius.new_full((1, d), 1.0 if reach.is_l2 else 1 / d)
    shape, by = _shape(reach, share), []
    for node in whole.nodes:
        tau, turn, eta = {}, {}, {}
        for i, layer in node.form.layers.items():
            usual = node.step * shape.mean() * torch.ones_like(layer.apart)
            known, rows = layer.moved.rows, layer.bent.rows
            tau[i] = usual.clamp_min(TINY)
            turn[i] = _near(usual * known / rows)
            eta[i] = _near(layer.usual / (usual * known))
        by.append(Fractions(tau, turn, eta))
    return StreamedChoice(tuple(by), shape)


def _measured(whole: StreamedSum, choice: StreamedChoice, before: StreamedChoice | None) -> StreamedChoice:
    if before is None or before.vectors is None:
        rng = torch.Generator().manual_seed(0)
        first = torch.randn(1, 2 * choice.shape.shape[1], generator=rng, dtype=torch.float64).to(choice.shape)
        steps = FIRST
    else:
        first, steps = before.vectors.sum(dim=1), NEXT
    values, vectors = ritz(lambda x: whole.apply(x[:, None], choice)[0][:, 0], first, steps, VECTORS)
    return replace(choice, estimate=float(values[0, 0]) + whole.constant(choice), values=values, vectors=vectors)


def _moved(whole: StreamedSum, choice: StreamedChoice, reach: Reach) -> StreamedChoice:
    """A part of the way to where the derivatives vanish."""
    values, vectors = choice.values, choice.vectors
    assert values is not None
    assert vectors is not None
    below = (values - values[:, :1]) / (WARMTH * values[:, :1].abs()).clamp_min(TINY)
    weight = (
        2 * torch.softmax(below.nan_to_num(0.0, 0.0, 0.0), dim=1)[:, :, None]
    )  # |u| = |v| = 1 has |u|^2 + |v|^2 = 2
    _, signals = whole.apply(vectors, choice)
    by = []
    for node, old, found in zip(whole.nodes, choice.by, signals, strict=True):
        tau, turn, eta = dict(old.tau), dict(old.turn), dict(old.eta)
        for i, layer in node.form.layers.items():
            linear = _energy(found.t[i], weight, layer.moved.rows).sqrt()
            t = linear + layer.usual
            tau[i] = _between(old.tau[i], t / _energy(found.a[i], weight, layer.moved.rows).sqrt())
            eta[i] = _between(old.eta[i], layer.usual / linear)
            if i in found.turned:
                turn[i] = _between(old.turn[i], t / _energy(found.turned[i], weight, layer.bent.rows).sqrt())
        by.append(Fractions(tau, turn, eta))
    if reach.is_l2:
        return replace(choice, by=tuple(by))
    s = (reach.radius[:, None] / choice.shape).square()
    v = _energy(vectors.chunk(2, dim=2)[1], weight, torch.ones_like(s[0]))
    return replace(choice, by=tuple(by), shape=_shape(reach, _between(s, v / v.sum())))


def _shape(reach: Reach, share: Tensor) -> Tensor:
    """What delta is measured in: eps in l2; in linf eps / sqrt(s), sum s = 1, a little larger than that."""
    if reach.is_l2:
        return reach.radius[:, None].expand_as(share)
    return reach.radius[:, None] * (share.sum(dim=1, keepdim=True) / share).sqrt() * (1 + 1e-12)


def _energy(block: Block, weight: Tensor, norm: Float[Tensor, " n"]) -> Tensor:
    found = (weight * block.double().square()).sum(dim=1)
    usual = norm.square()
    return found + LEAST * found.sum() / usual.sum().clamp_min(TINY) * usual + TINY


def _between(old: Tensor, new: Tensor) -> Tensor:
    return torch.exp((1 - SHARE) * old.log() + SHARE * _near(new).log())


def _near(new: Tensor) -> Tensor:
    """Positive, and not far from the layer's median."""
    some = new[new.isfinite() & (new > 0)]
    usual = some.median().clamp(1e-20, 1e20) if len(some) else new.new_ones(())
    return torch.minimum(torch.maximum(new.nan_to_num(0.0, torch.inf, 0.0), usual / FAR), usual * FAR)
