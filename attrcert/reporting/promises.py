"""Bounds that promise to hold, and whether an attack broke one."""

from collections.abc import Iterable

from attrcert.records import Row
from attrcert.vocabulary import Guarantee

BINDING = (Guarantee.PROVED, Guarantee.CONFIDENCE)


def broken(rows: Iterable[Row]) -> list[Row]:
    """The rows whose T_e was promised, by proof or with confidence, and exceeded."""
    return [row for row in rows if row.get("violated") and row["guarantee"] in BINDING]
