"""max u^T (grad f(x + delta) - grad f(x)) over unit u and a ball, by a quadratic form without a held Jacobian, whatever its multipliers.

With c, U and M of `streamed_bends`, a = B u and e_l = sum_m N_lm rem_m in the identity D grad f = sum_l B_l^T (q_l t_l + ds_l D F_l),

    u^T D grad f = u^T M delta + sum_m (U_m u) rem_m + sum_l a_l ((q_l - c_l) t_l + ds_l D F_l),

exactly. |rem| <= loose |t| and |q - c| <= r, so for all positive tau, turn and eta, with w = r / tau + loose / turn,

    u^T D grad f <= u^T M delta + sum (r tau a^2 + loose turn (U u)^2 + w t^2) / 2 + sum |B| |ds D F|,
    t^2 <= (1 + eta) (B delta)^2 + (1 + 1 / eta) e^2:

a quadratic form G of (u, delta), and a constant: |e| is at most apart, and sum p e^2 is bounded too (`streamed_rows`). So
u^T D grad f <= lambda_max(G) (|u|^2 + |v|^2) / 2 + constant with delta = `shape` v, as in `form`.

As eps -> 0 the radii r and loose vanish with eps, apart with its square: what is left is M, and the bound tends to xi_max eps.

Rounding: P, M and Q are computed by sweeps in float64: in float32 about a quarter would be lost at twenty layers. A matrix Y at the
activations' inputs, pulled back, is off by at most sum gamma |V_i| mod|B_i| over neurons, V all that leaves their inputs, by the norms of
rows: local errors go on through the true B (`streams`). Rows of B and U are off by their `lost`, and what is pushed from the activations'
results by local errors that go on through U and c B.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.streamed_bends import Bent
from attrcert.bounds.proved.streamed_ranges import Moved
from attrcert.bounds.proved.streamed_rows import CUTS
from attrcert.bounds.proved.streams import Streams
from attrcert.bounds.proved.sweeps import Block, Curvature, Norms, Sweeps

Vector = Float[Tensor, "1 _"]


@dataclass(frozen=True)
class Ranged:
    """An activation over one ball: what `streamed_ranges` and `streamed_bends` know, as vectors."""

    apart: Vector
    radius: Vector
    loose: Vector
    unsure: Vector
    beyond: float
    moved: Moved
    bent: Bent

    def errors(self, w: Vector) -> float:
        """At least sum w e^2: neuron by neuron, together, or what is above a multiple of the profile neuron by neuron."""
        p, square = self.moved.profile, self.apart.square()
        peak, best = (w / p).max(), (w * square).sum()
        for share in CUTS if self.beyond < torch.inf else ():
            above = ((w - share * peak * p).clamp_min(0) * square).sum()
            best = torch.minimum(best, share * peak * self.beyond + above)
        return float(best)

    @property
    def usual(self) -> Vector:
        """About e, with the right sum of squares."""
        total = float((self.moved.profile * self.apart.square()).sum())
        return self.apart * min(1.0, self.beyond / total if total > 0 else 1.0) ** 0.5


@dataclass(frozen=True)
class Fractions:
    """tau, turn and eta, by the number of the activation."""

    tau: dict[int, Vector]
    turn: dict[int, Vector]
    eta: dict[int, Vector]


@dataclass(frozen=True)
class Weights:
    """Of a^2, of (U u)^2 and of (B delta)^2, and the constant."""

    a: dict[int, Vector]
    turned: dict[int, Vector]
    t: dict[int, Vector]
    constant: float


@dataclass(frozen=True)
class Pulled:
    """a, U u and B delta, and the form's derivatives by u and delta."""

    a: dict[int, Block]
    turned: dict[int, Block]
    t: dict[int, Block]
    image: tuple[Block, Block]


@dataclass(frozen=True)
class StreamedForm:
    """Of one point over one ball."""

    c: dict[int, Vector]
    layers: dict[int, Ranged]

    def weights(self, by: Fractions) -> Weights:
        a, turned, t, constant = {}, {}, {}, 0.0
        for i, layer in self.layers.items():
            a[i], turned[i] = layer.radius * by.tau[i], layer.loose * by.turn[i]
            w = layer.radius / by.tau[i] + layer.loose / by.turn[i]
            t[i] = (1 + by.eta[i]) * w
            constant += layer.errors((1 + 1 / by.eta[i]) * w)
        return Weights(a, turned, t, constant)

    def apply(self, sweeps: Sweeps, u: Block, delta: Block, weights: Weights) -> Pulled:
        """G times vectors (u, delta)."""
        kind = next(iter(sweeps.slope.values())).dtype
        c, on_a, on_turned, on_t = (
            {i: part.to(kind)[:, None] for i, part in given.items()}
            for given in (self.c, weights.a, weights.turned, weights.t)
        )
        a, t = sweeps.pushed(u.to(kind), {}), sweeps.pushed(delta.to(kind), {})
        Mu, turned, _ = sweeps.pulled({i: c[i] * a[i] for i in a})
        s = sweeps.pushed(torch.zeros_like(u, dtype=kind), {i: on_turned[i] * part for i, part in turned.items()})
        left, _, _ = sweeps.pulled({i: on_a[i] * a[i] + c[i] * (s[i] + t[i]) for i in a})
        right, _, _ = sweeps.pulled({i: on_t[i] * t[i] for i in t})
        return Pulled(a, turned, t, (left.to(u), (Mu + right).to(u)))


@dataclass(frozen=True)
class Matrices:
    """P and Q of the form as computed, and how far P, M and Q are off in norm; `beside` is the constant's half."""

    P: Float[Tensor, "d d"]
    Q: Float[Tensor, "d d"]
    off: tuple[float, float, float]
    beside: float
    unsure: float


def matrices(
    streams: Streams, curvature: Curvature, forms: Sequence[StreamedForm], by: Sequence[Fractions]
) -> list[Matrices]:
    """Of several balls: the unit vectors are pushed once."""
    sweeps, M = Sweeps(streams.network, streams.slope), curvature.M
    weights = [form.weights(one) for form, one in zip(forms, by, strict=True)]
    kept = [tuple({i: v[:, None] for i, v in part.items()} for part in (w.a, w.turned, w.t)) for w in weights]
    c = {i: part[:, None] for i, part in curvature.c.items()}
    P, Q = ([torch.empty_like(M) for _ in forms] for _ in range(2))
    norms = [(Norms(2.0), Norms(2.0), Norms(2.0)) for _ in forms]
    for some, units in sweeps.units():
        b = sweeps.pushed(units, {})
        _, turned, _ = sweeps.pulled({i: c[i] * part for i, part in b.items()})
        for k, (on_a, on_turned, on_t) in enumerate(kept):
            s = sweeps.pushed(torch.zeros_like(units), {i: on_turned[i] * part for i, part in turned.items()})
            left, _, into_left = sweeps.pulled({i: on_a[i] * b[i] + c[i] * s[i] for i in b})
            right, _, into_right = sweeps.pulled({i: on_t[i] * b[i] for i in b})
            P[k][some], Q[k][some] = left[0], right[0]
            for norm, part in zip(norms[k], (into_left, into_right, s), strict=True):
                norm.add(part)
    found = []
    for k, (form, w) in enumerate(zip(forms, weights, strict=True)):
        off = _off(streams, curvature, form, w, *(norm() for norm in norms[k]))
        unsure = sum(float((layer.moved.rows * layer.unsure).sum()) for layer in form.layers.values())
        found.append(Matrices(P[k], Q[k], off, w.constant / 2, unsure))
    return found


Rows = dict[int, Float[Tensor, " _"]]


def _off(
    streams: Streams, curvature: Curvature, form: StreamedForm, w: Weights, left: Rows, right: Rows, s: Rows
) -> tuple[float, float, float]:
    """Of P, M and Q, from the norms of the rows of all that was pulled, and of what was pushed from the activations' results."""
    P = M = Q = 0.0
    chained = _pushed_off(streams, {i: w.turned[i][0] * rows for i, rows in curvature.turned.items()}, s)
    for i, layer in form.layers.items():
        known, bent, c, slope = layer.moved, layer.bent, form.c[i][0].abs(), streams.slope[i][0].abs()
        gamma = streams.gamma[streams.network.before(i)] * streams.exact
        pushed = gamma * (chained[i] * (slope * bent.rows + c * known.rows) + c * known.rows * s[i])
        turned = w.turned[i][0] * bent.rows * (bent.lost + gamma * bent.rows)
        P += float((gamma * known.spread * left[i] + known.rows * w.a[i][0] * known.lost + turned + pushed).sum())
        Q += float((gamma * known.spread * right[i] + known.rows * w.t[i][0] * known.lost).sum())
        M += float((gamma * known.spread * curvature.carried[i] + known.rows * c * known.lost).sum())
    return P, M, Q


def _pushed_off(streams: Streams, added: Rows, s: Rows) -> Rows:
    """By moduli from the activations before: norms of the rows of what was pushed from their results."""
    found: Rows = {}

    def bend(i: int, moduli: Tensor) -> Tensor:
        found[i] = moduli[0, 0]
        return (streams.slope[i][0].abs() * s[i] + added[i]).to(moduli)[None, None]

    network = streams.network
    some = next(iter(streams.slope.values()))
    network.magnitude.push(some.new_zeros(1, 1, network.inputs), bend, end=max(network.curves))
    return found
