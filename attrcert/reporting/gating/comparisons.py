"""How numbers and cells compare with what a rule says: rounding alone tells nothing apart, and a misspelt word is refused."""

import math
import operator
from collections.abc import Callable
from typing import Any

from attrcert.columns import Cell, Column
from attrcert.reporting.gating.rules import Comparison, Figure
from attrcert.saved.runfiles import RunTable
from attrcert.vocabulary import did_you_mean, plain_name, some

TABLE_DIGITS = 4
SAME = 1e-9  # relative: 0.1 and 8/255 as people and programs write them
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
MEAN_ROUNDING = 1e-12  # relative: what a mean of many numbers may be off, and a limit is not missed by


def complies(value: float, comparator: str, limit: float) -> bool:
    """Numbers that rounding alone may tell apart are equal."""
    if math.isclose(value, limit, rel_tol=MEAN_ROUNDING):
        return comparator in ("<=", ">=", "==")
    return COMPARE[comparator](value, limit)


KINDS = {str: "text", bool: "true or false", int: "numbers", float: "numbers"}


def comparing(figure: Figure, term: Comparison, column: Column) -> Callable[[Cell], bool]:
    """Whether a cell of that column is as the comparison says; an empty one is not."""
    value = term.value
    if value is None:
        if column.kind is not bool:
            told = f"{column.name} holds {KINDS[column.kind]}: compare it with something"
            raise figure.error(told, f"e.g. {column.name} == ...", term.place)
        return lambda cell: cell is True
    if column.kind in (int, float):
        if value.number is None:
            raise figure.error(f"{column.name} holds numbers, and {value.text!r} is none", place=term.place)
        limit = value.number
        digits = len(value.text.lower().partition("e")[0].replace(".", "").lstrip("-+0"))
        return lambda cell: cell is not None and _meets(float(cell), term.comparator, limit, digits)
    if term.comparator not in ("==", "!="):
        raise figure.error(f"{column.name} holds {KINDS[column.kind]}: compare it by == or !=", place=term.place)
    compare, word = COMPARE[term.comparator], _flag(figure, term, value.text) if column.kind is bool else value.text
    return lambda cell: cell is not None and compare(word if word in words_of(column, cell) else cell, word)


def words_of(column: Column, cell: Cell) -> tuple[Cell, ...]:
    """By which a text is found: an attribution also by its name alone, without parameters."""
    return (cell, plain_name(cell)) if column.name == "attribution" and isinstance(cell, str) else (cell,)


def _meets(number: float, comparator: str, limit: float, digits: int) -> bool:
    """Equal is also what a table shows as that number: 0.03137 for 8/255."""
    shown = digits >= TABLE_DIGITS and float(f"{number:.{digits}g}") == limit
    same = shown or math.isclose(number, limit, rel_tol=SAME)
    if comparator in ("==", "!="):
        return same if comparator == "==" else not same
    return COMPARE[comparator](number, limit)


def _flag(figure: Figure, term: Comparison, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise figure.error(f"{term.column} is true or false, got {text!r}", place=term.place)
    return text.lower() == "true"


def check_word(figure: Figure, term: Comparison, column: Column, table: RunTable) -> None:
    """The text is one that the column can hold: of its known words, or one that occurs."""
    assert term.value is not None
    text = term.value.text
    present = sorted({str(cell) for cell in table.cells[column.name] if cell is not None})
    allowed = {*column.words, *(str(word) for cell in present for word in words_of(column, cell))}
    if text in allowed:
        return
    one_of = f", which is one of {', '.join(column.words)}" if column.words else ""
    hint = did_you_mean(text.lower(), allowed, f"there are: {some(present)}" if present else "the column is empty")
    raise figure.error(f"no row of {table.name} has {column.name} {text!r}{one_of}", hint, term.place)
