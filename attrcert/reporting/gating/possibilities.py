"""What a figure can be at all, whatever the rows hold: a rule that nothing could fail, or meet, judges nothing.

A comparison holds on whole stretches of a column's range, which end at the numbers that comparisons name. So a few points stand for
all cells: these numbers, the next ones beside them, and one between any two. Columns are taken to be independent of each other.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise, product

from attrcert.columns import Cell, Column
from attrcert.reporting.gating.comparisons import check_word, comparing, complies
from attrcert.reporting.gating.rules import Allowance, Comparison, Figure, Rule, RuleError
from attrcert.saved.runfiles import RunTable

OPPOSITE = {"<=": ">", ">": "<=", ">=": "<", "<": ">=", "==": "!=", "!=": "=="}
MOST = 10_000  # ways in which a condition may fail that are tried
OTHER = "\0"  # a text that no rule names
Literal = tuple[Comparison, bool]  # a comparison that holds, or does not


def check_can_fail(rule: Rule, table: RunTable) -> None:
    """Some rows would fail the rule, and some would meet it."""
    low, high = possible(rule.figure, table)
    for comparator, verb in ((rule.comparator, "fail"), (OPPOSITE[rule.comparator], "hold")):
        if _always(comparator, rule.limit, low, high):
            message = f"{rule.figure.text} is always {comparator} {rule.limit:g}, so the rule cannot {verb}"
            raise _refusal(rule.figure, message, low, high, rule.limit)


def check_can_worsen(allowance: Allowance, sign: int, table: RunTable) -> None:
    """A figure could become worse by more than is allowed."""
    low, high = possible(allowance.figure, table)
    most = high - low if low < high else 0.0
    if allowance.relative and low < high:
        most = 1.0 if sign < 0 and low >= 0 else math.inf
    if complies(most, "<=", allowance.amount):
        allowed = f"{allowance.amount:.4g}" + (" of itself" if allowance.relative else "")
        message = f"{allowance.figure.text} cannot get worse by more than {allowed}, so the rule cannot fail"
        raise _refusal(allowance.figure, message, low, high, allowance.amount)


def _always(comparator: str, limit: float, low: float, high: float) -> bool:
    """Whether every number from low to high compares so."""
    ends = complies(low, comparator, limit) and complies(high, comparator, limit)
    return ends and not (comparator == "!=" and low < limit < high)


def _refusal(figure: Figure, message: str, low: float, high: float, limit: float) -> RuleError:
    if figure.column is not None:
        hint = f"{figure.text} lies between {low:g} and {high:g}" if high < math.inf else f"it is {low:g} or more"
    elif high == 0:
        hint = "no row can meet the condition"
    elif low > 0:
        hint = "every row meets the condition"
    else:
        hint = f"did you mean {limit:g}%?" if figure.statistic == "fraction" and limit >= 1 else ""
    return figure.error(message, hint)


def possible(figure: Figure, table: RunTable) -> tuple[float, float]:
    """The least and the largest that the figure can be over one row or more that the filter admits."""
    reasoning = _Reasoning(figure, table)
    kept = [(term, True) for term in figure.filters]
    if not reasoning.satisfiable(kept):
        raise figure.error("no row can be as the filter says")
    if figure.column is not None:
        column = table.column(figure.column)
        if column is None or column.kind not in (int, float):  # the judgement says so
            return -math.inf, math.inf
        own = [literal for literal in kept if literal[0].column == figure.column]
        cells = [float(cell or 0) for cell in reasoning.cells(figure.column, own)]
        low, high = min(cells), max(cells)
        return (0.0, (high - low) / 2 if low < high else 0.0) if figure.statistic == "std" else (low, high)
    can_be_true = any(reasoning.satisfiable([*kept, *((term, True) for term in part)]) for part in figure.condition)
    every = 1.0 if figure.statistic == "fraction" else math.inf
    return 0.0 if reasoning.can_be_false(kept) else 1.0, every if can_be_true else 0.0


class _Reasoning:
    """About the cells that a row of the run could have: words that none could have are refused."""

    def __init__(self, figure: Figure, table: RunTable) -> None:
        self.figure, self.table = figure, table
        self.texts: dict[str, set[str]] = {}
        for term in figure.terms:
            column = table.column(term.column)
            assert column is not None
            comparing(figure, term, column)
            if column.words:
                check_word(figure, term, column, table)
            if column.kind is str and column.name not in self.texts:
                self.texts[column.name] = {str(cell) for cell in table.cells[column.name] if cell is not None}

    def can_be_false(self, kept: Sequence[Literal]) -> bool:
        """Whether a row could miss every part of the condition; yes where there are too many ways to try."""
        ways = islice(product(*self.figure.condition), MOST + 1)
        return any(
            number == MOST or self.satisfiable([*kept, *((term, False) for term in way)])
            for number, way in enumerate(ways)
        )

    def satisfiable(self, literals: Iterable[Literal]) -> bool:
        """Whether one row could be as all of them say."""
        by_column: dict[str, list[Literal]] = {}
        for literal in literals:
            by_column.setdefault(literal[0].column, []).append(literal)
        return all(self.cells(name, own) for name, own in by_column.items())

    def cells(self, name: str, literals: Sequence[Literal]) -> list[Cell]:
        """Those of the points of a column that are as all of them say."""
        column = self.table.column(name)
        assert column is not None
        tests = [(comparing(self.figure, term, column), holds) for term, holds in literals]
        points = self._points(column, [term for term, _ in literals])
        return [cell for cell in points if all(test(cell) is holds for test, holds in tests)]

    def _points(self, column: Column, terms: Sequence[Comparison]) -> Iterable[Cell]:
        if column.kind is bool:
            return (True, False)
        if column.kind is str:
            named = () if column.words else (OTHER, *(term.value.text for term in terms if term.value is not None))
            return {*column.words, *self.texts[column.name], *named}
        named_numbers = {term.value.number for term in terms if term.value and term.value.number is not None}
        return _numbers(column, sorted(named_numbers))


def _numbers(column: Column, named: Sequence[float]) -> set[float]:
    """The ends of a column's range, the named numbers and their neighbours, one between any two, and one beyond each end."""
    found = {column.least, column.most, *named, *(sum(two) / 2 for two in pairwise(named))}
    for number in named:
        found |= {math.nextafter(number, -math.inf), math.nextafter(number, math.inf)}
        found |= {number - 1 - abs(number), number + 1 + abs(number)}
    if column.kind is int:
        found = {float(whole) for x in found for whole in ((x,) if math.isinf(x) else (math.floor(x), math.ceil(x)))}
        found |= {x + step for x in found for step in (-1, 1)}
    return {x for x in found if column.least <= x <= column.most}
