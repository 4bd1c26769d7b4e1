"""What every text format of a table shows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

# columns of text; others hold numbers
WORDS = ("figure", "guarantee", "attack", "outcome", "rule", "where", "threshold")

T = TypeVar("T")


@dataclass(frozen=True)
class TextTable:
    """A title, facts, a grid of cells, and notes below it."""

    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    facts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(
        title: str,
        items: Iterable[T],
        columns: Mapping[str, Callable[[T], str]],
        *,
        facts: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> "TextTable":
        """A line per item; a column is its name and what it shows of an item."""
        cells = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
        return TextTable(title, tuple(columns), cells, tuple(facts), tuple(notes))


def told(value: float | None, rounded: Callable[[float, int], str], digits: int = 4) -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else rounded(value, digits)


def plain(value: float, digits: int) -> str:
    """Rounded to the nearest, as befits what claims nothing."""
    return f"{value:.{digits}g}"
