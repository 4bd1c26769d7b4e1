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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.christoffel import below, block_mass, upper_end
from attrcert.linalg.krylov import GramLanczos, Lanczos, Section
from attrcert.types import Enclosure, LinearMap
from attrcert.vocabulary import SolverStatus

# Relative allowance for rounding in the products, outwards on either end.
ROUNDING = {torch.float64: 1e-9, torch.float32: 2e-5}
# Below this, products lose digits before they vanish (float32), or their squares do (float64).
LEAST_SCALE = {torch.float64: 1e-150, torch.float32: 1e-36}


@dataclass(frozen=True)
class TopSingularValue:
    """Runs until upper <= (1 + slack) lower and the lower end has settled, or for `max_steps` steps.

    `settled` bounds the estimated relative error of the lower end: residual^2 over the gap to the next Ritz value, which cannot see a
    neighbour of the top value that has not come apart from it yet; what lower may then miss is within the slack.
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

    def __call__(
        self, J: LinearMap, draws: Draws, *, purpose: str, first: Float[Tensor, "b m"] | None = None
    ) -> Enclosure:
        """Of each map of the batch; the vector is the right singular vector. `first` is J times the draws' normal vector, if known."""
        process = (Lanczos if J.symmetric else GramLanczos)(J, draws, purpose, first)
        return self._run(process, _both_ends if J.symmetric else _root_of_top)

    def top_eigenvalue(self, A: LinearMap, draws: Draws, *, purpose: str) -> Enclosure:
        """The same for the largest signed eigenvalue of symmetric maps."""
        return self._run(Lanczos(A, draws, purpose), _top)

    def _run(self, process: Lanczos | GramLanczos, read: "_Reader") -> Enclosure:
        J = process.J
        b, _, n = J.shape
        limit = min(n, self.max_steps)
        records: list[_Record] = []
        rows, waiting = np.arange(b), np.ones(b, dtype=bool)
        while waiting.any():
            process.step()
            k = process.steps
            if k < limit and (k < FIRST_CHECK or k % CHECK_EVERY):
                continue
            places = waiting.nonzero()[0]
            seen = read(process.section().select(places), n, self.failure)
            reached = self._reached(seen, J.dtype, exhausted=k == n)
            picked = (reached if k < limit else np.ones_like(reached)).nonzero()[0]
            if len(picked):
                finished, status = places[picked], _statuses(reached[picked], exhausted=k == n)
                vector = process.vectors(seen.coefficients[picked], torch.from_numpy(finished))
                records.append(_Record(rows[finished], seen.select(picked), status, vector))
                waiting[finished] = False
            if 2 * waiting.sum() <= len(rows) and waiting.any():
                keep = waiting.nonzero()[0]
                process.select(torch.from_numpy(keep).to(J.device))
                rows, waiting = rows[keep], waiting[keep]
        return self._assembled(records, n, self.allowance(J.dtype))

    def _reached(self, seen: "_Reading", dtype: torch.dtype, *, exhausted: bool) -> Bool[np.ndarray, " b"]:
        """Which samples have settled and are enclosed closely enough, and are not so small that their digits are lost."""
        margin = self.allowance(dtype) * seen.scale
        lower = seen.lower - margin
        if exhausted:
            return seen.lower + margin <= lower * (1 + self.slack)
        told = (seen.scale == 0) | (seen.scale >= LEAST_SCALE[dtype])
        reached = told & (seen.rise <= self.settled * lower)
        picked = reached.nonzero()[0]
        if len(picked):
            limit = lower * (1 + NEARLY * self.slack) - margin
            reached[picked] = seen.select(picked).below(limit[picked])
        return reached

    def _assembled(self, records: list["_Record"], n: int, allowance: float) -> Enclosure:
        """The samples' enclosures in their first order, whenever each of them finished; the upper ends of all at once."""
        order = np.concatenate([record.rows for record in records]).argsort()
        statuses = [status for record in records for status in record.status]
        vectors = torch.cat([record.vector for record in records])
        seen = _Reading.joined([record.seen for record in records]).select(order)
        lower, upper = seen.ends(allowance, n)
        return Enclosure(
            lower=torch.from_numpy(lower),
            upper=torch.from_numpy(upper),
            failure=self.failure,
            status=tuple(statuses[i] for i in order),
            vector=vectors[torch.from_numpy(order).to(vectors.device)],
            steps=torch.from_numpy(seen.section.steps),
            residual=torch.from_numpy(seen.residual),
        )


_Reader = Callable[[Section, int, float], "_Reading"]

# A GPU waits for the small eigenproblem, and in a few steps nothing converges.
CHECK_EVERY, FIRST_CHECK = 2, 6
NEARLY = 0.999  # of the slack: the upper end that is reported then is placed from above, on a grid


@dataclass(frozen=True)
class _Record:
    """Samples that finished together, by their places in the batch."""

    rows: Int64[np.ndarray, " kept"]
    seen: "_Reading"
    status: tuple[SolverStatus, ...]
    vector: Float[Tensor, "kept n"]


@dataclass(frozen=True)
class _Reading:
    """What T says: the lower end, the Ritz vector in the Krylov basis, its relative residual, how far lower may still rise (an
    estimate), and the modulus of the spectrum, to which rounding is relative.

    The upper end is dearer and left for later. It follows from the section, the mass to count with, and the Ritz values `heads` at the
    ends that matter: the top one, and of a symmetric map that of its negative; with `power` 2 it is the root of that.
    """

    lower: Float64[np.ndarray, " b"]
    coefficients: Float64[np.ndarray, "b k"]
    residual: Float64[np.ndarray, " b"]
    rise: Float64[np.ndarray, " b"]
    scale: Float64[np.ndarray, " b"]
    section: Section
    mass: Float64[np.ndarray, " b"]
    heads: Float64[np.ndarray, "b ends"]
    power: int = 1

    def select(self, keep: Int64[np.ndarray, " kept"]) -> "_Reading":
        picked: dict[str, Any] = {name: getattr(self, name)[keep] for name in _COLUMNS}
        return replace(self, **picked, coefficients=self.coefficients[keep], section=self.section.select(keep))

    @staticmethod
    def joined(parts: Sequence["_Reading"]) -> "_Reading":
        """One after the other, without the vectors."""
        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        section = Section.joined([part.section for part in parts])
        return replace(parts[0], **columns, coefficients=np.empty((len(columns["lower"]), 0)), section=section)

    def below(self, x: Float64[np.ndarray, " b"]) -> Bool[np.ndarray, " b"]:
        """Whether the upper end is at most x."""
        return np.all(self._each_below(np.maximum(x, 0) ** self.power), axis=1)

    def ends(self, allowance: float, n: int) -> tuple[Float64[np.ndarray, " b"], Float64[np.ndarray, " b"]]:
        """Both ends, moved outwards by what rounding may do; where the space was the whole space, lower was exact but for that."""
        upper = np.maximum(self._upper(), 0) ** (1 / self.power)
        upper = np.where(self.section.steps == n, self.lower, upper)
        margin = allowance * self.scale
        return self.lower - margin, upper + margin

    def _upper(self) -> Float64[np.ndarray, " b"]:
        """The largest U of the ends: that of the largest Ritz value, unless another one is not below it."""
        first = self.heads.argmax(axis=1)
        upper = upper_end(self.section, self.heads.max(axis=1), self.mass, _SIGNS[first])
        below_first = self._each_below(upper)
        for end in range(self.heads.shape[1]):
            unsure = ((first != end) & ~below_first[:, end]).nonzero()[0]
            if len(unsure):
                part = self.select(unsure)
                sign = np.full(len(unsure), _SIGNS[end])
                upper[unsure] = np.maximum(upper[unsure], upper_end(part.section, part.heads[:, end], part.mass, sign))
        return upper

    def _each_below(self, x: Float64[np.ndarray, " b"]) -> Bool[np.ndarray, "b ends"]:
        """Whether the U of each end is at most x."""
        return (x[:, None] >= self.heads) & below(self.section, self.mass, x, _SIGNS[: self.heads.shape[1]])


_COLUMNS = ("lower", "residual", "rise", "scale", "mass", "heads")
_SIGNS = np.array([1.0, -1.0])


def _top(section: Section, n: int, failure: float) -> _Reading:
    return _end(section, *_ritz(section), block_mass(section, n, failure))


def _root_of_top(section: Section, n: int, failure: float) -> _Reading:
    """xi_max of J from the top of P = J^T J."""
    top = _top(section, n, failure)
    lower = np.sqrt(np.maximum(top.lower, 0))
    rise = np.sqrt(np.maximum(top.lower + top.rise, 0)) - lower
    return replace(top, lower=lower, rise=rise, scale=lower, power=2)


def _both_ends(section: Section, n: int, failure: float) -> _Reading:
    """xi_max of a symmetric J: the end with the larger modulus."""
    values, vectors = _ritz(section)
    mass = block_mass(section, n, failure)
    top, bottom = _end(section, values, vectors, mass), _end(section, -values[:, ::-1], vectors[:, :, ::-1], mass)
    up = top.lower >= bottom.lower
    lower = np.maximum(top.lower, bottom.lower)
    return replace(
        top,
        lower=lower,
        coefficients=np.where(up[:, None], top.coefficients, bottom.coefficients),
        residual=np.where(up, top.residual, bottom.residual),
        rise=np.maximum(top.lower + top.rise, bottom.lower + bottom.rise) - lower,
        heads=np.concatenate([top.heads, bottom.heads], axis=1),
    )


def _end(
    section: Section,
    values: Float64[np.ndarray, "b k"],
    vectors: Float64[np.ndarray, "b k k"],
    mass: Float64[np.ndarray, " b"],
) -> _Reading:
    theta, coefficients = values[:, -1], vectors[:, :, -1]
    residual = section.beta[:, -1] * np.abs(coefficients[:, -1])
    gap = theta - values[:, -2] if values.shape[1] > 1 else np.zeros_like(theta)
    rise = residual * np.divide(residual, gap, out=np.ones_like(gap), where=gap > residual)
    relative = np.divide(residual, np.abs(theta), out=np.zeros_like(theta), where=theta != 0)
    scale = np.abs(values).max(axis=1)
    return _Reading(theta, coefficients, relative, rise, scale, section, mass, theta[:, None])


def _ritz(section: Section) -> tuple[Float64[np.ndarray, "b k"], Float64[np.ndarray, "b k k"]]:
    """Eigenvalues of T, ascending, and eigenvectors."""
    b, k = section.alpha.shape
    T = np.zeros((b, k, k))
    along = np.arange(k)
    T[:, along, along] = section.alpha
    T[:, along[1:], along[:-1]] = section.beta[:, :-1]  # the lower triangle is all that is read
    values, vectors = torch.linalg.eigh(torch.from_numpy(T))  # numpy's threads would fight with torch's for the cores
    return values.numpy(), vectors.numpy()


def _statuses(reached: Bool[np.ndarray, " kept"], *, exhausted: bool) -> tuple[SolverStatus, ...]:
    otherwise = SolverStatus.EXHAUSTED if exhausted else SolverStatus.STEP_LIMIT
    return tuple(SolverStatus.CONVERGED if flag else otherwise for flag in reached)
