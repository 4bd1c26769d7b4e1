"""The summary of a `bound` run: per eps, what the bounds are on average and in the tail, and what they promise."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from attrcert.columns import DEGREES, Cell, Column, Row, headlines
from attrcert.reporting.tables.text_table import TextTable
from attrcert.vocabulary import Guarantee, Status, round_up


@dataclass(frozen=True)
class Statistic:
    """Of one figure over the samples: mean, median, 95th percentile, largest; None where no sample has the figure."""

    count: int
    mean: float | None
    median: float | None
    p95: float | None
    max: float | None

    @staticmethod
    def of(values: Sequence[float], *, beyond: int = 0) -> "Statistic":
        """`beyond` samples lie above every value: they count in the percentiles, which are None where they reach them."""
        ordered = sorted(values)
        total = len(ordered) + beyond

        def at(q: float) -> float | None:
            place = math.ceil(q * total) - 1  # the smallest value that a share of q does not exceed
            return ordered[place] if 0 <= place < len(ordered) else None

        largest = ordered[-1] if ordered and not beyond else None
        return Statistic(len(ordered), mean(ordered), _median(ordered, beyond), at(0.95), largest)


def _median(ordered: Sequence[float], beyond: int) -> float | None:
    """The middle value, or the mean of the middle two; None where a sample beyond is one of them."""
    total = len(ordered) + beyond
    if total == 0 or total // 2 >= len(ordered):
        return None
    return (ordered[(total - 1) // 2] + ordered[total // 2]) / 2


@dataclass(frozen=True)
class ByColumn:
    """A dataclass whose mappings `figures` and `bounds` have attributes by their columns' names, which JSON has in their place."""

    def __getattr__(self, name: str) -> Any:
        for key in FIGURES:
            if name in vars(self).get(key, {}):
                return vars(self)[key][name]
        raise AttributeError(f"{name} is no headline figure")

    def as_json(self) -> dict[str, Any]:
        flat = ((value if key in FIGURES else {key: value}).items() for key, value in asdict(self).items())
        return dict(item for part in flat for item in part)


FIGURES = ("bounds", "figures")


@dataclass(frozen=True)
class EpsSummary(ByColumn):
    """All samples at one eps."""

    eps: float
    samples: int
    status: Mapping[str, int]
    misclassified: int
    figures: Mapping[str, Statistic]
    c: Statistic
    looseness: Statistic
    label_lost: int
    winners: Mapping[str, int]


@dataclass(frozen=True)
class Summary:
    """A run: what was bounded, and the figures per eps."""

    facts: Mapping[str, Any]
    per_eps: tuple[EpsSummary, ...]
    status: Mapping[str, int]
    misclassified: int = 0

    @property
    def incomplete(self) -> int:
        """Samples without a trustworthy figure."""
        return sum(
            n for status, n in self.status.items() if status.startswith("error:") or status == Status.NOT_CONVERGED
        )

    @property
    def samples(self) -> int:
        return sum(self.status.values())

    def told(self, *without: str) -> tuple[str, ...]:
        """The facts in words."""
        known = {name: value for name, value in self.facts.items() if value is not None and name not in without}
        return tuple(f"{name}: {value}" for name, value in known.items())

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "per_eps": [part.as_json() for part in self.per_eps]}


def summarise(rows: Iterable[Row], facts: Mapping[str, Any]) -> Summary:
    """Rows grouped by eps, in the order in which they came; each sample's status is its worst over eps."""
    groups: dict[Cell, list[Row]] = {}
    worst: dict[Cell, str] = {}
    wrong: set[Cell] = set()
    for row in rows:
        if row.get("correct") is False:
            wrong.add(row["index"])
        groups.setdefault(row.get("eps"), []).append(row)
        status = str(row["status"])
        if row["index"] not in worst or _severity(status) > _severity(worst[row["index"]]):
            worst[row["index"]] = status
    per_eps = tuple(_at(float(eps or 0), group) for eps, group in groups.items())
    return Summary(facts, per_eps, dict(Counter(worst.values())), len(wrong))


def counts_text(status: Mapping[str, int], misclassified: int) -> str:
    """How many samples ended how, most first, and how many of them are misclassified, however they ended."""
    counts = ", ".join(f"{n} {word}" for word, n in sorted(status.items(), key=lambda item: -item[1]))
    return counts + (f"; {misclassified} misclassified" if misclassified else "")


def _severity(status: str) -> int:
    order = tuple(Status)
    return order.index(Status(status)) if status in order else len(order)


def _at(eps: float, rows: Sequence[Row]) -> EpsSummary:
    usable = [row for row in rows if not str(row["status"]).startswith("error:")]
    ratios = [number(row["T_e"]) / number(row["T_e_attained"]) for row in usable if row.get("T_e_attained")]
    return EpsSummary(
        eps=eps,
        samples=len(rows),
        status=dict(Counter(str(row["status"]) for row in rows)),
        misclassified=sum(row.get("correct") is False for row in rows),
        figures={column.name: _statistic(usable, column) for column in headlines("bound")},
        c=Statistic.of(figures(usable, "c")),
        looseness=Statistic.of(ratios),
        label_lost=sum(row.get("label_kept") == "none" for row in usable),
        winners=dict(Counter(str(row["linf_method"]) for row in usable if row.get("linf_method"))),
    )


def figures(rows: Sequence[Row], name: str) -> list[float]:
    return [number(row[name]) for row in rows if row.get(name) is not None]


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _statistic(rows: Sequence[Row], column: Column) -> Statistic:
    """Rows that nothing bounds lie beyond every figure."""
    found = figures(rows, column.name)
    return Statistic.of(found, beyond=0 if column.lacking is None else len(rows) - len(found))


def number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


def bound_table(summary: Summary) -> TextTable:
    """A line per eps and figure, each with its guarantee; upper figures are rounded up, so that none claims more than was computed."""
    return TextTable(
        title="How far the attribution can be moved: "
        + (
            "proved bounds beside first-order estimates"
            if _proved(summary)
            else "first-order estimates, not certificates"
        ),
        facts=summary.told(),
        header=("eps", "figure", "guarantee", "mean", "median", "p95", "max", "samples"),
        cells=tuple(line for part in summary.per_eps for line in _lines(part)),
        notes=tuple(_notes(summary)),
    )


def _proved(summary: Summary) -> bool:
    proved = [column.name for column in headlines("bound") if column.guarantee is Guarantee.PROVED]
    return any(part.figures[name].count for part in summary.per_eps for name in proved)


def shown(command: str, present: Callable[[str], bool]) -> list[Column]:
    """The headlines that every run has, and those that were asked for together with one that is `present`."""
    columns = headlines(command)
    asked = {column.asked for column in columns if present(column.name)}
    return [column for column in columns if column.asked is None or column.asked in asked]


def _lines(part: EpsSummary) -> Iterable[tuple[str, ...]]:
    for number, column in enumerate(shown("bound", lambda name: part.figures[name].count > 0)):
        guarantee = str(column.guarantee or "-")
        text = _degrees if column.unit == DEGREES else _up
        label = column.title.removeprefix(f"{guarantee} ")  # the next cell says that
        yield (f"{part.eps:.4g}" if not number else "", label, guarantee, *_figures(part.figures[column.name], text))
    if part.winners:
        yield ("", "T_e/found", Guarantee.FIRST_ORDER, *_figures(part.looseness, _up))


def _figures(statistic: Statistic, text: Callable[[float | None], str]) -> tuple[str, ...]:
    figures = (statistic.mean, statistic.median, statistic.p95, statistic.max)
    return (*(text(figure) for figure in figures), str(statistic.count))


def _notes(summary: Summary) -> Iterable[str]:
    for part in summary.per_eps:
        yield f"eps {part.eps:.4g}, {part.samples} samples: {counts_text(part.status, part.misclassified)}."
    columns = shown("bound", lambda name: any(part.figures[name].count for part in summary.per_eps))
    yield from filter(None, (_note(column) for column in columns))
    for part in summary.per_eps:
        for column in reversed(columns):  # the strongest first
            without = part.figures[column.follows].count - part.figures[column.name].count if column.empty else 0
            if without:
                yield f"eps {part.eps:.4g}: {column.empty.format(without)}"
        if part.winners:
            methods = ", ".join(f"{name} on {n}" for name, n in part.winners.items())
            yield (
                f"eps {part.eps:.4g}: smallest linf bound by {methods}; T_e/found compares it with "
                "what the worst perturbation found reaches in the linearised attribution."
            )
        if part.label_lost:
            yield f"eps {part.eps:.4g}: both signs of the worst perturbation found change the label of {part.label_lost} samples."


def _note(column: Column) -> str:
    """What a headline figure is worth."""
    promised = column.promised
    if column.note is None:
        worth = f"{column.title}, {promised}: {promised.meaning}" if promised else f"{column.title}: {column.meaning}"
        return f"{worth}."
    return column.note.format(promised)


def _up(value: float | None) -> str:
    return "-" if value is None else round_up(value, 4)


def _degrees(value: float | None) -> str:
    return "-" if value is None else f"{Decimal(value).quantize(Decimal('0.1'), ROUND_CEILING)}°"
