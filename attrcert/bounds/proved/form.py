"""max u^T (grad f(x + delta) - grad f(x)) over unit u and a ball, by one quadratic form for all layers, whatever its multipliers.

Write t_l = D z_l and x' = x + delta. The product rule, unrolled from the output to the input, is an identity whichever factor of each
layer is taken at x':

    D grad f = sum_l J_l^T diag(kappa_l F_l) t_l,                                                                            (3)

J_l = dz_l/dx with the slopes of x' at the layers that are `turned` and those of x elsewhere; F_l is taken at x where the layer is turned
and at x' elsewhere; kappa_l is the secant of s'. So a layer needs a range of F or an error of J, whichever is smaller. With a = J_l u,

    a_l = J0_l u + sum_m N_lm b_m,  |b_m| <= alpha_m |a_m|,      t_l = C_l delta + sum_m N'_lm e_m,  |e_m| <= rho_m |t_m|,

J0 and N with the slopes' centres, C and N' with those of the secants, and kappa F = c + r theta, |theta| <= 1. For all positive tau, beta
and epsilon

    u^T D grad f <= sum a c t + sum r (tau a^2 + t^2 / tau) / 2 + sum beta (alpha^2 a^2 - b^2) / 2
                    + sum epsilon (rho^2 t^2 - e^2) / 2,

a quadratic form of (u, delta, b, e). b and e are maximised away. With w = r tau + beta alpha^2, w' = r / tau + epsilon rho^2 and any
gamma > 0 their own part of it is

    K = sum (w (N b)^2 + 2 c (N b) (N' e) + w' (N' e)^2) / 2 <= (sum (w + |c| gamma) (N b)^2 + sum (w' + |c| / gamma) (N' e)^2) / 2
      <= k sum (beta b^2 + epsilon e^2) / 2.

If k < 1, the maximum over (b, e) of <y, (b, e)> - (b, e) (L - K) (b, e) / 2, L = diag(beta, epsilon), is y (L - K)^-1 y / 2, and as
1 / (1 - x) = 1 + x + x^2 / (1 - x), for X = L^-1/2 K L^-1/2 <= k,

    (1 - X)^-1 <= 1 + X + X^2 / (1 - k).

What is left is a form G of (u, delta) alone: u^T D grad f <= lambda_max(G) (|u|^2 + |v|^2) / 2 with delta = `shape` v; in l2 `shape` is
eps, in linf any eps / sqrt(s) with sum s = 1, as |delta|_inf <= eps has sum s delta^2 <= eps^2.

Sweeps forwards and back apply G: no Jacobian is held.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import Range
from attrcert.bounds.proved.network import Carried, Network
from attrcert.bounds.proved.secant import Change

Vector = Float[Tensor, "b _"]
Block = Float[Tensor, "_ _ _"]  # k vectors of each sample, or of all
Number = Float[Tensor, " b"]


@dataclass(frozen=True)
class Slopes:
    """The slopes' centres and radii by which one of a and t is carried."""

    centre: dict[int, Vector]
    radius: dict[int, Vector]


@dataclass(frozen=True)
class Multipliers:
    """tau, beta and epsilon of every activation, and gamma as a multiple of tau."""

    tau: dict[int, Vector]
    left: dict[int, Vector]
    right: dict[int, Vector]
    gamma: Number


@dataclass(frozen=True)
class Signals:
    """What the form has for some u, delta, b and e: a, t, and its derivatives by b, e, u and delta, but for what b and e cost."""

    a: dict[int, Block]
    t: dict[int, Block]
    b: dict[int, Block]
    e: dict[int, Block]
    image: tuple[Block, Block]


@dataclass(frozen=True)
class JointForm:
    """Of a point and a ball, from the ranges of a change; `centre` and `radius` are c and r, `inner` the activations before others."""

    network: Network
    left: Slopes
    right: Slopes
    centre: dict[int, Vector]
    radius: dict[int, Vector]
    inner: frozenset[int]

    def weights(self, by: Multipliers) -> tuple[dict[int, Vector], dict[int, Vector]]:
        """w and w'."""
        w, onward = {}, {}
        for i, r in self.radius.items():
            w[i], onward[i] = r * by.tau[i], r / by.tau[i]
            if i in self.inner:
                w[i] = w[i] + by.left[i] * self.left.radius[i].square()
                onward[i] = onward[i] + by.right[i] * self.right.radius[i].square()
        return w, onward

    def apply(self, u: Block, delta: Block, by: Multipliers, spared: Number | None) -> Signals:
        """Where b and e make the form largest, or so large that it bounds it; `spared` is 1 - k, None for b = e = 0."""
        found = self.at((u, delta), ({}, {}), by)
        for share in () if spared is None else (spared, torch.ones_like(spared), torch.ones_like(spared)):
            found = self.at((u, delta), lent(found, by, share), by)
        return found

    def at(self, given: tuple[Block, Block], lent: Sequence[dict[int, Block]], by: Multipliers) -> Signals:
        """With b and e given."""
        a, t = (self.pushed(*part) for part in zip(given, (self.left, self.right), lent, strict=True))
        b: dict[int, Block] = {}
        e: dict[int, Block] = {}
        image = tuple(
            self.pulled({i: w[i][:, None] * mine[i] + self.centre[i][:, None] * other[i] for i in mine}, side, found)
            for w, mine, other, side, found in zip(
                self.weights(by), (a, t), (t, a), (self.left, self.right), (b, e), strict=True
            )
        )
        return Signals(a, t, b, e, (image[0], image[1]))

    def pushed(self, given: Block, side: Slopes, added: dict[int, Block]) -> dict[int, Block]:
        """The vectors at every activation's input; `added` goes to the results."""
        found: dict[int, Block] = {}

        def bend(i: int, moved: Tensor) -> Tensor:
            found[i] = moved
            on = side.centre[i][:, None] * moved
            return on + added[i] if i in added else on

        self.network.push(given, bend)
        return found

    def pulled(self, given: dict[int, Block], side: Slopes, found: dict[int, Block]) -> Block:
        """The transpose: what was given at the activations' inputs, back at the input, and in `found` at the inner results."""

        def bend(i: int, carried: Carried | None) -> Carried:
            if carried is None:
                return Carried(given[i])
            if i in self.inner:
                found[i] = carried.centre
            return Carried(given[i] + side.centre[i][:, None] * carried.centre)

        pulled = self.network.pull(len(self.network.steps) - 1, None, bend)
        assert pulled is not None
        return pulled.centre

    def magnitude(self) -> "JointForm":
        """The form with the moduli of everything."""
        left, right = (
            Slopes({i: part.abs() for i, part in side.centre.items()}, side.radius) for side in (self.left, self.right)
        )
        centre = {i: part.abs() for i, part in self.centre.items()}
        return replace(self, network=self.network.magnitude, left=left, right=right, centre=centre)


def lent(found: Signals, by: Multipliers, share: Number) -> tuple[dict[int, Block], dict[int, Block]]:
    """b and e from the derivatives: L^-1 times them, over a share."""
    b, e = (
        {i: part / (share[:, None] * price[i])[:, None] for i, part in derivative.items()}
        for derivative, price in ((found.b, by.left), (found.e, by.right))
    )
    return b, e


@dataclass(frozen=True)
class Parts:
    """What forms of a change are made of, whichever layers are turned; `norms` are those of the rows of dz/dx, and bounds of |D z|."""

    network: Network
    slopes: dict[int, tuple[Range, Range]]
    secants: dict[int, Range]
    q: dict[int, tuple[Range, Range]]
    norms: tuple[dict[int, Vector], dict[int, Vector]]
    unit: float

    def form(self, turned: frozenset[int]) -> JointForm:
        slopes = {i: pair[i in turned] for i, pair in self.slopes.items()}
        q = {i: pair[i in turned] for i, pair in self.q.items()}
        left, right = (
            Slopes({i: part.centre for i, part in ranges.items()}, {i: part.radius for i, part in ranges.items()})
            for ranges in (slopes, self.secants)
        )
        centre, radius = {i: part.centre for i, part in q.items()}, {i: part.radius for i, part in q.items()}
        return JointForm(self.network, left, right, centre, radius, inner(self.network))


def parts(change: Change) -> Parts:
    point, layers = change.point, change.layers
    slopes: dict[int, tuple[Range, Range]] = {}
    q: dict[int, tuple[Range, Range]] = {}
    rows: dict[int, Vector] = {}
    for i, layer in layers.items():
        at, by = point.slope[i], point.doubt.slope[i]
        known, off = point.F[i], point.doubt.F[i]
        slopes[i] = Range(at - by, at + by), layer.slopes
        q[i] = change.q[i], layer.kappa * Range(known - off, known + off)
        rows[i] = torch.linalg.vector_norm(point.B[i], dim=2).expand_as(known)
    norms = rows, {i: layer.each for i, layer in layers.items()}
    return Parts(point.network, slopes, {i: layer.sigma for i, layer in layers.items()}, q, norms, point.doubt.unit)


def inner(network: Network) -> frozenset[int]:
    """The activations that others come after."""
    before: list[frozenset[int]] = []
    for i, step in enumerate(network.steps):
        reached = frozenset().union(*(before[j] for j in step.inputs))
        before.append(reached | {i} if step.curve is not None else reached)
    return frozenset().union(*(before[network.before(i)] for i in network.curves))
