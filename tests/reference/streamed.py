"""The streamed form by dense matrices and without rounding, slowly: every Jacobian is held, every sum written out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.bounds.proved.curves import Range, bends, largest_bend, secants
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
    profile: dict[int, Tensor]
    beyond: dict[int, Tensor]


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
    apart, each, up, down, energy, profile, together = {}, {}, {}, {}, {}, {}, {}
    for i, z in point.z.items():
        positive = negative = torch.zeros_like(z[0])
        total = torch.zeros_like(z[0])
        for m in (m for m in up if (i, m) in N):
            inner, both = beyond(N[i, m], up[m], down[m], energy[m])
            total, positive, negative = total + inner, positive + both[0], negative + both[1]
        apart[i] = total + torch.maximum(positive, negative)
        each[i] = eps * torch.linalg.vector_norm(B[i], order, dim=1) + apart[i]
        found = remainder(network.curve(i), z, each[i][None])
        up[i], down[i] = found.up.largest[0], found.down.largest[0]
        here = torch.inf
        if order == 2:
            p = largest_bend(network.curve(i), z, 1.5 * eps * B[i].norm(dim=1)[None])[0]
            p = p.clamp_min(1e-3 * float(p.max()))
            worst = {m: torch.maximum(up[m], down[m]) for m in energy}
            far = eps * torch.linalg.matrix_norm(p.sqrt()[:, None] * B[i], 2)
            profile[i], together[i] = p, errors(i, N, p, apart[i], worst, energy)
            far = far + together[i].sqrt()
            here = float((found.rise[0] / p).max() * far.square() / 2)
        energy[i] = here
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
    return Dense(B, N, U, M, apart, each, radius, loose, change, profile, together)


def beyond(N: Tensor, up: Tensor, down: Tensor, energy: float) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Of each row the best threshold: what is taken together, and what is taken neuron by neuron, either way."""
    peak, none = N.abs().amax(dim=1, keepdim=True), torch.zeros(len(N)).double()
    best = none, (N.clamp_min(0) @ up + (-N).clamp_min(0) @ down, N.clamp_min(0) @ down + (-N).clamp_min(0) @ up)
    for share in (1.0, 0.3, 0.1) if energy < torch.inf else ():
        k = N.sign() * (N.abs() - share * peak).clamp_min(0)
        ends = k.clamp_min(0) @ up + (-k).clamp_min(0) @ down, k.clamp_min(0) @ down + (-k).clamp_min(0) @ up
        inner = share * peak[:, 0] * energy
        better = inner + torch.maximum(*ends) < best[0] + torch.maximum(*best[1])
        above, below = (torch.where(better, *part) for part in zip(ends, best[1], strict=True))
        best = torch.where(better, inner, best[0]), (above, below)
    return best


def errors(
    i: int,
    N: dict[tuple[int, int], Tensor],
    p: Tensor,
    apart: Tensor,
    worst: dict[int, Tensor],
    energy: dict[int, float],
) -> Tensor:
    """At least sum p e^2."""
    total = torch.zeros(()).double()
    for m in (m for m in energy if (i, m) in N):
        S = N[i, m].abs().T @ (p * apart)
        ways = [(S * worst[m]).sum()]
        for share in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
            theta = share * S.max()
            ways.append(theta * energy[m] + ((S - theta).clamp_min(0) * worst[m]).sum())
        total = total + torch.stack(ways).min()
    return torch.minimum(total, (p * apart.square()).sum())


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
        heavy, square = w * (1 + 1 / eta[i]), found.apart[i].square()
        ways = [(heavy * square).sum()]
        if i in found.profile:
            p = found.profile[i]
            for share in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
                theta = share * (heavy / p).max()
                ways.append(theta * found.beyond[i] + ((heavy - theta * p).clamp_min(0) * square).sum())
        constant += float(min(ways)) / 2
    S = torch.diag(shape)
    return torch.cat([torch.cat([P, found.M @ S], dim=1), torch.cat([S @ found.M.T, S @ Q @ S], dim=1)]), constant
