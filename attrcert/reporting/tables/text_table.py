"""What every text format of a table shows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

# columns of text; others hold numbers
WORDS = (
    "attribution", "norm", "metric", "figure", "guarantee", "attack", "outcome", "rule", "where", "threshold_kind", "found on",
)  # fmt: skip
TURNED = 6  # lines of a table that may stand as columns

T = TypeVar("T")


@dataclass(frozen=True)
class TextTable:
    """A title, facts, a grid of cells whose first columns (`keys`) say what a line is about, and notes below it."""

    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    facts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    keys: int = 1
    turned: bool = False  # its lines stand as columns

    @staticmethod
    def of(
        title: str,
        items: Iterable[T],
        columns: Mapping[str, Callable[[T], str]],
        *,
        facts: Iterable[str] = (),
        notes: Iterable[str] = (),
        keys: int = 1,
    ) -> "TextTable":
        """A line per item; a column is its name and what it shows of an item."""
        cells = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
        return TextTable(title, tuple(columns), cells, tuple(facts), tuple(notes), keys)

    def is_text(self, place: int) -> bool:
        """Whether a column holds words, and not numbers."""
        return place == 0 if self.turned else self.header[place] in WORDS

    def as_columns(self) -> "TextTable":
        """Its lines side by side; a key that is left out is the one before."""
        whole = [tuple(accumulate(column, _kept)) for column in self._columns[: self.keys]]
        rows = [(name, *cells) for name, cells in zip(self.header, [*whole, *self._columns[self.keys :]], strict=True)]
        return replace(self, header=rows[0], cells=tuple(rows[1:]), turned=True)

    def fitted(self, fits: Callable[["TextTable"], bool]) -> "list[TextTable]":
        """As it is, or turned, or one below the other with the keys in each: whatever fits first. No cell is left out."""
        turned = self.as_columns() if 0 < len(self.cells) <= TURNED else self
        for one in (self, turned):
            if fits(one):
                return [one]
        parts = [self._part([self.keys])] if len(self.header) > self.keys else [self]
        taken = [self.keys]
        for place in range(self.keys + 1, len(self.header)):
            wider = self._part([*taken, place])
            taken = [*taken, place] if fits(wider) else [place]
            parts = [*(parts[:-1] if len(taken) > 1 else parts), self._part(taken)]
        return parts

    @property
    def _columns(self) -> list[tuple[str, ...]]:
        return list(zip(*self.cells, strict=True)) or [()] * len(self.header)

    def _part(self, places: Iterable[int]) -> "TextTable":
        """The keys and some of the other columns."""
        chosen = [*range(self.keys), *places]
        pick = [tuple(row[place] for place in chosen) for row in (self.header, *self.cells)]
        return replace(self, header=pick[0], cells=tuple(pick[1:]))


def _kept(before: str, cell: str) -> str:
    return cell or before


def told(value: float | None, rounded: Callable[[float, int], str], digits: int = 4) -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else rounded(value, digits)


def plain(value: float, digits: int) -> str:
    """Rounded to the nearest, as befits what claims nothing; with more digits where a share of nearly 1 would look whole."""
    short = f"{value:.{digits}g}"
    return f"{value:.{digits + 3}g}" if short == "1" and value < 1 else short
