"""`max-eps` from the first-order or proved bounds of one batch: the largest eps at which the bound keeps a threshold.

The bound is proportional to eps, so eps = deviation / upper. An angle a or a cosine distance w allows the deviation |g| sin(a) or
|g| sqrt(w (2 - w)), a share of the k largest entries what `geometry.top_k` says. With the correction c(eps) the bound is
c(eps) upper eps, and eps is searched for.

Departures: the paper's Eqs. 51 and 52 lack squares, and give radii at which the threshold is exceeded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import radians, sin, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.bound import ProvedBound
from attrcert.columns import Cell, Row
from attrcert.running.evaluating.bounding import Bounds
from attrcert.running.evaluating.cells import Bounded
from attrcert.running.evaluating.consequences import Consequences
from attrcert.running.evaluating.proved_inverting import largest_proved_eps
from attrcert.running.evaluating.subjects import Subject
from attrcert.running.evaluating.work import Deltas, Rows
from attrcert.settings.tasks import MaxEpsConfig
from attrcert.vocabulary import Guarantee, Status

BELOW = 1e-12  # relative: eps is rounded down
SEARCH_STEPS = 30


def allowed(
    kind: str, threshold: float, lengths: Float[Tensor, " b"], maps: Callable[[], Consequences]
) -> Float[Tensor, " b"]:
    """The deviation that a threshold allows for attributions of these lengths; `maps` are asked only for their largest entries."""
    if kind == "top-k":
        return maps().deviation_keeping(threshold)
    if kind == "deviation":
        return torch.full_like(lengths, threshold)
    return lengths * (sin(radians(threshold)) if kind == "angle" else sqrt(threshold * (2 - threshold)))


def largest_eps(bounded: Bounded, deviation: Float[Tensor, " b"], *, corrected: bool) -> Float[Tensor, " b"]:
    """eps with bound(eps) <= deviation; infinite where the linearised attribution does not move at all, 0 where no bound of it is known.

    With the correction it is an eps at which the corrected bound is kept, never above the plain one; c need not rise with eps, so that
    below it the bound may be exceeded.
    """
    upper = bounded.worst.upper
    plain = torch.where(upper.isnan(), 0.0, torch.where(upper == 0, torch.inf, deviation / upper * (1 - BELOW)))
    if not corrected or not bool(plain.isfinite().any()):
        return plain
    still, plain = plain.isinf(), torch.where(plain.isinf(), 1.0, plain)
    low, high = torch.zeros_like(plain), plain  # c >= 1, so that the answer is not above the plain one
    inside = bounded.linearisation.ratio(high) * bounded.worst.upper * high <= deviation
    low = torch.where(inside, high, low)
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        kept = bounded.linearisation.ratio(middle) * bounded.worst.upper * middle <= deviation
        low, high = torch.where(kept, middle, low), torch.where(kept, high, middle)
    return torch.where(still, torch.inf, low)


def _row(
    bounded: Bounded, config: MaxEpsConfig, i: int, kind: str, threshold: float, eps: float, deviation: float
) -> Row:
    cells: dict[str, Cell] = {
        **bounded.common(i),
        **bounded.solver_cells(i),
        "status": bounded.status(i, vacuous=False).value,
        **({"guarantee": Guarantee.CORRECTED.value} if config.thresholds.corrected else {}),
        "threshold_kind": kind,
        "threshold": threshold,
        "eps_max": eps if eps < float("inf") else None,
        "deviation_allowed": deviation if deviation < float("inf") else None,
    }
    if config.bounding.proved and eps >= bounded.subject.farthest:
        cells["status"] = Status.EVERYWHERE.value
    if eps == float("inf"):  # J = 0: no first-order figure limits eps; or no change of the map breaks the threshold
        cells["status"] = (Status.EVERYWHERE if deviation == float("inf") else Status.VACUOUS).value
    if not bounded.worst.upper[i].isfinite():
        cells["status"] = Status.NOT_CONVERGED.value
    return cells


@dataclass(frozen=True)
class Inversions(Bounds[MaxEpsConfig]):
    """One row per threshold."""

    def rows_of(self, subject: Subject, save: Deltas | None) -> Rows:
        bounded = self.bounded(subject)
        rows: Rows = {index: [] for index in subject.batch.indices}
        lengths = subject.explained.value.double().norm(dim=1).cpu()
        suffix = "_proved" if self.config.bounding.proved else "_corrected" if self.config.thresholds.corrected else ""
        for kind, threshold in self.config.thresholds.pairs:
            deviation = allowed(kind, threshold, lengths, lambda: bounded.consequences)
            eps = largest_eps(bounded, deviation, corrected=self.config.thresholds.corrected)
            figures = bounded.consequences.cells(deviation.tolist(), suffix)
            if self.config.bounding.proved:
                allowance = self._proved_allowance(bounded, kind, threshold)
                eps, deviation, bound = largest_proved_eps(subject, allowance, eps)
                figures = bounded.consequences_of(bound.value).cells((deviation + bound.off.cpu()).tolist(), suffix)
            for i, index in enumerate(subject.batch.indices):
                row = _row(bounded, self.config, i, kind, threshold, float(eps[i]), float(deviation[i]))
                rows[index].append({**row, **{name: cells[i] for name, cells in figures.items()}})
        return rows

    def _proved_allowance(self, bounded: Bounded, kind: str, threshold: float) -> Callable[[ProvedBound], Tensor]:
        """What a threshold allows, less what rounding took of the map."""

        def of(bound: ProvedBound) -> Tensor:
            lengths, off = bound.length.cpu(), bound.off.cpu() if kind == "top-k" else 0.0
            return allowed(kind, threshold, lengths, lambda: bounded.consequences_of(bound.value)) - off

        return of
