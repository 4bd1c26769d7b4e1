"""The summary of a `score` run: of each metric and eps the figures that its rows have, over the samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from attrcert.columns import METRIC, Column, Row, headlines
from attrcert.reporting.summaries.bounds import Summary, counts_text
from attrcert.reporting.summaries.statistics import LowStatistic, Statistic, by_part, figures, grouped, usable
from attrcert.reporting.tables.text_table import TextTable, plain, told
from attrcert.vocabulary import MEASURED, Guarantee


@dataclass(frozen=True)
class ScoreSummary:
    """A figure of a metric at one eps, if it has any; `of` are its attribution and its norm where the run has several."""

    of: Mapping[str, str]
    metric: str
    eps: float | None
    column: Column
    statistic: Statistic | LowStatistic

    @property
    def case(self) -> tuple[str, ...]:
        """What tells it from others, but for the figure."""
        return (*self.of.values(), self.metric, "" if self.eps is None else f"{self.eps:.4g}")

    def as_json(self) -> dict[str, Any]:
        case = {"metric": self.metric, **({} if self.eps is None else {"eps": self.eps})}
        return {**self.of, **case, "guarantee": self.column.guarantee, self.column.name: asdict(self.statistic)}


def summarise_scores(rows: Sequence[Row]) -> tuple[ScoreSummary, ...]:
    """In the order in which the rows came; samples that failed, and those without the figure, are left out."""
    return tuple(
        ScoreSummary(
            {name: str(cell) for name, cell in of},
            str(metric),
            eps if isinstance(eps, float) else None,
            column,
            _statistic(column, case),
        )
        for of, part in by_part(usable(rows)).items()
        for (metric, eps), case in grouped(part, lambda row: (row.get(METRIC.name), row.get("eps"))).items()
        for column in headlines("score")
        if figures(case, column.name)
    )


def _statistic(column: Column, rows: Sequence[Row]) -> Statistic | LowStatistic:
    """Rows that nothing bounds lie beyond every figure."""
    found = figures(rows, column.name)
    if column.worse == "down":
        return LowStatistic.of(found)
    return Statistic.of(found, beyond=0 if column.lacking is None else len(rows) - len(found))


def score_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """A line for each figure."""
    found = summarise_scores(rows)
    keys = (*(found[0].of if found else ()), METRIC.name, "eps", "figure")
    lines, before = [], tuple[str, ...]()
    for one in found:
        case = one.case if one.case != before else ("",) * len(one.case)
        count, *statistics, _ = astuple(one.statistic)
        lines.append((*case, one.column.name, *(told(value, plain) for value in statistics), str(count)))
        before = one.case
    return TextTable(
        title="How good and how stable the attribution is",
        header=(*keys, "mean", "median", "worst 5 %", "n"),
        cells=tuple(lines),
        facts=summary.told(),
        notes=tuple(_notes(summary, found)),
        keys=len(keys),
    )


def _notes(summary: Summary, found: Sequence[ScoreSummary]) -> Iterable[str]:
    yield f"{summary.samples} samples: {counts_text(summary.status, summary.misclassified)}."
    for column in {one.column.name: one.column for one in found}.values():
        better = "larger" if column.worse == "down" else "smaller"
        yield f"{column.name}, {column.guarantee}, {better} is better: {column.meaning}."
    for guarantee in Guarantee:
        if guarantee in {one.column.promised for one in found}:
            yield f"{guarantee}: {MEASURED if guarantee is Guarantee.EMPIRICAL else guarantee.meaning}."
    yield "worst 5 %: on 5 % of the samples the figure is as bad, or worse."
