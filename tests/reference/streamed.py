"""The streamed form by dense matrices and without rounding, slowly: every Jacobian is held, every sum written out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.bounds.proved.curves import Range, bends, secants
from attrcert.bounds.proved.network import Carried, Network
from attrcert.bounds.proved.point import without_jacobians
from attrcert.bounds.proved.remainders import remainder


@dataclass
class Dense:
    """By activation: B, N by pairs, U, M, and over one ball apart, each, radius, loose, and at least |D F| and |D grad f|."""

    B: dict[int, Tensor]
    N: dict[tuple[int, int], Tensor]
    U: dict[int, Tensor]
    M: Tensor
    apart: dict[int, Tensor]
    each: dict[int, Tensor]
    radius: dict[int, Tensor]
    loose: dict[int, Tensor]
    change: Tensor


def jacobians(network: Network, slope: dict[int, Tensor]) -> tuple[dict[int, Tensor], dict[tuple[int, int], Tensor]]:
    B, N = {}, {}
    for i in slope:
        n = slope[i].shape[1]

        def bend(m: int, carried: Carried | None, i: int = i) -> Carried | None:
            if carried is None:
                return None
            N[i, m] = carried.centre[0]
            return Carried(slope[m][:, None] * carried.centre)

        B[i] = network.pull(network.before(i), Carried(torch.eye(n, dtype=torch.float64)[None]), bend).centre[0]
    return B, N


def dense(network: Network, x: Tensor, classes: Tensor, eps: float, order: float) -> Dense:
    point = without_jacobians(network, x, classes)
    B, N = jacobians(network, point.slope)
    c = {i: network.curve(i).bend(z) * point.F[i] for i, z in point.z.items()}
    apart, each, up, down = {}, {}, {}, {}
    for i, z in point.z.items():
        above = below = torch.zeros_like(z[0])
        for m in (m for m in up if (i, m) in N):
            positive, negative = N[i, m].clamp_min(0), (-N[i, m]).clamp_min(0)
            above = above + positive @ up[m] + negative @ down[m]
            below = below + positive @ down[m] + negative @ up[m]
        apart[i] = torch.maximum(above, below)
        each[i] = eps * torch.linalg.vector_norm(B[i], order, dim=1) + apart[i]
        found = remainder(network.curve(i), z, each[i][None])
        up[i], down[i] = found.up.largest[0], found.down.largest[0]
    U, radius, loose = {}, {}, {}
    weights: dict[int, Tensor] = {}
    for i in sorted(point.z, reverse=True):
        later = [k for k in weights if (k, i) in N]
        U[i] = sum((N[k, i].T @ (c[k][0][:, None] * B[k]) for k in later), torch.zeros_like(B[i]))
        away = eps * torch.linalg.vector_norm(U[i], order, dim=1) + sum(
            (N[k, i].abs().T @ weights[k] for k in later), 0.0
        )
        r, F = each[i][None], point.F[i]
        q, sigma = (
            bends(network.curve(i), point.z[i], r) * Range(F - away, F + away),
            secants(network.curve(i), point.z[i], r),
        )
        radius[i] = torch.maximum(q.high - c[i], c[i] - q.low)[0]
        loose[i] = torch.maximum(sigma.high - point.slope[i], point.slope[i] - sigma.low)[0]
        weights[i] = c[i][0].abs() * apart[i] + radius[i] * each[i]
    M = sum(B[i].T @ (c[i][0][:, None] * B[i]) for i in B)
    change = eps * torch.linalg.vector_norm(M, order, dim=1) + sum(B[i].abs().T @ weights[i] for i in B)
    return Dense(B, N, U, M, apart, each, radius, loose, change)


def form(
    found: Dense, by: tuple[dict[int, Tensor], dict[int, Tensor], dict[int, Tensor]], shape: Tensor
) -> tuple[Tensor, float]:
    """G in (u, v) with delta = shape v, and the constant."""
    tau, turn, eta = by
    d = len(found.M)
    P, Q, constant = torch.zeros(d, d).double(), torch.zeros(d, d).double(), 0.0
    for i, B in found.B.items():
        w = found.radius[i] / tau[i] + found.loose[i] / turn[i]
        P += B.T @ ((found.radius[i] * tau[i])[:, None] * B) + found.U[i].T @ (
            (found.loose[i] * turn[i])[:, None] * found.U[i]
        )
        Q += B.T @ (((1 + eta[i]) * w)[:, None] * B)
        constant += (
            float((w * found.apart[i].square() * torch.where(found.apart[i] > 0, 1 + 1 / eta[i], 0.0)).sum()) / 2
        )
    S = torch.diag(shape)
    return torch.cat([torch.cat([P, found.M @ S], dim=1), torch.cat([S @ found.M.T, S @ Q @ S], dim=1)]), constant
