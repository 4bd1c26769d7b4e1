"""Enclosure of the top singular value, valid at any stopping time [kuczynski1992estimating, sharpened].

Claim. Let A be symmetric of size n, the start q uniform on the sphere, alpha_j and beta_j its Lanczos coefficients,
and p_0 = 1, beta_j p_j(x) = (x - alpha_j) p_{j-1}(x) - beta_{j-1} p_{j-2}(x). Let w be the `failure`-quantile of
Beta(1/2, (n-1)/2). Then with probability at least 1 - failure, for all k at once, lambda_max(A) <= U_k, where U_k is
the root above the largest Ritz value of sum_{j<=k} p_j(U_k)^2 = 1/w.

Proof. The p_j are orthonormal for the spectral measure of q, so the mass of lambda_max is at most 1 / sum_j
p_j(lambda_max)^2 for every k; and that mass is below w with probability at most `failure`.

xi_max of a symmetric J is |lambda| at one of its two ends, fixed by J and not by the start. The larger of the two
ends' U_k therefore fails no more often than that one end does: no union bound. A non-symmetric J is enclosed through
P = J^T J.

Not claimed: that a small residual means anything for the upper end. Rounding is covered by an outward allowance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from scipy.special import betaincinv
from torch import Tensor

from attrcert.linalg.draws import Draws
from attrcert.linalg.krylov import GramLanczos, Lanczos
from attrcert.types import Enclosure, LinearMap
from attrcert.vocabulary import SolverStatus

# Relative allowance for rounding in the products, outwards on either end.
ROUNDING = {torch.float64: 1e-9, torch.float32: 2e-5}


@dataclass(frozen=True)
class TopSingularValue:
    """Runs until upper <= (1 + slack) lower and the lower end has settled, or for `max_steps` steps.

    `settled` bounds the estimated relative error of the lower end: residual^2 over the gap to the next Ritz value.
    """

    slack: float = 0.01
    failure: float = 1e-3
    max_steps: int = 200
    settled: float = 2e-5

    def __call__(self, J: LinearMap, draws: Draws, *, purpose: str) -> Enclosure:
        """Of each map of the batch; the vector is the right singular vector."""
        process = Lanczos(J, draws, purpose) if J.symmetric else GramLanczos(J, draws, purpose)
        return self._run(process, _both_ends if J.symmetric else _root_of_top)

    def top_eigenvalue(self, A: LinearMap, draws: Draws, *, purpose: str) -> Enclosure:
        """The same for the largest signed eigenvalue of symmetric maps."""
        return self._run(Lanczos(A, draws, purpose), _top)

    def _run(self, process: Lanczos | GramLanczos, read: "_Reader") -> Enclosure:
        J = process.J
        b, _, n = J.shape
        w = least_mass(n, self.failure)
        limit = min(n, self.max_steps)
        records: list[tuple[Tensor, Enclosure]] = []
        rows, waiting = torch.arange(b), torch.ones(b, dtype=torch.bool)
        while waiting.any():
            process.step()
            k = process.steps
            if k < limit and k % CHECK_EVERY:
                continue
            alpha, beta = process.tridiagonal()
            ends = read(alpha.cpu(), beta.cpu(), w)
            ends = ends.outwards(ROUNDING[J.dtype], exhausted=k == n)
            reached = (ends.upper <= ends.lower * (1 + self.slack)) & (ends.rise <= self.settled * ends.lower)
            finished = waiting & (reached if k < limit else True)
            if finished.any():
                picked = finished.nonzero()[:, 0]
                status = _statuses(reached[picked], exhausted=k == n)
                records.append((rows[picked], ends.enclosure(process, picked, status, self.failure)))
                waiting &= ~finished
            if 2 * int(waiting.sum()) <= len(rows) and waiting.any():
                keep = waiting.nonzero()[:, 0]
                process.select(keep.to(J.device))
                rows, waiting = rows[keep], waiting[keep]
        return _assembled(records)


_Reader = Callable[[Tensor, Tensor, float], "_Ends"]

# The small eigenproblem every few steps costs little beside the products, and a GPU waits for it.
CHECK_EVERY = 3


def least_mass(n: int, failure: float) -> float:
    """The mass that a fixed direction has in a uniform start, but for a probability of `failure`."""
    return float(betaincinv(0.5, (n - 1) / 2, failure)) if n > 1 else 1.0


def upper_end(
    alpha: Float[Tensor, "b k"], beta: Float[Tensor, "b k"], theta: Float[Tensor, " b"], w: float
) -> Float[Tensor, " b"]:
    """The root U >= theta of sum_j p_j(U)^2 = 1/w, from above (the returned value errs upwards)."""
    scale = torch.maximum(alpha.abs().amax(1), beta.amax(1))
    unit = torch.where(scale > 0, scale, 1.0)
    a, c, t = alpha / unit[:, None], beta / unit[:, None], theta / unit
    # U - theta lies between rounding and the root of the first term alone, |U - alpha_1| <= beta_1 / sqrt(w)
    low = torch.full_like(t, -40.0)
    high = torch.full_like(t, 2.0) - 0.5 * torch.tensor(w, dtype=t.dtype).log()
    fractions = torch.linspace(0, 1, 33, dtype=t.dtype)
    for _ in range(4):
        logs = low[:, None] + (high - low)[:, None] * fractions
        enough = _log_christoffel(a, c, t[:, None] + logs.exp()) >= -torch.tensor(w, dtype=t.dtype).log()
        first = torch.where(enough, torch.arange(33), 32).amin(1)
        high = logs.gather(1, first[:, None])[:, 0]
        low = torch.where(first > 0, logs.gather(1, (first - 1).clamp_min(0)[:, None])[:, 0], low)
    return torch.where(scale > 0, unit * (t + high.exp()), theta)


def _log_christoffel(
    alpha: Float[Tensor, "b k"], beta: Float[Tensor, "b k"], x: Float[Tensor, "b points"]
) -> Float[Tensor, "b points"]:
    """log sum_{j=0..k} p_j(x)^2, rescaled at each step against overflow."""
    before, now, total, log_scale = torch.zeros_like(x), torch.ones_like(x), torch.ones_like(x), torch.zeros_like(x)
    coupling = torch.zeros_like(alpha[:, :1])
    for j in range(alpha.shape[1]):
        following = beta[:, j : j + 1]
        before, now = now, ((x - alpha[:, j : j + 1]) * now - coupling * before) / following
        total = total + now**2
        root = total.sqrt()
        before, now, total, log_scale = before / root, now / root, torch.ones_like(x), log_scale + root.log()
        coupling = following
    return 2 * log_scale


@dataclass(frozen=True)
class _Ends:
    """What T says: both ends, the Ritz vector in the Krylov basis, its relative residual, how far lower may still rise (an
    estimate), and the modulus of the spectrum, to which rounding is relative.
    """

    lower: Float[Tensor, " b"]
    upper: Float[Tensor, " b"]
    coefficients: Float[Tensor, "b k"]
    residual: Float[Tensor, " b"]
    rise: Float[Tensor, " b"]
    scale: Float[Tensor, " b"]

    def outwards(self, allowance: float, *, exhausted: bool) -> "_Ends":
        """Both ends moved outwards; where the space is the whole space, lower was exact but for rounding."""
        upper = self.lower if exhausted else self.upper
        rise = torch.zeros_like(self.rise) if exhausted else self.rise
        margin = allowance * self.scale
        return replace(self, lower=self.lower - margin, upper=upper + margin, rise=rise)

    def enclosure(
        self,
        process: Lanczos | GramLanczos,
        picked: Int64[Tensor, " kept"],
        status: tuple[SolverStatus, ...],
        failure: float,
    ) -> Enclosure:
        J = process.J
        chosen = torch.zeros_like(self.coefficients)
        chosen[picked] = self.coefficients[picked]
        vector = process.basis.combine(chosen.to(device=J.device, dtype=J.dtype))[picked.to(J.device)]
        steps = torch.full((len(picked),), process.steps)
        return Enclosure(self.lower[picked], self.upper[picked], failure, status, vector, steps, self.residual[picked])


def _top(alpha: Float[Tensor, "b k"], beta: Float[Tensor, "b k"], w: float) -> _Ends:
    return _end(alpha, beta, *_ritz(alpha, beta), w)


def _root_of_top(alpha: Float[Tensor, "b k"], beta: Float[Tensor, "b k"], w: float) -> _Ends:
    """xi_max of J from the top of P = J^T J."""
    top = _top(alpha, beta, w)
    lower = top.lower.clamp_min(0).sqrt()
    rise = (top.lower + top.rise).clamp_min(0).sqrt() - lower
    return replace(top, lower=lower, upper=top.upper.clamp_min(0).sqrt(), rise=rise, scale=lower)


def _both_ends(alpha: Float[Tensor, "b k"], beta: Float[Tensor, "b k"], w: float) -> _Ends:
    """xi_max of a symmetric J: the end with the larger modulus; -J has the coefficients -alpha and beta."""
    values, vectors = _ritz(alpha, beta)
    top = _end(alpha, beta, values, vectors, w)
    bottom = _end(-alpha, beta, -values.flip(1), vectors.flip(2), w)
    up = top.lower >= bottom.lower
    lower = torch.maximum(top.lower, bottom.lower)
    return _Ends(
        lower,
        torch.maximum(top.upper, bottom.upper),
        torch.where(up[:, None], top.coefficients, bottom.coefficients),
        torch.where(up, top.residual, bottom.residual),
        torch.maximum(top.lower + top.rise, bottom.lower + bottom.rise) - lower,
        top.scale,
    )


def _end(
    alpha: Float[Tensor, "b k"],
    beta: Float[Tensor, "b k"],
    values: Float[Tensor, "b k"],
    vectors: Float[Tensor, "b k k"],
    w: float,
) -> _Ends:
    theta, coefficients = values[:, -1], vectors[:, :, -1]
    residual = beta[:, -1] * coefficients[:, -1].abs()
    gap = theta - values[:, -2] if values.shape[1] > 1 else torch.zeros_like(theta)
    rise = torch.where(gap > residual, residual**2 / gap, residual)
    relative = torch.where(theta == 0, 0.0, residual / theta.abs())
    return _Ends(theta, upper_end(alpha, beta, theta, w), coefficients, relative, rise, values.abs().amax(dim=1))


def _ritz(
    alpha: Float[Tensor, "b k"], beta: Float[Tensor, "b k"]
) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k k"]]:
    inner = beta[:, :-1]
    T = torch.diag_embed(alpha) + torch.diag_embed(inner, 1) + torch.diag_embed(inner, -1)
    values, vectors = torch.linalg.eigh(T)
    return values, vectors


def _statuses(reached: Bool[Tensor, " kept"], *, exhausted: bool) -> tuple[SolverStatus, ...]:
    otherwise = SolverStatus.EXHAUSTED if exhausted else SolverStatus.STEP_LIMIT
    return tuple(SolverStatus.CONVERGED if flag else otherwise for flag in reached.tolist())


def _assembled(records: list[tuple[Tensor, Enclosure]]) -> Enclosure:
    """The samples' enclosures in their first order; they finished at different steps."""
    order = torch.cat([rows for rows, _ in records]).argsort()
    parts = [part for _, part in records]
    statuses = [status for part in parts for status in part.status]

    def joined(name: str) -> Tensor:
        whole = torch.cat([getattr(part, name) for part in parts])
        return whole[order.to(whole.device)]

    return Enclosure(
        lower=joined("lower"),
        upper=joined("upper"),
        failure=parts[0].failure,
        status=tuple(statuses[i] for i in order.tolist()),
        vector=joined("vector"),
        steps=joined("steps"),
        residual=joined("residual"),
    )
