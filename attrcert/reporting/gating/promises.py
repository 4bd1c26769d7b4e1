"""Bounds that promise to hold, and whether an attack broke one."""

from collections.abc import Iterable

from attrcert.columns import Row
from attrcert.saved.runfiles import RunTable
from attrcert.vocabulary import Guarantee


def broken(rows: Iterable[Row]) -> list[Row]:
    """The rows with a bound that was promised, by proof or with confidence, and exceeded."""
    return [row for row in rows if row.get("violated_proved") or (_confident(row) and row.get("violated"))]


def _confident(row: Row) -> bool:
    return row.get("guarantee") == Guarantee.CONFIDENCE


def exceeded(table: RunTable) -> int:
    """How many rows of a run have such a bound."""
    names = [name for name in ("guarantee", "violated", "violated_proved") if name in table.cells]
    rows = zip(*(table.cells[name] for name in names), strict=True)
    return len(broken(dict(zip(names, row, strict=True)) for row in rows))
