"""Bounds that promise to hold, and whether an attack broke one."""

from collections.abc import Iterable

from attrcert.columns import Row
from attrcert.vocabulary import Guarantee


def broken(rows: Iterable[Row]) -> list[Row]:
    """The rows with a bound that was promised, by proof or with confidence, and exceeded."""
    promised = {Guarantee.PROVED.value: "violated_proved", Guarantee.CONFIDENCE.value: "violated"}
    return [row for row in rows if row.get(promised.get(str(row.get("guarantee")), ""))]
