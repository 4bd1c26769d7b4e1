"""The search for multipliers of the joint form: whatever it finds is a bound once it is proved.

It looks at estimates. With a, t, b and e where the form is largest, its derivatives by tau, beta and epsilon vanish at

    tau = |t| / |a|,     beta alpha |a| = |b beta|,     epsilon rho |t| = |e epsilon|,

and in linf that by s at s = v^2. Each step goes a part of the way, for mean squares over the largest Ritz vectors of this step and of those
before it, and the best estimate so far is kept. A few vectors tell little of most neurons: at first each counts as what is usual of its
layer too, and half as much in every step. Where b and e are so cheap that k is near 1 they are made dearer.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.bounds.proved.cases import like, mapped, mixed, put, taken
from attrcert.bounds.proved.form import Block, JointForm, Multipliers, Number, Parts, Vector
from attrcert.bounds.proved.joint import Choice, Whole
from attrcert.bounds.proved.loops import ESTIMATING, TINY, loops
from attrcert.bounds.proved.reach import Reach
from attrcert.linalg.ritz import ritz

VECTORS = 6  # Ritz vectors that multipliers are fitted to
WARMTH = 0.04  # of the largest Ritz value: how far below it a vector still counts
LEAST = 0.02  # share of a layer's mean in every neuron's energy, at the end: at first a few vectors tell little, and it is 1
FIRST, NEXT = 24, 12  # steps of Lanczos, at first and from the vectors before
CAUTION = 1.01  # by which estimates of k are enlarged
RAISES, DEAR, CHEAP = 4, 0.8, 0.6  # how often multipliers are raised, above which k, and to which
SPARED = 0.02  # the least 1 - k that is tried
MUCH = 0.9  # of the best estimate: below it, what was seen before does not count
FAR = 1e6  # from the layer's median, the largest factor of a multiplier at the start
PATIENCE, LITTLE = 4, 1e-3  # steps in which the estimate must fall by this share, or the search ends
HOPELESS = 3.0  # times the bound to beat, after a trial
TRIAL = 3  # steps for each choice of the layers that are turned, before the best is followed
NEARBY = 4.0  # times the least estimate: choices that start higher are not followed


Norms = tuple[dict[int, Vector], dict[int, Vector]]


@dataclass(frozen=True)
class Found:
    """A choice, with the largest Ritz values and vectors: an estimate of what it proves."""

    choice: Choice
    values: Float[Tensor, "b k"]
    vectors: Float[Tensor, "b k n"]

    @property
    def estimate(self) -> Number:
        return self.values[:, 0]


@dataclass(frozen=True)
class Energies:
    """Of a node: mean squares of a, t, b beta and e epsilon."""

    a: dict[int, Vector]
    t: dict[int, Vector]
    b: dict[int, Vector]
    e: dict[int, Vector]


@dataclass(frozen=True)
class Fitting:
    """What the multipliers are fitted to: the nodes' energies and the mean square of v."""

    nodes: tuple[Energies, ...]
    v: Vector


@dataclass(frozen=True)
class Ground:
    """Forms, the norms that energies are measured against, and the balls."""

    whole: Whole
    norms: tuple[Norms, ...]
    reach: Reach

    def measured(self, choice: Choice, vectors: Float[Tensor, "b k n"], steps: int) -> Found:
        """What a choice gives; where some k is too large, b and e are made dearer first."""
        nodes = [_affordable(form, by) for form, by in zip(self.whole.forms, choice.by, strict=True)]
        possible = torch.stack([spared for _, spared in nodes]).amin(dim=0) > SPARED
        spared = tuple(torch.where(possible, spared, 1.0) for _, spared in nodes)
        choice = replace(choice, by=tuple(by for by, _ in nodes), spared=spared)
        values, vectors = ritz(choice.single(self.whole), vectors.sum(dim=1), steps, VECTORS)
        return Found(choice, torch.where(possible[:, None], values, torch.inf), vectors)

    def seen(self, found: Found, floor: Number) -> Fitting:
        """Mean squares over the Ritz vectors that are nearly the largest."""
        values = found.values
        below = (values - values[:, :1]) / (WARMTH * values[:, :1].abs()).clamp_min(TINY)
        weight = torch.softmax(below.nan_to_num(0.0, 0.0, 0.0), dim=1)[:, :, None]
        nodes = []
        for signals, norms in zip(found.choice.signals(self.whole, found.vectors), self.norms, strict=True):
            a, t = (
                {i: _energy(x, weight, floor, norm[i]) for i, x in part.items()}
                for part, norm in zip((signals.a, signals.t), norms, strict=True)
            )
            b, e = ({i: _energy(x, weight, floor, None) for i, x in part.items()} for part in (signals.b, signals.e))
            nodes.append(Energies(a, t, b, e))
        return Fitting(tuple(nodes), _energy(found.vectors.chunk(2, dim=2)[1], weight, floor, None))

    def moved(self, choice: Choice, seen: Fitting, share: Number) -> Choice:
        """On the way to where the derivatives vanish."""
        by = []
        for form, old, energies in zip(self.whole.forms, choice.by, seen.nodes, strict=True):
            tau, left, right = {}, {}, {}
            for i in form.centre:
                tau[i] = _between(old.tau[i], (energies.t[i] / energies.a[i]).sqrt(), share)
                left[i], right[i] = torch.ones_like(tau[i]), torch.ones_like(tau[i])
                if i in form.inner:
                    unsure, loose = (side.radius[i].clamp_min(1e-14) for side in (form.left, form.right))
                    left[i] = _between(old.left[i], (energies.b[i] / energies.a[i]).sqrt() / unsure, share)
                    right[i] = _between(old.right[i], (energies.e[i] / energies.t[i]).sqrt() / loose, share)
            by.append(Multipliers(tau, left, right, old.gamma))
        if self.reach.is_l2:
            return replace(choice, by=tuple(by))
        s = (self.reach.radius[:, None] / choice.shape).square()
        return replace(choice, by=tuple(by), shape=_shape(self.reach, _between(s, seen.v, share)))


@dataclass(frozen=True)
class MultiplierSearch:
    """The best choice so far, what it was fitted to, and the part of the way that the next step goes: each case goes its own way."""

    ground: Ground
    best: Found
    fitted: Fitting
    share: Number
    floor: Number  # share of a layer's mean in every neuron's energy

    @classmethod
    def started(cls, whole: Whole, parts: tuple[Parts, ...], reach: Reach) -> "MultiplierSearch":
        ground = Ground(whole, tuple(part.norms for part in parts), reach)
        b, d = len(reach.radius), parts[0].network.inputs
        radius = reach.radius
        share = radius.new_full((b, d), 1.0 if reach.is_l2 else 1 / d)
        plain = tuple(_starting(norms, radius) for norms in ground.norms)
        start = Choice(plain, (None,) * len(plain), _shape(reach, share))
        seed = torch.randn(1, 2 * d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        values, vectors = ritz(start.single(whole), seed.to(radius).expand(b, -1), FIRST, VECTORS)
        whole_way = floor = torch.ones_like(radius)
        at = ground.seen(Found(start, values, vectors), floor)
        best = ground.measured(ground.moved(start, at, whole_way), vectors, FIRST)
        return cls(ground, best, ground.seen(best, floor), torch.full_like(radius, 0.6), floor)

    def after(self, steps: int) -> "MultiplierSearch":
        """So many steps further."""
        found = self
        for _ in range(steps):
            found = found.stepped()
        return found

    def stepped(self) -> "MultiplierSearch":
        """One more choice, kept where it is better."""
        ground, best, floor = self.ground, self.best, (self.floor / 2).clamp_min(LEAST)
        found = ground.measured(ground.moved(best.choice, self.fitted, self.share), best.vectors, NEXT)
        better = (found.estimate < best.estimate) | best.estimate.isinf()
        anew = better & ~(found.estimate > MUCH * best.estimate)
        part = torch.where(anew, 1.0, torch.where(better, 0.5, 0.3))
        fitted = mapped(
            lambda old, new: (1 - like(part, old)) * old + like(part, old) * new, self.fitted, ground.seen(found, floor)
        )
        share = torch.where(better, (1.2 * self.share).clamp_max(1.0), 0.7 * self.share)
        return MultiplierSearch(ground, mixed(better, found, best), fitted, share, floor)


def searched(parts: tuple[Parts, ...], whole: Whole, reach: Reach, steps: int, rival: Number) -> tuple[Whole, Found]:
    """The best after `steps` steps, with as many turned layers as a trial suggests, case by case.

    `rival` is the bound to beat: a case that stays far above it after a trial goes no further.
    """
    layers, everyone = list(parts[0].q), torch.arange(len(rival), device=rival.device)
    tried = [
        MultiplierSearch.started(_with_turned(whole, parts, layers[:many]), parts, reach)
        for many in range(len(layers))  # the last layer's F is the same everywhere: it need not be turned
    ]
    least = torch.stack([one.best.estimate for one in tried]).amin(dim=0)
    best: MultiplierSearch | None = None
    for one in tried:
        near = (one.best.estimate <= NEARBY * least).nonzero()[:, 0]
        if len(near):
            one = put(one, near, taken(one, near).after(min(TRIAL, steps)))
        rows = everyone if best is None else (one.best.estimate < best.best.estimate).nonzero()[:, 0]
        best = one if best is None else put(best, rows, taken(one, rows))
    assert best is not None
    best = _followed(best, steps - TRIAL, _hopeful(best, rival).nonzero()[:, 0])
    return best.ground.whole, best.best


def _with_turned(whole: Whole, parts: tuple[Parts, ...], layers: list[int]) -> Whole:
    return replace(whole, forms=tuple(part.form(frozenset(layers)) for part in parts))


def _hopeful(search: MultiplierSearch, rival: Number) -> Bool[Tensor, " b"]:
    return ~(search.best.estimate > HOPELESS * rival)


def _followed(search: MultiplierSearch, steps: int, going: Int64[Tensor, " k"]) -> MultiplierSearch:
    """Further steps of some cases, each as long as it is worth while."""
    for done in range(0, steps, PATIENCE):
        if not len(going):
            break
        before = search.best.estimate[going]
        further = taken(search, going).after(min(PATIENCE, steps - done))
        search = put(search, going, further)
        going = going[~(further.best.estimate > (1 - LITTLE) * before)]
    return search


def _affordable(form: JointForm, by: Multipliers) -> tuple[Multipliers, Number]:
    """Multipliers with an affordable k, and 1 - k: estimates."""
    for _ in range(RAISES):
        left, right = (CAUTION * loop.estimate(ESTIMATING) for loop in loops(form, by))
        dear = torch.maximum(left, right) > DEAR
        if not bool(dear.any()):
            break
        dearer = Multipliers(
            by.tau,
            {i: part * (left / CHEAP).clamp_min(1.0)[:, None] for i, part in by.left.items()},
            {i: part * (right / CHEAP).clamp_min(1.0)[:, None] for i, part in by.right.items()},
            by.gamma * (right / left).nan_to_num(1.0).clamp(0.1, 10.0).sqrt(),
        )
        by = mixed(dear, dearer, by)
    return by, 1 - torch.maximum(left, right)


def _starting(norms: tuple[dict[int, Vector], dict[int, Vector]], like: Number) -> Multipliers:
    tau = {}
    for i, a in norms[0].items():
        ratio = (norms[1][i] / a).nan_to_num(0.0, 0.0, 0.0)
        usual = ratio.median(dim=1, keepdim=True).values
        usual = torch.where(usual > 0, usual, ratio.amax(dim=1, keepdim=True)).clamp_min(TINY)
        tau[i] = torch.minimum(torch.maximum(ratio, usual / FAR), usual * FAR)
    none = {i: torch.zeros_like(part) for i, part in tau.items()}
    return Multipliers(tau, none, none, torch.ones_like(like))


def _shape(reach: Reach, share: Vector) -> Vector:
    """What delta is measured in: eps in l2; in linf eps / sqrt(s), sum s = 1, a little larger than that."""
    if reach.is_l2:
        return reach.radius[:, None].expand_as(share)
    return reach.radius[:, None] * (share.sum(dim=1, keepdim=True) / share).sqrt() * (1 + 1e-12)


def _energy(block: Block, weight: Tensor, floor: Number, norm: Vector | None) -> Vector:
    found = (weight * block.square()).sum(dim=1)
    usual = torch.ones_like(found) if norm is None else norm.square()
    level = found.sum(dim=1, keepdim=True) / usual.sum(dim=1, keepdim=True).clamp_min(TINY)
    return found + floor[:, None] * level * usual + TINY


def _between(old: Vector, new: Vector, share: Number) -> Vector:
    new, part = new.clamp(1e-30, 1e30), share[:, None]
    return torch.where(old > 0, torch.exp((1 - part) * old.clamp_min(1e-30).log() + part * new.log()), new)
