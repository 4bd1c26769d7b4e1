"""What every text format of a table shows."""

from dataclasses import dataclass

# columns of text; others hold numbers
WORDS = ("figure", "guarantee", "attack", "outcome", "rule", "where", "threshold")


@dataclass(frozen=True)
class TextTable:
    """A title, facts, a grid of cells, and notes below it."""

    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    facts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
