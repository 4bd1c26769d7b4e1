"""Upper bounds of norms without chance: by positive test vectors, and by a factorisation that exists only if they hold.

`gram_norm` [schur1911bemerkungen]: for a symmetric G and any v > 0, |G|_2 <= max_i (|G| v)_i / v_i, entrywise moduli. With
G = A^T W A, the squared norm of sqrt(W) A, a few rounds of v <- |G| v bring it near its best, the norm of |G|: 5 to 20 % above
|A|_2 on Jacobians of networks. G is computed in float32: by the usual analysis of sums its entries are off by at most
g (|A|^T W |A|)_ij, and so are the products with v; with g = 2 (m + 2 n + 16) u for m x n matrices A both are added.

`proved_eigenvalue`: the symmetric G has lambda_max(G) <= t where t - G has a Cholesky factor. Lanczos proposes t, the
factorisation proves it; if it fails, t is enlarged, at last to a bound that needs no proof.

Rounding: a Cholesky factorisation of size n that runs to its end proves lambda_max(G) <= (1 + n (n + 2) u) t [rump2006verification],
and that is what is returned.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.linalg.maps import Dense

ROUNDS = 6
LEAST = 1e-6  # of the largest entry of v, so that no quotient blows up
PROPOSAL = TopSingularValue(slack=1e-6, max_steps=300, settled=1e-8)
ENLARGED = (1.0, 1 + 1e-6, 1 + 1e-4, 1.01, 1.1)


def gram_norm(
    A: Float[Tensor, "c m n"], weights: Float[Tensor, "b m"], scale: Float[Tensor, "b n"] | None = None
) -> Float[Tensor, " b"]:
    """At least |diag(sqrt(weights)) A diag(scale)|_2 of each sample; with c = 1 all samples have the same A."""
    size = A.abs().amax(dim=(1, 2)).clamp_min(torch.finfo(A.dtype).tiny)
    most = weights.amax(dim=1).clamp_min(torch.finfo(A.dtype).tiny)
    small, w = (A / size[:, None, None]).float(), (weights / most[:, None]).float()
    G = (torch.matmul(small.mT * w[:, None], small)).abs()
    small, stretch = small.abs(), None if scale is None else scale.abs()
    off = (A.shape[1] + 2 * A.shape[2] + 16) * torch.finfo(torch.float32).eps
    v = weights.new_ones(len(weights), A.shape[2])
    best = torch.full_like(most, torch.inf)
    for _ in range(ROUNDS):
        given = (v if stretch is None else v * stretch).float()
        moved = times(G, given) + off * times(small.mT, w * times(small, given))
        moved = moved.double() * (1 + off) + torch.finfo(torch.float32).tiny
        moved = moved if stretch is None else moved * stretch
        best = torch.minimum(best, (moved / v).amax(dim=1))
        largest = moved.amax(dim=1, keepdim=True)
        v = torch.where(largest > 0, (moved / largest).clamp_min(LEAST), 1.0)
    found = torch.where(weights.amax(dim=1) == 0, 0.0, (best * most).sqrt() * size)
    return found.nan_to_num(torch.inf, torch.inf)


def gram_least(
    A: Float[Tensor, "c m n"], weights: Float[Tensor, "b m"], scale: Float[Tensor, "b n"] | None = None
) -> Float[Tensor, " b"]:
    """At most what `gram_norm` finds, but for rounding, and cheap: a few steps of the power method."""
    root, stretch = weights.sqrt(), 1.0 if scale is None else scale
    v = torch.linalg.vector_norm(A, dim=1).expand(len(weights), -1) * stretch
    for _ in range(ROUNDS):
        v = v / torch.linalg.vector_norm(v, dim=1, keepdim=True).clamp_min(torch.finfo(v.dtype).tiny)
        moved = root * times(A, v * stretch)
        v = times(A.mT, root * moved) * stretch
    return torch.linalg.vector_norm(moved, dim=1)


def times(A: Float[Tensor, "c m n"], v: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]:
    """A v of each sample; with c = 1 all samples have the same A."""
    return v @ A[0].mT if len(A) == 1 else torch.bmm(A, v[:, :, None])[:, :, 0]


def proved_eigenvalue(G: Float[Tensor, "b n n"], draws: Draws) -> Float[Tensor, " b"]:
    """At least lambda_max of each positive semi-definite G; infinite where G is not finite."""
    finite = G.isfinite().all(dim=2).all(dim=1)
    G = torch.where(finite[:, None, None], G, 0.0)
    scale = G.diagonal(dim1=1, dim2=2).amax(dim=1).clamp_min(torch.finfo(G.dtype).tiny)
    unit = G / scale[:, None, None]
    proposed = PROPOSAL.top_eigenvalue(Dense(unit, symmetric=True), draws, purpose="proof").upper.to(G)
    return torch.where(finite, proved_near(unit, proposed) * scale, torch.inf)


def proved_near(
    G: Float[Tensor, "b n n"], proposed: Float[Tensor, " b"], enlarged: Sequence[float] = ENLARGED
) -> Float[Tensor, " b"]:
    """The same for symmetric G of no negative trace: what was proposed, enlarged by the first factor that is proved."""
    proved = G.abs().sum(dim=2).amax(dim=1)  # Gershgorin's circles
    waiting = torch.ones_like(proved, dtype=torch.bool)
    for factor in enlarged:
        held = waiting & _dominates(factor * proposed, G)
        proved = torch.where(held, torch.minimum(proved, factor * proposed), proved)
        waiting &= ~held
        if not waiting.any():
            break
    n = G.shape[1]
    return proved * (1 + n * (n + 2) * torch.finfo(G.dtype).eps)


def _dominates(t: Float[Tensor, " b"], G: Float[Tensor, "b n n"]) -> Bool[Tensor, " b"]:
    """Whether t - G has a Cholesky factor."""
    gap = -G
    gap.diagonal(dim1=1, dim2=2).add_(t[:, None])
    return torch.linalg.cholesky_ex(gap).info == 0
