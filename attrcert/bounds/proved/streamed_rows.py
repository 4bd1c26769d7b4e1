"""Rows n of an activation's N against what the activations before may do over a ball: neuron by neuron, and together.

Each remainder lies in [-down, up], and |rem_i| <= rise_i t_i^2 / 2; all of an activation together are at most its `energy` E, at least the
largest sum rise t^2 / 2. Large entries of a row are taken neuron by neuron, small ones together: with any threshold theta,

    sum n rem <= theta E + sum |k| (up + down) / 2 + |sum k (up - down) / 2|,        k = n - (n cut to [-theta, theta]).

So for the energy of activation l itself, sum p t^2 over the ball with t = B delta + e and any p >= 0:

    |sqrt(p) t| <= eps |sqrt(p) B| + |sqrt(p) e|,        sum p e^2 <= sum_j p_j apart_j sum_i |N_ji| |rem_i|,

the last again by a threshold, for the column sums S_i = sum_j p_j apart_j |N_ji|, or by sum p apart^2. |sqrt(p) B|^2 is the largest
eigenvalue of a d x d matrix that is gathered row by row, proved by a Cholesky factor. In linf there are no energies.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.loops import CLOSE, ENLARGED
from attrcert.bounds.proved.streams import SMALLEST, Columns, Streams, scaled
from attrcert.linalg.proofs import proved_near
from attrcert.linalg.ritz import ritz

THRESHOLDS = (1.0, 0.3, 0.1)  # of the largest entry of a row
CUTS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # of the largest column sum
STEPS = 30  # of Lanczos

Numbers = Float[Tensor, " _"]


@dataclass(frozen=True)
class Earlier:
    """Of an activation before: weights of the moduli of N's entries; half of up + down and of up - down, and the energy, of every ball."""

    weights: Columns
    half: Columns
    signed: Columns
    energy: Numbers


@dataclass(frozen=True)
class RowSums:
    """Of every row: sum |n| weights and sum |n| half, what bounds |sum n rem|, and the norm of the row of B.

    `gram` is at least |sqrt(p) b|^2 of the rows b as computed; `columns` are the S, and `spilt` what rounding adds to sum p e^2.
    """

    weights: Columns
    half: Columns
    apart: Columns
    length: Numbers
    gram: float
    columns: dict[int, Columns]
    spilt: Numbers


class RowPass:
    """Of activation i; `own` is what rounding adds to |e| beside the sums of the columns after `beside`.

    `p` is None where there are no energies.
    """

    def __init__(
        self, streams: Streams, i: int, earlier: dict[int, Earlier], own: Columns, beside: int, p: Numbers | None
    ) -> None:
        self.streams, self.i, self.own, self.beside, self.p = streams, i, own, beside, p
        self.blur, kind = streams.blur(i), streams.kind
        self.weights, self.top = scaled({m: one.weights for m, one in earlier.items()}, kind)
        self.half, self.most = scaled({m: one.half for m, one in earlier.items()}, kind)
        self.signed = {m: (one.signed / self.most).to(kind) for m, one in earlier.items()}
        self.energy = {m: (one.energy / self.most).to(kind) for m, one in earlier.items()}
        self.columns = {m: torch.zeros_like(one.half) for m, one in earlier.items()}
        self.spilt = own.new_zeros(own.shape[1])

    def run(self, order: float) -> RowSums:
        streams, start, found = self.streams, 0, []
        d = streams.network.inputs
        gram, trace = self.own.new_zeros(d if self.p is not None else 0, d), 0.0
        for units in streams.units(self.i):
            rows = slice(start, start + len(units))
            start += len(units)
            N: dict[int, Tensor] = {}
            b = streams.pulled(self.i, units, N.__setitem__)
            weights, half, apart = self.block(N, units)
            length = torch.linalg.vector_norm(b, order, dim=1).double() * (1 + self.blur) + SMALLEST
            found.append((weights, half, apart, length))
            if self.p is not None:
                self.gather(N, rows, weights, apart)
                scaled_rows = self.p[rows].sqrt().to(b)[:, None] * b
                gram += scaled_rows.mT @ scaled_rows
                trace += float((self.p[rows] * length.square()).sum())
        weights, half, apart, length = (torch.cat(part) for part in zip(*found, strict=True))
        most = 0.0
        if self.p is not None:
            most = _largest((gram + gram.mT) / 2) + self.blur * trace
        return RowSums(weights, half, apart, length, most, self.columns, self.spilt)

    def block(self, N: dict[int, Tensor], units: Tensor) -> tuple[Columns, Columns, Columns]:
        """Sums of some rows."""
        balls = self.own.shape[1]
        weights = units.new_zeros(len(units), self.beside + balls)
        half, apart, signed = (units.new_zeros(len(units), balls) for _ in range(3))
        for m, n in N.items():
            moduli = n.abs()
            weights = weights + moduli @ self.weights[m]
            best, turned = moduli @ self.half[m], n @ self.signed[m]
            half = half + best
            if self.energy[m].isfinite().any():
                best, turned = self.cut(m, n, moduli.amax(dim=1, keepdim=True), best, turned)
            apart, signed = apart + best, signed + turned
        weights, half, apart, signed = (part.double() for part in (weights, half, apart, signed))
        apart = apart * (1 + 2 * self.blur) + signed.abs() + 2 * self.blur * half
        return (
            (weights * (1 + self.blur) + SMALLEST) * self.top,
            (half * (1 + self.blur) + SMALLEST) * self.most,
            (apart + SMALLEST) * self.most,
        )

    def cut(self, m: int, n: Tensor, peak: Tensor, best: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
        """The moduli's and the signed part of the best threshold."""
        for share in THRESHOLDS:
            theta = share * peak
            total, both = theta * self.energy[m], torch.zeros_like(turned)
            if not bool((total < best + turned.abs()).any()):  # together they are too much already
                continue
            if share < 1:
                k = n - torch.minimum(torch.maximum(n, -theta), theta)
                total, both = total + k.abs() @ self.half[m], k @ self.signed[m]
            better = total + both.abs() < best + turned.abs()
            best, turned = torch.where(better, total, best), torch.where(better, both, turned)
        return best, turned

    def gather(self, N: dict[int, Tensor], rows: slice, weights: Columns, apart: Columns) -> None:
        """Column sums of some rows."""
        assert self.p is not None
        off = self.own[rows] + weights[:, self.beside :]
        heavy = self.p[rows, None] * (apart + off)
        self.spilt = self.spilt + (heavy * off).sum(dim=0)
        here, top = scaled({0: heavy}, self.streams.kind)
        for m, n in N.items():
            self.columns[m] += ((n.abs().mT @ here[0]).double() * (1 + self.blur) + SMALLEST) * top


def energy_beyond(sums: RowSums, earlier: dict[int, Earlier], p: Numbers, apart: Columns) -> Numbers:
    """At least sum p e^2, of every ball."""
    total = sums.spilt
    for m, one in earlier.items():
        S, worst = sums.columns[m], one.half + one.signed.abs()
        peak = S.amax(dim=0)
        best = (S * worst).sum(dim=0)
        for share in CUTS:
            theta = share * peak
            best = torch.minimum(best, theta * one.energy + ((S - theta).clamp_min(0) * worst).sum(dim=0))
        total = total + best
    return torch.minimum(total, (p[:, None] * apart.square()).sum(dim=0))


def _largest(G: Float[Tensor, "d d"]) -> float:
    """At least the largest eigenvalue."""
    first = G.abs().sum(dim=0)[None]
    if not bool(first.isfinite().all()) or not bool(first.any()):
        return float(first.sum())
    value = ritz(lambda x: x @ G, first, STEPS, 1)[0][:, 0]
    return float(proved_near(G[None], (1 + CLOSE) * value, ENLARGED))
