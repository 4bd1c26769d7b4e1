"""Which rows of a run are the worst, and the table that shows them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attrcert.columns import COLUMNS, OF_ROW, Cell, Column, Row, column_named, declared
from attrcert.reporting.summaries.cases import asked_for
from attrcert.reporting.summaries.statistics import apart, by_part, spoken, usable
from attrcert.vocabulary import Guarantee, round_down, round_up

# what was reached, what was asked for, what was proved, what was estimated
STRONGEST = (Guarantee.EMPIRICAL, OF_ROW, *Guarantee)


def first_columns() -> tuple[str, ...]:
    """The columns that a page shows first, in their order."""
    placed = {column.name: column.place for column in declared() if column.place is not None}
    return tuple(sorted(placed, key=lambda name: placed[name]))


def ranking(command: str, rows: Sequence[Row]) -> str:
    """The column by which rows are the worst: what was proved before what was estimated."""
    if command == "certify":
        return asked_for(rows)
    leading = [column for column in COLUMNS[command] if column.leads and column.guarantee]
    names = [column.name for column in sorted(leading, key=lambda one: STRONGEST.index(one.guarantee or OF_ROW))]
    return next((name for name in names if any(row.get(name) is not None for row in rows)), names[0])


def badness(row: Row, column: str, command: str) -> tuple[int, float]:
    """Larger is worse: rows without figures first, then those that nothing bounds, those to which the figure does not apply last."""
    if not usable([row]):
        return 3, 0.0
    known, cell = column_named(column, command), row.get(column)
    if not isinstance(cell, int | float):
        return (2, 0.0) if known is not None and known.lacking is not None else (0, 0.0)
    return 1, -float(cell) if known is not None and known.worse == "down" else float(cell)


def worst_rows(command: str, rows: Sequence[Row], most: int) -> list[Row]:
    """The worst first; rows that are equally bad stay in their order."""
    column = ranking(command, rows)
    return sorted(rows, key=lambda row: badness(row, column, command), reverse=True)[:most]


@dataclass(frozen=True)
class Shown:
    """A cell: its text, and the number that it is sorted by if it is one; a class's name stands behind its number."""

    text: str
    key: str | None
    named: bool = False


@dataclass(frozen=True)
class ShownColumn:
    """A column; those that are `first` are shown, the others on request."""

    name: str
    meaning: str
    first: bool
    numeric: bool

    @property
    def classes(self) -> str:
        """In the page."""
        return " ".join(word for word, said in (("number", self.numeric), ("more", not self.first)) if said)


@dataclass(frozen=True)
class SampleTable:
    """The worst rows of all runs; `constant` cells are the same in all rows."""

    columns: tuple[ShownColumn, ...]
    cells: tuple[tuple[Shown, ...], ...]
    constant: Mapping[str, str]
    statuses: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class RunRows:
    """A run's rows under a short name, with the names of its classes."""

    name: str
    command: str
    rows: Sequence[Row]
    classes: Sequence[str] = ()

    @property
    def usable(self) -> list[Row]:
        return usable(self.rows)

    @property
    def parts(self) -> "list[RunRows]":
        """One for each attribution, norm and softplus version, under its name; the run itself where it has one."""
        return [
            RunRows(": ".join(filter(None, (self.name, ", ".join(spoken(dict(of)))))), self.command, rows, self.classes)
            for of, rows in by_part(self.rows).items()
        ]


def sample_table(runs: Sequence[RunRows], most: int) -> SampleTable:
    shares = _shares([len(run.rows) for run in runs], most)
    picked = [
        (run, row) for run, share in zip(runs, shares, strict=True) for row in worst_rows(run.command, run.rows, share)
    ]
    names = [name for name in _columns(runs) if any(row.get(name) is not None for _, row in picked)]
    first = _first(runs)
    same = {name for name in names if name not in first and len({str(row.get(name)) for _, row in picked}) == 1}
    listed = (*(("run",) if len(runs) > 1 else ()), *(name for name in names if name not in same))
    cells = tuple(tuple(_shown(name, row, run) for name in listed) for run, row in picked)
    total = sum(len(run.rows) for run in runs)
    each = " of each run" if len(runs) > 1 else ""
    return SampleTable(
        columns=tuple(
            ShownColumn(name, _meaning(name, runs), name in ("run", *first), _numeric(column))
            for name, column in zip(listed, zip(*cells, strict=True), strict=True)
        ),
        cells=cells,
        constant={name: _shown(name, picked[0][1], picked[0][0]).text for name in sorted(same, key=names.index)},
        statuses=tuple(sorted({str(row["status"]) for _, row in picked})),
        note=f"The worst{each}: {len(picked)} of {total} rows."
        if len(picked) < total
        else f"All {total} rows, the worst{each} first.",
    )


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """How many rows of each run: all of the small ones, and what is left evenly for the others."""
    shares = [0] * len(sizes)
    left = most
    for taken, place in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        shares[place] = max(1, min(sizes[place], left // (len(sizes) - taken)))
        left -= shares[place]
    return shares


def _numeric(column: Sequence[Shown]) -> bool:
    return all(cell.key is not None and not cell.named for cell in column if cell.text)


def _first(runs: Sequence[RunRows]) -> tuple[str, ...]:
    """The columns that are shown first; of runs with several attributions or norms these too."""
    index, *others = first_columns()
    return (index, *dict.fromkeys(name for run in runs for name in apart(run.rows)), *others)


def _columns(runs: Sequence[RunRows]) -> list[str]:
    present = dict.fromkeys(name for run in runs for row in run.rows for name in row)
    first = _first(runs)
    return [*(name for name in first if name in present), *(name for name in present if name not in first)]


def _meaning(name: str, runs: Sequence[RunRows]) -> str:
    known = (column_named(name, run.command) for run in runs)
    return next((column.meaning for column in known if column), "")


def _shown(name: str, row: Row, run: RunRows) -> Shown:
    if name == "run":
        return Shown(run.name, None)
    cell = row.get(name)
    if name in ("label", "predicted", "target") and isinstance(cell, int) and 0 <= cell < len(run.classes):
        return Shown(f"{cell} {run.classes[cell]}", str(cell), named=True)
    number = isinstance(cell, int | float) and not isinstance(cell, bool)
    return Shown(cell_text(name, cell, run.command), str(cell) if number else None)


def cell_text(name: str, cell: Cell, command: str) -> str:
    """As people read it; bounds are rounded outwards, what was reached inwards."""
    if cell is None:
        return ""
    if isinstance(cell, bool) or not isinstance(cell, float):
        return {True: "yes", False: "no"}[cell] if isinstance(cell, bool) else str(cell)
    return outwards(cell, column_named(name, command), 5)


def outwards(value: float, column: Column | None, digits: int) -> str:
    """Rounded towards the weaker claim: an upper bound up, what was reached towards what was not moved."""
    if column is None or column.worse is None or not math.isfinite(value):
        return f"{value:.{digits}g}"
    return (round_up if (column.worse == "up") is not column.reached else round_down)(value, digits)
