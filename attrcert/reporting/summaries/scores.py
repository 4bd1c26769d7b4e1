"""The summary of a `score` run: of each metric and eps the figures that its rows have, over the samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from attrcert.columns import METRIC, Column, Row, headlines
from attrcert.reporting.summaries.bounds import Summary, counts_text
from attrcert.reporting.summaries.statistics import (
    LowStatistic,
    Statistic,
    by_part,
    figures,
    grouped,
    part_columns,
    usable,
)
from attrcert.reporting.tables.text_table import TextTable, plain, told

STATISTICS = ("mean", "median", "worst 5 %", "worst")


@dataclass(frozen=True)
class ScoreSummary:
    """A figure of a metric at one eps, if it has any; `of` are its attribution and its norm where the run has several."""

    of: Mapping[str, str]
    metric: str
    eps: float | None
    column: Column
    statistic: Statistic | LowStatistic

    def as_json(self) -> dict[str, Any]:
        case = {"metric": self.metric, **({} if self.eps is None else {"eps": self.eps})}
        return {**self.of, **case, "guarantee": self.column.guarantee, self.column.name: asdict(self.statistic)}


def summarise_scores(rows: Sequence[Row]) -> tuple[ScoreSummary, ...]:
    """In the order in which the rows came; samples that failed, and those without the figure, are left out."""
    return tuple(
        ScoreSummary(dict(of), str(metric), eps if isinstance(eps, float) else None, column, _statistic(column, found))
        for of, part in by_part(rows).items()
        for (metric, eps), case in grouped(part, lambda row: (row.get(METRIC.name), row.get("eps"))).items()
        for column in headlines("score")
        if (found := figures(usable(case), column.name))
    )


def _statistic(column: Column, found: Sequence[float]) -> Statistic | LowStatistic:
    return LowStatistic.of(found) if column.worse == "down" else Statistic.of(found)


def score_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """A line for each figure."""
    found = summarise_scores(rows)
    keys = {
        **part_columns(found),
        "metric": lambda one: one.metric,
        "eps": lambda one: "" if one.eps is None else f"{one.eps:.4g}",
        "figure": lambda one: one.column.name,
    }
    return TextTable.of(
        "How good and how stable the attribution is",
        found,
        {
            **keys,
            "guarantee": lambda one: str(one.column.guarantee or "-"),
            "better": lambda one: "larger" if one.column.worse == "down" else "smaller",
            **{name: _cell(place) for place, name in enumerate(STATISTICS, 1)},
            "n": lambda one: str(one.statistic.count),
        },
        facts=summary.told(),
        notes=_notes(summary, found),
        keys=len(keys),
    )


def _cell(place: int) -> Any:
    return lambda one: told(astuple(one.statistic)[place], plain)


def _notes(summary: Summary, found: Sequence[ScoreSummary]) -> Iterable[str]:
    yield f"{summary.samples} samples: {counts_text(summary.status, summary.misclassified)}."
    for column in {one.column.name: one.column for one in found}.values():
        yield f"{column.name}: {column.meaning}."
    yield f"worst 5 %, worst: of the samples, in the direction that is not `{'better'}`."
    for guarantee in dict.fromkeys(one.column.promised for one in found):
        if guarantee is not None:
            yield f"{guarantee}: {guarantee.meaning}."
