"""What `max-eps`, `min-radius` and smoothing certificates found, per case: statistics of the figure, and how many samples have it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attrcert.columns import COLUMNS, Cell, Row
from attrcert.reporting.summaries.statistics import (
    LowStatistic,
    Statistic,
    by_part,
    figures,
    grouped,
    mean,
    number,
    usable,
)
from attrcert.vocabulary import Guarantee, Status

KEYS = {  # what the rows of a case share, by the figure that was asked for
    "cosine": ("radius", "eps", "threshold"),
    "eps_max": ("radius", "threshold_kind", "threshold"),
    "radius_min": ("eps", "threshold"),
}


@dataclass(frozen=True)
class CaseSummary:
    """The usable samples of one case; `of` are its attribution and its norm where the run has several. `met` have the figure, and meet
    the threshold if there is one; `ratio` is the mean C_lower/M, `chosen` counts the radii that a choice fell on.
    """

    of: Mapping[str, Cell]
    case: Mapping[str, Cell]
    figure: str
    statistic: LowStatistic | Statistic
    samples: int
    met: int
    status: Mapping[str, int]
    ratio: float | None
    angle_deg: float | None
    chosen: Mapping[float, int]
    guarantee: str

    def as_json(self) -> dict[str, Any]:
        """`certified` is said of what holds with confidence or by proof alone."""
        promised = self.guarantee in (Guarantee.CONFIDENCE, Guarantee.PROVED)
        return {
            **self.of,
            **self.case,
            "guarantee": self.guarantee,
            "samples": self.samples,
            "certified" if promised else "met": self.met,
            "abstained": self.status.get(Status.ABSTAINED, 0),
            "infeasible": self.status.get(Status.INFEASIBLE, 0),
            "status": dict(self.status),
            self.figure: asdict(self.statistic),
            "C_lower/M": self.ratio,
            "angle_deg": self.angle_deg,
            "chosen": {f"{radius:g}": count for radius, count in self.chosen.items()} or None,
        }


def asked_for(rows: Sequence[Row]) -> str:
    """The figure that the rows are about: cosine, eps_max or radius_min."""
    if any(row.get("radii_tried") and row.get("eps") is not None for row in rows):
        return "radius_min"
    return "eps_max" if any(row.get("threshold") is not None and row.get("eps") is None for row in rows) else "cosine"


def summarise_cases(rows: Sequence[Row]) -> tuple[CaseSummary, ...]:
    """Per case, without the samples that failed, in the order in which they came."""
    figure = asked_for(rows)
    good = usable(rows)
    keys = tuple(key for key in KEYS[figure] if key != "radius" or not any(row.get("radii_tried") for row in good))
    return tuple(
        _summary(dict(of), dict(zip(keys, case, strict=True)), figure, group)
        for of, part in by_part(good).items()
        for case, group in grouped(part, lambda row: tuple(row.get(key) for key in keys)).items()
    )


def _summary(of: Mapping[str, Cell], case: Mapping[str, Cell], figure: str, rows: Sequence[Row]) -> CaseSummary:
    found = figures(rows, figure)
    missing = len(rows) - len(found)
    refused = {Status.ABSTAINED, Status.INFEASIBLE, Status.NOT_CONVERGED}
    refused |= {Status.VACUOUS} if figure == "cosine" else set()
    column = next(column for column in COLUMNS["certify"] if column.name == figure)
    endless = column.lacking is None  # an eps that nothing limits is empty, and so is a cosine where nothing follows
    statistic: LowStatistic | Statistic = Statistic.of(found, beyond=missing)
    if column.worse == "down":
        statistic = LowStatistic.of(found, below=0 if endless else missing, above=missing if endless else 0)
    lengths = [
        number(row["C_lower"]) / number(row["M"]) for row in rows if row.get("M") and row.get("C_lower") is not None
    ]
    return CaseSummary(
        of=of,
        case={name: cell for name, cell in case.items() if cell is not None},
        figure=figure,
        statistic=statistic,
        samples=len(rows),
        met=sum(row["status"] not in refused and (endless or row.get(figure) is not None) for row in rows),
        status=dict(Counter(str(row["status"]) for row in rows)),
        ratio=mean(lengths),
        angle_deg=mean(figures(rows, "angle_deg")),
        chosen=dict(sorted(Counter(number(row["radius"]) for row in rows if row.get("radii_tried")).items())),
        guarantee=str(rows[0].get("guarantee") or Guarantee.FIRST_ORDER.value),
    )
