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

A breakdown splits the process into m blocks, each a uniform start on the complement of the spaces before it, which
are invariant up to rounding. If lambda_max exceeded every block's U, each start would have missed it given the ones
before: probability at most the product of the blocks' failures. So the largest U counts, with m blocks read at
q_m^(1/m) each, and q_1 = 0.9 failure, q_m = 0.1 failure / 2^(m-1) add up to `failure`.

Not claimed: that a small residual means anything for the upper end. Rounding is covered by an outward allowance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from scipy.special import betaincinv
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.krylov import SPARES, GramLanczos, Lanczos, Section
from attrcert.types import Enclosure, LinearMap
from attrcert.vocabulary import SolverStatus

# Relative allowance for rounding in the products, outwards on either end.
ROUNDING = {torch.float64: 1e-9, torch.float32: 2e-5}


@dataclass(frozen=True)
class TopSingularValue:
    """Runs until upper <= (1 + slack) lower and the lower end has settled, or for `max_steps` steps.

    `settled` bounds the estimated relative error of the lower end: residual^2 over the gap to the next Ritz value.
    `rounding` is the allowance for rounding; by default that of the products' dtype, which suits matrices.
    """

    slack: float = 0.01
    failure: float = 1e-3
    max_steps: int = 200
    settled: float = 2e-5
    rounding: float | None = None

    def allowance(self, dtype: torch.dtype) -> float:
        """What rounding may do to either end, relative."""
        return ROUNDING[dtype] if self.rounding is None else self.rounding

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
        limit = min(n, self.max_steps)
        records: list[tuple[Tensor, Enclosure]] = []
        rows, waiting = torch.arange(b), torch.ones(b, dtype=torch.bool)
        while waiting.any():
            process.step()
            k = process.steps
            if k < limit and k % CHECK_EVERY:
                continue
            ends = read(process.section(), n, self.failure).outwards(self.allowance(J.dtype), exhausted=k == n)
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


_Reader = Callable[[Section, int, float], "_Ends"]

# The small eigenproblem every few steps costs little beside the products, and a GPU waits for it.
CHECK_EVERY = 3
POINTS = 97  # of the grid for the upper end, refined three times


def least_mass(n: int, failure: float) -> float:
    """The mass that a fixed direction has in a uniform start, but for a probability of `failure`."""
    return float(betaincinv(0.5, (n - 1) / 2, failure)) if n > 1 else 1.0


def block_mass(section: Section, n: int, failure: float) -> Float[Tensor, " b"]:
    """The mass to count with in every block: m blocks share `failure` as the module says."""
    shares = [0.9, *(0.1 / 2 ** (m - 1) for m in range(2, 2 + SPARES))]
    by_count = [least_mass(n, (share * failure) ** (1 / m)) for m, share in enumerate(shares, 1)]
    return torch.tensor(by_count, dtype=torch.float64)[section.blocks.clamp_max(1 + SPARES) - 1]


def upper_end(section: Section, theta: Float[Tensor, " b"], w: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
    """The root U >= theta of sum_j p_j(U)^2 = 1/w, the largest over the blocks, from above (it errs upwards)."""
    scale = torch.maximum(section.alpha.abs().amax(1), section.beta.amax(1))
    unit = torch.where(scale > 0, scale, 1.0)
    inner = replace(section, alpha=section.alpha / unit[:, None], beta=section.beta / unit[:, None])
    t, wanted = theta / unit, -w.log()
    # U - theta lies between rounding and the root of the first term alone, |U - alpha_1| <= beta_1 / sqrt(w)
    low, high = torch.full_like(t, -40.0), 2.0 + wanted / 2
    fractions = torch.linspace(0, 1, POINTS, dtype=t.dtype)
    for _ in range(3):
        logs = low[:, None] + (high - low)[:, None] * fractions
        enough = _log_christoffel(inner, t[:, None] + logs.exp()) >= wanted[:, None]
        first = torch.where(enough, torch.arange(POINTS), POINTS - 1).amin(1)
        high = logs.gather(1, first[:, None])[:, 0]
        low = torch.where(first > 0, logs.gather(1, (first - 1).clamp_min(0)[:, None])[:, 0], low)
    coupled = section.rounding * (section.blocks - 1)
    return torch.where(scale > 0, unit * (t + high.exp() + coupled), theta)


def _log_christoffel(section: Section, x: Float[Tensor, "b points"]) -> Float[Tensor, "b points"]:
    """log sum_{j=0..k} p_j(x)^2 of the block where it is smallest, rescaled at each step against overflow."""
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    before, now, log_scale, least = zero, one, zero, torch.full_like(x, torch.inf)
    ended = torch.zeros_like(section.alpha[:, :1])
    coupling = torch.zeros_like(section.alpha[:, :1])
    splits = section.broken.any(dim=0).tolist()
    for j, splits_here in enumerate([*splits[:-1], True]):
        alpha, following = section.alpha[:, j : j + 1], section.beta[:, j : j + 1]
        before, now = now, ((x - alpha) * now - coupling * before) / following
        root = (1 + now**2).sqrt()  # the sum so far was scaled to 1
        before, now, log_scale, coupling = before / root, now / root, log_scale + root.log(), following
        if not splits_here:
            continue
        closed = section.broken[:, j : j + 1] | (j + 1 == section.alpha.shape[1])
        counted = closed & (ended < 1 + SPARES)
        least = torch.where(counted, torch.minimum(least, 2 * log_scale), least)
        ended = ended + closed
        before, now = torch.where(closed, zero, before), torch.where(closed, one, now)
        log_scale, coupling = torch.where(closed, zero, log_scale), torch.where(closed, 0.0, coupling)
    return least


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


def _top(section: Section, n: int, failure: float) -> _Ends:
    values, vectors = _ritz(section)
    upper = upper_end(section, values[:, -1], block_mass(section, n, failure))
    return _end(section, values, vectors, upper)


def _root_of_top(section: Section, n: int, failure: float) -> _Ends:
    """xi_max of J from the top of P = J^T J."""
    top = _top(section, n, failure)
    lower = top.lower.clamp_min(0).sqrt()
    rise = (top.lower + top.rise).clamp_min(0).sqrt() - lower
    return replace(top, lower=lower, upper=top.upper.clamp_min(0).sqrt(), rise=rise, scale=lower)


def _both_ends(section: Section, n: int, failure: float) -> _Ends:
    """xi_max of a symmetric J: the end with the larger modulus."""
    values, vectors = _ritz(section)
    both, ends = section.joined(section.flipped()), torch.cat([values[:, -1], -values[:, 0]])
    upper = upper_end(both, ends, block_mass(both, n, failure))
    top = _end(section, values, vectors, upper[: len(values)])
    bottom = _end(section.flipped(), -values.flip(1), vectors.flip(2), upper[len(values) :])
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
    section: Section, values: Float[Tensor, "b k"], vectors: Float[Tensor, "b k k"], upper: Float[Tensor, " b"]
) -> _Ends:
    theta, coefficients = values[:, -1], vectors[:, :, -1]
    residual = section.beta[:, -1] * coefficients[:, -1].abs()
    gap = theta - values[:, -2] if values.shape[1] > 1 else torch.zeros_like(theta)
    rise = torch.where(gap > residual, residual**2 / gap, residual)
    relative = torch.where(theta == 0, 0.0, residual / theta.abs())
    return _Ends(theta, upper, coefficients, relative, rise, values.abs().amax(dim=1))


def _ritz(section: Section) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k k"]]:
    inner = section.beta[:, :-1]
    T = torch.diag_embed(section.alpha) + torch.diag_embed(inner, 1) + torch.diag_embed(inner, -1)
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
