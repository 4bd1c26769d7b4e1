"""Bounds that promise to hold, and whether an attack broke one."""

from collections.abc import Iterable

from attrcert.columns import ATTACKING, OF_ROW, Column, Row, verdicts
from attrcert.saved.runfiles import RunTable
from attrcert.vocabulary import Guarantee


def broken(rows: Iterable[Row]) -> list[Row]:
    """The rows with a bound that was promised, by proof or with confidence, and exceeded."""
    flags = [(flag.name, bound.guarantee) for flag, bound in _verdicts()]
    return [row for row in rows if any(row.get(flag) and _promised(guarantee, row) for flag, guarantee in flags)]


def _promised(guarantee: str | None, row: Row) -> bool:
    """By the bound itself, or by its row."""
    if guarantee == OF_ROW:
        guarantee = str(row.get("guarantee"))
    confident = row.get("guarantee") == Guarantee.CONFIDENCE and guarantee == Guarantee.FIRST_ORDER
    return confident or guarantee in (Guarantee.PROVED, Guarantee.CONFIDENCE)


def _verdicts() -> list[tuple[Column, Column]]:
    return [pair for command in ATTACKING for pair in verdicts(command)]


def exceeded(table: RunTable) -> int:
    """How many rows of a run have such a bound."""
    names = [name for name in ("guarantee", *(flag.name for flag, _ in _verdicts())) if name in table.cells]
    rows = zip(*(table.cells[name] for name in names), strict=True)
    return len(broken(dict(zip(names, row, strict=True)) for row in rows))
