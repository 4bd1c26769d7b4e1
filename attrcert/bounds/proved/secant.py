"""max |grad f(x + delta) - grad f(x)| over a ball, from secants: a bound for every delta, close where the ball is small.

Let a_l = s(z_l) be the activations of f, z_l affine in x and in earlier a_m. Write D for a change from x to x' = x + delta. Then
D a_l = sigma_l D z_l with sigma_l a secant of s, and D s'(z_l) = kappa_l D z_l with kappa_l a secant of s'. By the product rule with the
slope at x and the sensitivity F_l = df/da_l at x',

    D (s'(z_l) F_l) = kappa_l F_l(x') D z_l + s'(z_l(x)) D F_l,

and unrolling it from the output to the input,

    D grad f = sum_l B_l^T diag(kappa_l F_l(x')) D z_l,        B_l = dz_l/dx at x, exactly.                            (1)

Nothing is dropped: (1) is an identity. What is not known are sigma_l, kappa_l and F_l(x'), and each lies in an interval:

- D z_l = C_l delta + sum_{m<l} N_lm e_m with C_l, N_lm the Jacobians at the centres of the secants sigma, and
  |e_m| <= rad(sigma_m) |D z_m|. Row by row this bounds |D z_l| by r_l, and so the secants of layer l (forward).
- D F_l obeys (1) from layer l on: D F_l = U_l delta + errors, which bounds F_l(x') (backward), intersected with interval arithmetic.
- q_l = kappa_l F_l(x') then lies in an interval, and with its centres (1) is a matrix: D grad f = M delta + errors.

The errors are sums of B_l^T (q_l - centre) D z_l and R_m^T e_m, R_m the Jacobian from e_m to the result. Each is bounded by
Cauchy-Schwarz with weights, |sum_j u_j w_j v_j| <= |sqrt(w) u| |sqrt(w) v|, by norms that are proved, or row by row.

z, s'(z), F and the products of matrices are known up to rounding (`rounding`). Secants and F are taken over all that they may be; the slope
at x, off by ds, adds ds D F_l to (1); products with B, C and what follows from them are off by a share of moduli (`paths`). The last two
are carried back to the input entry by entry (`lost`).

As eps -> 0 all radii vanish and M -> H(x): in l2 the bound tends to xi_max eps, in linf to the scaled bound. Without activations
it is 0.

Departures: MATH 12 integrates a bound K(r) of the Hessian's norm over radii. Here one side of every product is exact, and secants
from x are half as wide as the ranges of derivatives: on third-party networks the bound is 1.5 to 4 times smaller at eps = 0.1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import Range, bends, secants, slopes, steepest
from attrcert.bounds.proved.network import Carried
from attrcert.bounds.proved.paths import Paths
from attrcert.bounds.proved.point import Point, rows, unit_rows
from attrcert.bounds.proved.reach import Reach, length
from attrcert.bounds.proved.trust import Trust
from attrcert.linalg.proofs import gram_least, gram_norm, times

GramNorm = Callable[..., Float[Tensor, " b"]]


@dataclass(frozen=True)
class Layer:
    """What holds of an activation over the ball: D z = C delta + e with |e| <= error, |D z| <= each."""

    C: Float[Tensor, "c n d"]
    error: Float[Tensor, "b n"]
    each: Float[Tensor, "b n"]
    sigma: Range
    kappa: Range
    slopes: Range
    together: Float[Tensor, " b"]  # at least |sqrt(rad(sigma)) D z|_2
    rounded: Float[Tensor, "b n"]  # the part of the error that is rounding
    passed: Float[Tensor, "b n"]  # what rounding before z takes of a, for rows that begin behind it


@dataclass(frozen=True)
class Change:
    """D grad f = M delta + errors over the ball; `each` bounds its entries, `lost` what rounding takes of them."""

    point: Point
    reach: Reach
    layers: dict[int, Layer]
    q: dict[int, Range]
    M: Float[Tensor, "b d d"]
    each: Float[Tensor, "b d"]
    lost: Float[Tensor, "b d"]

    def errors(self, scale: Float[Tensor, "b d"] | None) -> Float[Tensor, " b"]:
        """At least |scale * errors|_2."""
        return self._errors(scale, gram_norm)

    def least_errors(self, scale: Float[Tensor, "b d"] | None) -> Float[Tensor, " b"]:
        """At most that, and cheap."""
        return self._errors(scale, gram_least)

    def _errors(self, scale: Float[Tensor, "b d"] | None, by: GramNorm) -> Float[Tensor, " b"]:
        total = self.reach.radius.new_zeros(len(self.reach.radius))
        lost = self.lost

        def add(A: Float[Tensor, "c n d"], weights: Tensor, each: Tensor, norm: Tensor, together: Tensor) -> None:
            """|scale A^T v|_2 for |v| <= weights |D z|; `norm` is that of sqrt(weights) A scale."""
            nonlocal total
            apart = (weights * each * (A if scale is None else A * scale[:, None]).norm(dim=2)).sum(dim=1)
            total = total + torch.minimum(norm * together, apart)

        def onwards(i: int, carried: Carried | None) -> Carried | None:
            nonlocal lost
            layer, B, q = self.layers[i], self.point.B[i], self.q[i]
            norm = by(B, q.radius, scale)
            known: Tensor | None = norm
            if scale is not None or layer.C is not B:
                known = by(layer.C, q.radius) if self.reach.is_l2 else None
            together = self.reach.weighted(layer.C, q.radius, layer.error, layer.each, norm=known)
            add(B, q.radius, layer.each, norm, together)
            centre = q.centre[:, None] * B.mT
            if carried is not None:
                R, spread = carried.centre.mT, layer.sigma.radius
                near = self.point.doubt.unit * layer.sigma.centre.abs() * self.point.doubt.near[i]
                lost = lost + times(carried.centre.abs(), near)
                add(R, spread, layer.each, by(R, spread, scale), layer.together)
                centre = centre + layer.sigma.centre[:, None] * carried.centre
            return Carried(centre)

        network = self.point.network
        network.pull(len(network.steps) - 1, None, onwards)
        return total + length(lost if scale is None else lost * scale)


def change(point: Point, reach: Reach, *, trusted: bool = False) -> Change:
    """The change of the gradient over the ball around each point; `trusted`: with the ranges of `trust` where they are narrower."""
    layers: dict[int, Layer] = {}
    point = replace(point, doubt=replace(point.doubt, paths={}, near={}))
    paths = Paths(point.network, point.z, reach.radius)
    trust = Trust(point, reach) if trusted else None
    for i in point.network.curves:
        point.doubt.paths[i], point.doubt.near[i] = paths.before(i)
        layers[i] = _forward(point, i, reach, layers, trust)
        paths.learn(i, layers[i].each, layers[i].error, point.doubt.z[i])
    F, by_intervals = _intervals(point, layers)
    q: dict[int, Range] = {}
    turned: dict[int, Tensor] = {}  # at least |D F|

    def backwards(i: int, carried: Carried | None) -> Carried | None:
        layer, known = layers[i], point.F[i]
        away = torch.zeros_like(known) if carried is None or carried.radius is None else carried.radius
        turned[i] = moved = away if carried is None else away + reach.each_row(carried.centre.mT)
        near = Range(known - moved, known + moved).meet(F[i]).join(Range(known, known))  # x itself, despite rounding
        q[i] = layer.kappa * near.widened(point.doubt.F[i])
        centre = q[i].centre[:, None] * layer.C.mT
        if carried is not None:
            centre = centre + point.slope[i][:, None] * carried.centre
        radius = q[i].centre.abs() * layer.error + q[i].radius * layer.each + point.slope[i].abs() * away
        rounded = q[i].centre.abs() * (layer.each + layer.error) + point.slope[i].abs() * moved
        radius = radius + point.doubt.slope[i] * moved + point.doubt.unit * rounded
        return Carried(centre, radius)

    pulled = point.network.pull(len(point.network.steps) - 1, None, backwards)
    if pulled is None or pulled.radius is None:  # no activation: grad f is constant
        nothing = torch.zeros_like(point.gradient)
        return Change(point, reach, layers, q, torch.diag_embed(nothing), nothing, nothing)
    M = pulled.centre.mT.expand(len(point.gradient), -1, -1)
    lost = _lost(point, layers, q, turned)
    each = torch.minimum(reach.each_row(M) + pulled.radius + lost, by_intervals)
    return Change(point, reach, layers, q, M, each, lost)


def _lost(
    point: Point, layers: dict[int, Layer], q: dict[int, Range], turned: dict[int, Tensor]
) -> Float[Tensor, "b d"]:
    """What rounding takes of each entry of the gradient's change.

    What is off at z by `here` is carried back by B. `handed` is what later activations hand on through moduli: the products up to the
    next activation are off by `unit` times that. B is off itself, by `unit` times its paths.
    """
    doubt = point.doubt
    total = torch.zeros_like(point.gradient)

    def rounded(i: int, carried: Carried | None) -> Carried | None:
        nonlocal total
        layer, slope = layers[i], point.slope[i].abs()
        handed = torch.zeros_like(slope) if carried is None or carried.radius is None else carried.radius
        onwards = q[i].largest * (layer.each + layer.error) + slope * turned[i]
        here = q[i].largest * (layer.rounded + doubt.unit * doubt.near[i]) + doubt.slope[i] * turned[i]
        here = here + doubt.unit * (onwards + (slope + doubt.slope[i]) * handed)
        beside = here + q[i].radius * layer.each + q[i].centre.abs() * layer.error
        total = total + times(point.B[i].abs().mT, here)
        total = total + doubt.unit * (doubt.paths[i] * beside).sum(dim=1, keepdim=True)
        return Carried(torch.zeros_like(onwards)[:, None], onwards)

    network = point.network
    pulled = network.pull(len(network.steps) - 1, None, rounded)
    assert pulled is not None
    assert pulled.radius is not None
    return total + doubt.unit * pulled.radius


def _forward(point: Point, i: int, reach: Reach, layers: dict[int, Layer], trust: Trust | None) -> Layer:
    """Layer i from the layers before it."""
    network, z = point.network, point.z[i]
    parts, errors, blurs, bent = [], [], [], False
    for units in unit_rows(network, i, len(z), like=z):
        off, blur = z.new_zeros(2, len(z), len(units))

        def centred(m: int, carried: Carried | None) -> Carried | None:
            nonlocal off, blur, bent
            if carried is None:
                return None
            bent = True
            N, layer = carried.centre, layers[m]
            moduli = N.abs()
            apart = times(moduli, layer.sigma.radius * layer.each)
            together = times(N.square(), layer.sigma.radius).sqrt() * layer.together[:, None]
            off, blur = off + torch.minimum(apart, together), blur + times(moduli, layer.passed)
            return Carried(layer.sigma.centre[:, None] * N)

        parts.append(rows(network, i, units, centred))
        errors.append(off)
        blurs.append(blur)
    # without an activation before it, C is B
    C, rounding = torch.cat(parts, dim=1) if bent else point.B[i], point.doubt.unit * point.doubt.near[i]
    rounded = torch.cat(blurs, dim=1) + rounding
    error = torch.cat(errors, dim=1) + rounded
    each = reach.each_row(C) + error
    if trust is not None:
        moved, apart = trust.moved(i)
        each = torch.minimum(each, moved)
        trust.learn(i, each, apart)
    curve, off = network.curve(i), point.doubt.z[i]
    sigma = secants(curve, z, each, off)
    together = reach.weighted(C, sigma.radius, error, each)
    kappa, passed = bends(curve, z, each, off), steepest(curve, z, each + off) * rounding
    return Layer(C, error, each, sigma, kappa, slopes(curve, z, each, off), together, rounded, passed)


def _intervals(point: Point, layers: dict[int, Layer]) -> tuple[dict[int, Range], Float[Tensor, "b d"]]:
    """F_l and |D grad f| over the ball by interval arithmetic alone: better where the ball is large."""
    F = {i: Range(known, known) for i, known in point.F.items()}

    def boxed(i: int, carried: Carried | None) -> Carried | None:
        if carried is None or carried.radius is None:
            return None
        centre = carried.centre[:, 0]
        F[i] = Range(centre - carried.radius, centre + carried.radius)
        moved = layers[i].slopes * F[i]
        return Carried(moved.centre[:, None], moved.radius)

    network = point.network
    given = Carried(point.explained[:, None], point.doubt.unit * point.explained)  # the roundings of all that follows
    found = network.pull(len(network.steps) - 1, given, boxed)
    if found is None or found.radius is None:
        return F, torch.zeros_like(point.gradient)
    return F, (found.centre[:, 0] - point.gradient).abs() + found.radius + point.doubt.gradient
