"""The summary of a `bound` run: per eps, what the bounds are on average and in the tail, and what they promise."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from attrcert.columns import Cell, Row
from attrcert.foreign import printable, printable_lines
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

        mean = math.fsum(ordered) / len(ordered) if ordered else None
        largest = ordered[-1] if ordered and not beyond else None
        return Statistic(len(ordered), mean, _median(ordered, beyond), at(0.95), largest)


def _median(ordered: Sequence[float], beyond: int) -> float | None:
    """The middle value, or the mean of the middle two; None where a sample beyond is one of them."""
    total = len(ordered) + beyond
    if total == 0 or total // 2 >= len(ordered):
        return None
    return (ordered[(total - 1) // 2] + ordered[total // 2]) / 2


@dataclass(frozen=True)
class EpsSummary:
    """All samples at one eps."""

    eps: float
    samples: int
    status: Mapping[str, int]
    misclassified: int
    T_e: Statistic
    T_e_corrected: Statistic
    T_e_ball: Statistic
    T_c_deg: Statistic
    T_proved: Statistic
    angle_proved_deg: Statistic
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
    ratios = [_number(row["T_e"]) / _number(row["T_e_attained"]) for row in usable if row.get("T_e_attained")]
    return EpsSummary(
        eps=eps,
        samples=len(rows),
        status=dict(Counter(str(row["status"]) for row in rows)),
        misclassified=sum(row.get("correct") is False for row in rows),
        T_e=Statistic.of(_column(usable, "T_e")),
        T_e_corrected=Statistic.of(_column(usable, "T_e_corrected")),
        T_e_ball=Statistic.of(_column(usable, "T_e_ball")),
        T_c_deg=Statistic.of(_column(usable, "T_c_deg"), beyond=_empty(usable, "T_c_deg")),
        T_proved=Statistic.of(_column(usable, "T_proved"), beyond=_empty(usable, "T_proved")),
        angle_proved_deg=Statistic.of(_column(usable, "angle_proved_deg"), beyond=_empty(usable, "angle_proved_deg")),
        c=Statistic.of(_column(usable, "c")),
        looseness=Statistic.of(ratios),
        label_lost=sum(row.get("label_kept") == "none" for row in usable),
        winners=dict(Counter(str(row["linf_method"]) for row in usable if row.get("linf_method"))),
    )


def _column(rows: Sequence[Row], name: str) -> list[float]:
    return [_number(row[name]) for row in rows if row.get(name) is not None]


def _empty(rows: Sequence[Row], name: str) -> int:
    return sum(row.get(name) is None for row in rows)


def _number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


WORDS = (
    "figure",
    "guarantee",
    "attack",
    "outcome",
    "rule",
    "where",
    "threshold",
)  # columns of text; others hold numbers


@dataclass(frozen=True)
class TextTable:
    """What every text format shows: a title, facts, a grid of cells, and notes below it."""

    title: str
    facts: tuple[str, ...]
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def bound_table(summary: Summary) -> TextTable:
    """A line per eps and figure, each with its guarantee; upper figures are rounded up, so that none claims more than was computed."""
    return TextTable(
        title="How far the attribution can be moved: "
        + (
            "proved bounds beside first-order estimates"
            if _proved(summary)
            else "first-order estimates, not certificates"
        ),
        facts=tuple(f"{name}: {value}" for name, value in summary.facts.items() if value is not None),
        header=("eps", "figure", "guarantee", "mean", "median", "p95", "max", "samples"),
        cells=tuple(line for part in summary.per_eps for line in _lines(part)),
        notes=tuple(_notes(summary)),
    )


def _proved(summary: Summary) -> bool:
    return any(part.T_proved.count for part in summary.per_eps)


def _lines(part: EpsSummary) -> Iterable[tuple[str, ...]]:
    yield (f"{part.eps:.4g}", "T_e", Guarantee.FIRST_ORDER, *_figures(part.T_e, _up))
    yield ("", "T'_e", Guarantee.CORRECTED, *_figures(part.T_e_corrected, _up))
    if part.T_e_ball.count:
        yield ("", "T_ball", Guarantee.CORRECTED, *_figures(part.T_e_ball, _up))
    yield ("", "T_c", Guarantee.FIRST_ORDER, *_figures(part.T_c_deg, _degrees))
    if part.T_proved.count:
        yield ("", "T_proved", Guarantee.PROVED, *_figures(part.T_proved, _up))
        yield ("", "angle", Guarantee.PROVED, *_figures(part.angle_proved_deg, _degrees))
    if part.winners:
        yield ("", "T_e/found", Guarantee.FIRST_ORDER, *_figures(part.looseness, _up))


def _figures(statistic: Statistic, text: Callable[[float | None], str]) -> tuple[str, ...]:
    figures = (statistic.mean, statistic.median, statistic.p95, statistic.max)
    return (*(text(figure) for figure in figures), str(statistic.count))


def _notes(summary: Summary) -> Iterable[str]:
    for part in summary.per_eps:
        yield f"eps {part.eps:.4g}, {part.samples} samples: {counts_text(part.status, part.misclassified)}."
    yield f"T_e, {Guarantee.FIRST_ORDER}: {Guarantee.FIRST_ORDER.meaning}."
    yield f"T'_e = c T_e, {Guarantee.CORRECTED}: {Guarantee.CORRECTED.meaning}."
    if any(part.T_e_ball.count for part in summary.per_eps):
        yield f"T_ball, {Guarantee.CORRECTED}: eps times the largest gain found in the ball. A search, not a certificate."
    yield "T_c: the angle in degrees that T_e allows between the two attributions, first-order like it."
    if _proved(summary):
        yield (
            f"T_proved, {Guarantee.PROVED}: {Guarantee.PROVED.meaning}, whatever an attack does; angle is what it allows. "
            "The other figures are not guarantees."
        )
    for part in summary.per_eps:
        unproved = part.T_proved.count - part.angle_proved_deg.count
        if unproved:
            yield (
                f"eps {part.eps:.4g}: T_proved reaches |g| on {unproved} samples, of which no angle is proved; they lie beyond "
                "every percentile of it and are not in its mean."
            )
        vacuous = part.T_e.count - part.T_c_deg.count
        if vacuous:
            yield (
                f"eps {part.eps:.4g}: {vacuous} samples are vacuous: T_e reaches |g|, so no angle follows. "
                "They lie beyond every percentile of T_c and are not in its mean."
            )
        if part.winners:
            methods = ", ".join(f"{name} on {n}" for name, n in part.winners.items())
            yield (
                f"eps {part.eps:.4g}: smallest linf bound by {methods}; T_e/found compares it with "
                "what the worst perturbation found reaches in the linearised attribution."
            )
        if part.label_lost:
            yield f"eps {part.eps:.4g}: both signs of the worst perturbation found change the label of {part.label_lost} samples."


def _up(value: float | None) -> str:
    return "-" if value is None else round_up(value, 4)


def _degrees(value: float | None) -> str:
    return "-" if value is None else f"{Decimal(value).quantize(Decimal('0.1'), ROUND_CEILING)}°"


def markdown(table: TextTable) -> str:
    """The table for a README, an issue or a step summary; what could be read as markup there is shown as it is."""
    lines = [f"**{_plain(table.title)}**", "", *(f"- {_plain(fact)}" for fact in table.facts), ""]
    rows = (table.header, ("---",) * len(table.header), *table.cells)
    lines += [
        "| " + " | ".join(_plain(" ".join(cell.split())).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join([*lines, "", *(f"- {_fenced(_shown(printable_lines(note)))}" for note in table.notes), ""])


def _fenced(note: str) -> str:
    """Lines that are set apart, such as a rule with a mark below it, keep their blanks."""
    return re.sub(r"((?:\n {4,}.*)+)", lambda match: f"\n\n  ```{match[1]}\n  ```", note)


def _plain(text: str) -> str:
    """On one line, without marks of its own."""
    return _shown(printable(text).replace("`", "\\`"))


def _shown(text: str) -> str:
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(").replace("\n", "\n  ")
