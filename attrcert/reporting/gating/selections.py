"""What a rule's figure is over a run's rows: case by case, and never over rows that say nothing."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attrcert.columns import COLUMNS, Cell, Column, column_named
from attrcert.reporting.gating.comparisons import KINDS, check_word, comparing, words_of
from attrcert.reporting.gating.rules import THRESHOLDS, Comparison, Figure, RuleError
from attrcert.saved.runfiles import Case, RunTable, case_text
from attrcert.vocabulary import Status, did_you_mean, some

SLACK = 1e-9  # of a rank: 95 % of 20 is 19, however it is rounded


@dataclass(frozen=True)
class Selection:
    """The rows of one case that a figure speaks of: their places, samples and numbers (1 and 0 of a condition).

    `lacking` of them have no such figure because nothing bounds it, and count as the worst there is; `left_out` more have none
    because it does not apply to them.
    """

    run: str
    case: str
    key: Case
    places: tuple[int, ...]
    indices: tuple[int, ...]
    values: np.ndarray
    lacking: int
    left_out: int

    def __len__(self) -> int:
        return len(self.indices)


def statistic(figure: Figure, values: np.ndarray) -> float:
    """pNN is the smallest value that NN per cent of the rows do not exceed: none is made up between two. Means are rounded once."""
    if figure.statistic in ("mean", "fraction") and np.isfinite(values).all():
        return math.fsum(values.tolist()) / len(values)
    return quick_statistic(figure, values)


def quick_statistic(figure: Figure, values: np.ndarray) -> float:
    """The same, a mean rounded as often as numpy does: for resamples."""
    if figure.percent is not None:
        place = max(0, math.ceil(figure.percent * len(values) / 100 - SLACK) - 1)
        return float(np.partition(values, place)[place])
    with np.errstate(invalid="ignore"):
        return float(_STATISTICS[figure.statistic](values))


_STATISTICS: dict[str, Callable[..., Any]] = {
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
    "max": np.max,
    "std": np.std,
    "fraction": np.mean,
    "count": np.sum,
}


def applies(figure: Figure, table: RunTable) -> bool:
    """Whether the run was asked for all columns that the figure names, and has a case that its filter admits."""
    filters = [term for term in figure.filters if term.column in table.case_names]
    if not all(map(table.asked, figure.columns)) or any(_never(term, table) for term in filters):
        return False
    keeps = [_truths(figure, term, table) for term in filters]
    return not keeps or any(all(keep[places[0]] for keep in keeps) for places in table.cases.values())


def _never(term: Comparison, table: RunTable) -> bool:
    """Whether a text is asked for that no row of this run has, as another's may."""
    column = table.column(term.column)
    if column is None or column.kind is not str or term.comparator != "==" or term.value is None:
        return False
    return all(term.value.text not in words_of(column, cell) for cell in {*table.cells[term.column]})


def select(figure: Figure, table: RunTable, waived: frozenset[int] = frozenset()) -> tuple[Selection, ...]:
    """A selection per case. A case that the filter leaves no row of, or no row with the figure, is an error: it must not pass."""
    values = _values(figure, table)
    found = []
    for key, rows in _admitted(figure, table, waived):
        _check_rows(figure, table, key, rows)
        found.append(_selection(figure, table, key, rows, values))
    if not found:
        raise figure.error(f"no row of {table.name} is selected", _present(figure, table))
    return tuple(found)


def select_present(figure: Figure, table: RunTable) -> tuple[Selection, ...]:
    """Of the cases that have the figure, for those who look and do not judge."""
    if not all(map(table.asked, figure.columns)):
        return ()
    values = _values(figure, table)
    return tuple(
        _selection(figure, table, key, rows, values)
        for key, rows in _admitted(figure, table, frozenset())
        if all(_tells_something(name, table, rows) for name in figure.measured)
        and any(values[p] is not None for p in rows)
    )


def check_asked(figure: Figure, table: RunTable) -> None:
    """The run was asked for every figure: what is missing otherwise is not without bound."""
    for column in (table.column(name) for name in figure.columns):
        condition = column and (column.asked or column.only or column.aimed)
        if column is not None and condition and not table.asked(column.name):
            key, value = condition
            asking = f"--{key.replace('_', '-')}" + ("" if value is True else f" {value}")
            asking = f"`attrcert {value}`" if key == "task" else asking
            raise figure.error(
                f"{table.name} has no {column.name}: it was not asked for",
                f"{asking} computes it: {column.meaning}",
                _place(figure, column.name),
            )


def _place(figure: Figure, name: str) -> int:
    """Where a column is named."""
    return next((term.place for term in figure.terms if term.column == name), figure.place)


def _tells_something(name: str, table: RunTable, rows: Sequence[int]) -> bool:
    """Whether a cell is there, or missing because nothing is bounded."""
    return any(table.cells[name][p] is not None or table.cells["status"][p] == Status.VACUOUS for p in rows)


def _admitted(figure: Figure, table: RunTable, waived: frozenset[int]) -> Iterator[tuple[Case, list[int]]]:
    """The cases that the filter admits, each with those of its rows that it admits and nobody waived."""
    keeps = {term: _truths(figure, term, table) for term in figure.filters}
    of_case = [keep for term, keep in keeps.items() if term.column in table.case_names]
    index = table.cells["index"]
    for case, places in table.cases.items():
        if all(keep[places[0]] for keep in of_case) and all(table.tells(name, case) for name in figure.measured):
            yield case, [p for p in places if index[p] not in waived and all(keep[p] for keep in keeps.values())]


def _selection(
    figure: Figure, table: RunTable, key: Case, rows: Sequence[int], values: Sequence[float | None]
) -> Selection:
    places = [place for place in rows if values[place] is not None]
    if not places:
        raise figure.error(f"{figure.text} applies to no row of {_where(table, key)}")
    return Selection(
        run=table.name,
        case=case_text(key, table.apart),
        key=key,
        places=tuple(places),
        indices=tuple(int(table.cells["index"][place] or 0) for place in places),
        values=np.array([values[place] for place in places], dtype=np.float64),
        lacking=sum(any(table.cells[name][place] is None for name in figure.measured) for place in places),
        left_out=len(rows) - len(places),
    )


def _check_rows(figure: Figure, table: RunTable, key: Case, rows: Sequence[int]) -> None:
    """There are rows, and no column of theirs that is needed is empty throughout."""
    if not rows:
        raise figure.error(f"no row of {_where(table, key)} is selected", "a rule about nothing must not pass")
    for name in figure.measured:
        if all(table.cells[name][place] is None for place in rows):
            message = f"all {len(rows)} cells of {name} are empty in {_where(table, key)}"
            raise figure.error(message, _why(name, table, rows))


def _where(table: RunTable, key: Case) -> str:
    case = case_text(key, table.apart)
    return f"{table.name} at {case}" if case else table.name


def _why(name: str, table: RunTable, rows: Sequence[int]) -> str:
    """What to make of a column that is empty throughout."""
    if all(table.cells["status"][place] == Status.VACUOUS for place in rows):
        return "all of them are vacuous: nothing is bounded; count them by fraction(status == vacuous)"
    column = table.column(name)
    return (
        f"was it asked for in the run? {name}: {column.meaning}" if column and column.meaning else "was it asked for?"
    )


def _values(figure: Figure, table: RunTable) -> Sequence[float | None]:
    """The number that each row gives: its cell, or 1 or 0; None where the figure does not apply, or the row failed."""
    if figure.column is None:
        parts = [[_truths(figure, term, table) for term in part] for part in figure.condition]
        return [_met([[truths[place] for truths in part] for part in parts]) for place in range(len(table))]
    column, cells = _counted(figure, figure.column, figure.place, table)
    if column.kind not in (int, float):
        raise figure.error(
            f"{figure.statistic} needs a column of numbers, and {column.name} holds {KINDS[column.kind]}",
            f"fraction({column.name}{'' if column.kind is bool else ' == ...'}) counts rows",
        )
    return [None if failed or cell is None else float(cell) for cell, failed in zip(cells, table.failed, strict=True)]


def _met(parts: Sequence[Sequence[bool | None]]) -> float | None:
    """Whether a row meets a condition. True or unknown is true, false and unknown is false; what stays unknown is left out."""
    if any(all(part) for part in parts):
        return 1.0
    return 0.0 if all(False in part for part in parts) else None


def _truths(figure: Figure, term: Comparison, table: RunTable) -> Sequence[bool | None]:
    """Whether each row meets a comparison; None where it has no such cell. What could never be met for a misspelt word is refused."""
    column, cells = _counted(figure, term.column, term.place, table)
    meets = comparing(figure, term, column)
    if column.kind is str:
        check_word(figure, term, column, table)
    return [None if cell is None else meets(cell) for cell in cells]


def _counted(figure: Figure, name: str, place: int, table: RunTable) -> tuple[Column, Sequence[Cell]]:
    """A column with its cells, in which a usable row that lacks one because nothing bounds it counts as the worst there is."""
    column = table.column(name)
    if column is None:
        hint = did_you_mean(name, table.header, f"its columns are {', '.join(table.header)}")
        raise figure.error(f"{table.name} has no column {name!r}", hint, place)
    cells = table.cells[name]
    if column.lacking is None:
        return column, cells
    return column, [
        column.lacking if cell is None and not failed else cell
        for cell, failed in zip(cells, table.failed, strict=True)
    ]


def _present(figure: Figure, table: RunTable) -> str:
    """What the filtered columns hold, for somebody whose filter admits nothing."""
    parts = []
    for name in dict.fromkeys(term.column for term in figure.filters):
        held = dict.fromkeys(str(cell) for cell in table.cells[name] if cell is not None)
        parts.append(f"{name} is {some(held)}" if held else f"{name} is empty")
    return "; ".join(parts)


def _elsewhere(name: str, columns: Collection[str]) -> str:
    """Where a column is that these files have not."""
    commands = [command for command in COLUMNS if column_named(name, command)]
    if commands:
        named = {"certify": "--smooth", "attack-smooth": "`attrcert attack --smooth`"}
        return f"it is a column of {' and '.join(named.get(command, f'`attrcert {command}`') for command in commands)}"
    return did_you_mean(name, {*columns, *THRESHOLDS}, f"there are {', '.join(sorted(columns))}")


def no_run_has(figure: Figure, tables: Sequence[RunTable]) -> RuleError:
    """The error of a figure that none of the runs can give."""
    for name in figure.columns:
        if not any(name in table.header for table in tables):
            columns = {column for table in tables for column in table.header}
            return figure.error(f"no file has a column {name!r}", _elsewhere(name, columns), _place(figure, name))
    having = [table for table in tables if set(figure.columns) <= set(table.header)]
    if not having:
        return figure.error(f"no file has all of {', '.join(figure.columns)}")
    asked = [table for table in having if all(map(table.asked, figure.columns))]
    if not asked:
        check_asked(figure, having[0])
    return figure.error("no row is selected", _present(figure, (asked or having)[0]))
