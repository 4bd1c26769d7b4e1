"""The summary of a `bound` run: per eps, what the bounds are on average and in the tail, and what they promise."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from attrcert.columns import DEGREES, Cell, Column, Row, headlines
from attrcert.reporting.summaries.statistics import (
    InCase,
    Statistic,
    by_part,
    figures,
    grouped,
    key_columns,
    number,
    usable,
)
from attrcert.reporting.tables.text_table import TextTable, told
from attrcert.vocabulary import Guarantee, Status, round_up


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


FIGURES = ("of", "bounds", "figures")


@dataclass(frozen=True)
class EpsSummary(ByColumn, InCase):
    """All samples at one eps."""

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
    """Rows grouped by eps, in the order in which they came; each sample's status is its worst over all its rows."""
    whole = list(rows)
    per_eps = tuple(
        _at(dict(of), float(eps or 0), at_eps)
        for of, part in by_part(whole).items()
        for eps, at_eps in grouped(part, lambda row: row.get("eps")).items()
    )
    samples = grouped(whole, lambda row: row["index"]).values()
    worst = Counter(max((str(row["status"]) for row in sample), key=_severity) for sample in samples)
    return Summary(facts, per_eps, dict(worst), sum(any(map(is_wrong, sample)) for sample in samples))


def is_wrong(row: Row) -> bool:
    return row.get("correct") is False


def measured_beyond(rows: Iterable[Row]) -> tuple[int, int]:
    """On how many samples the change that was measured at the worst perturbation found (c times the linear one) exceeds T_e, of all
    that have both.
    """
    found: dict[object, bool] = {}
    for row in rows:
        c, attained, bound = row.get("c"), row.get("T_e_attained"), row.get("T_e")
        if c is not None and attained is not None and bound is not None:
            found[row["index"]] = found.get(row["index"], False) or number(c) * number(attained) > number(bound)
    return sum(found.values()), len(found)


def counts_text(status: Mapping[str, int], misclassified: int) -> str:
    """How many samples ended how, most first, and how many of them are misclassified, however they ended."""
    counts = ", ".join(f"{n} {word}" for word, n in sorted(status.items(), key=lambda item: -item[1]))
    return counts + (f"; {misclassified} misclassified" if misclassified else "")


def _severity(status: str) -> int:
    order = tuple(Status)
    return order.index(Status(status)) if status in order else len(order)


def _at(of: Mapping[str, Cell], eps: float, rows: Sequence[Row]) -> EpsSummary:
    good = usable(rows)
    ratios = [number(row["T_e"]) / number(row["T_e_attained"]) for row in good if row.get("T_e_attained")]
    return EpsSummary(
        of=of,
        eps=eps,
        samples=len(rows),
        status=dict(Counter(str(row["status"]) for row in rows)),
        misclassified=sum(map(is_wrong, rows)),
        figures={column.name: _statistic(good, column) for column in headlines("bound")},
        c=Statistic.of(figures(good, "c")),
        looseness=Statistic.of(ratios),
        label_lost=sum(row.get("label_kept") == "none" for row in good),
        winners=dict(Counter(str(row["linf_method"]) for row in good if row.get("linf_method"))),
    )


def _statistic(rows: Sequence[Row], column: Column) -> Statistic:
    """Rows that nothing bounds lie beyond every figure."""
    found = figures(rows, column.name)
    return Statistic.of(found, beyond=0 if column.lacking is None else len(rows) - len(found))


def bound_tables(summary: Summary) -> tuple[TextTable, ...]:
    """A line per eps and figure, or where there are several attributions or norms, a table per statistic with a line for each; upper
    figures are rounded up, so that none claims more than was computed.
    """
    title = "How far the attribution can be moved: " + (
        "proved bounds beside first-order estimates" if _proved(summary) else "first-order estimates, not certificates"
    )
    if any(part.of for part in summary.per_eps):
        first, *others, last = (
            _statistics(summary, name, f"{words} over the samples") for name, words in NAMES.items()
        )
        first = replace(first, title=f"{title}. {first.title}", facts=summary.told())
        return (first, *others, replace(last, notes=tuple(_notes(summary))))
    whole = TextTable(
        title=title,
        facts=summary.told(),
        header=("eps", "figure", "guarantee", "mean", "median", "p95", "max", "n"),
        cells=tuple(line for part in summary.per_eps for line in _lines(part)),
        keys=2,
        notes=tuple(_notes(summary)),
    )
    return (whole,)


NAMES = {"mean": "Means", "median": "Medians", "p95": "95th percentiles", "max": "Largest"}


def _statistics(summary: Summary, statistic: str, title: str) -> TextTable:
    """One of all figures, of each attribution, norm and eps."""

    def cell(column: Column) -> Callable[[EpsSummary], str]:
        return lambda part: _figure(part, column, statistic)

    columns = shown("bound", lambda name: any(part.figures[name].count for part in summary.per_eps))
    figures = {column.name: cell(column) for column in columns}
    samples = {"samples": lambda part: str(part.samples)}
    keys = key_columns(summary.per_eps)
    return TextTable.of(title, summary.per_eps, {**keys, **figures, **samples}, keys=len(keys))


def _figure(part: EpsSummary, column: Column, statistic: str) -> str:
    """With the number of samples that a mean is over, where that is not all."""
    found = part.figures[column.name]
    some = statistic == "mean" and 0 < found.count < part.samples
    rounded = _degrees if column.unit == DEGREES else round_up
    return told(getattr(found, statistic), rounded) + (f" (n={found.count})" if some else "")


def _proved(summary: Summary) -> bool:
    proved = [column.name for column in headlines("bound") if column.guarantee is Guarantee.PROVED]
    return any(part.figures[name].count for part in summary.per_eps for name in proved)


def shown(command: str, present: Callable[[str], bool]) -> list[Column]:
    """The headlines that every run has, and those that were asked for together with one that is `present`."""
    columns = headlines(command)
    asked = {column.asked for column in columns if present(column.name)}
    return [column for column in columns if column.asked is None or column.asked in asked]


def _lines(part: EpsSummary) -> Iterable[tuple[str, ...]]:
    for place, column in enumerate(shown("bound", lambda name: part.figures[name].count > 0)):
        guarantee = str(column.guarantee or "-")
        rounded = _degrees if column.unit == DEGREES else round_up
        eps = f"{part.eps:.4g}" if not place else ""
        yield (eps, column.name, guarantee, *_figures(part.figures[column.name], rounded))
    if part.winners:
        yield ("", "T_e/attained", Guarantee.FIRST_ORDER, *_figures(part.looseness, round_up))


def _figures(statistic: Statistic, rounded: Callable[[float, int], str]) -> tuple[str, ...]:
    count, *values = astuple(statistic)
    return (*(told(value, rounded) for value in values), str(count))


def _notes(summary: Summary) -> Iterable[str]:
    for part in summary.per_eps:
        yield f"{part.where}, {part.samples} samples: {counts_text(part.status, part.misclassified)}."
    columns = shown("bound", lambda name: any(part.figures[name].count for part in summary.per_eps))
    yield from filter(None, (_note(column) for column in columns))
    for part in summary.per_eps:
        for column in reversed(columns):  # the strongest first
            without = part.figures[column.follows].count - part.figures[column.name].count if column.empty else 0
            if without:
                yield f"{part.where}: {column.empty.format(without)}"
        if part.winners:
            methods = ", ".join(f"{name} on {n}" for name, n in part.winners.items())
            mean = f" (mean {told(part.looseness.mean, round_up)})" if part.of else ""
            yield (
                f"{part.where}: smallest linf bound by {methods}; T_e/attained{mean} compares it with T_e_attained, "
                "what the worst perturbation found reaches in the linearised attribution."
            )
        if part.label_lost:
            yield f"{part.where}: both signs of the worst perturbation found change the label of {part.label_lost} samples."


def _note(column: Column) -> str:
    """What a headline figure is worth."""
    promised = column.promised
    if column.note is None:
        worth = f"{column.name}, {promised}: {promised.meaning}" if promised else f"{column.name}: {column.meaning}"
        return f"{worth}."
    return column.note.format(promised)


def _degrees(value: float, _: int) -> str:
    return f"{Decimal(value).quantize(Decimal('0.1'), ROUND_CEILING)}°"
