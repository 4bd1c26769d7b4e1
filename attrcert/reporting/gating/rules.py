"""Rules of a gate as text: `p95(T_c_deg[eps=0.1]) <= 30`. A parser whose errors say where.

Grammar:
    rule       := figure comparator number
    allowance  := figure [+|-] number [%]
    figure     := (mean | median | min | max | std | p<0..100>) ( column [filter] )
                | (fraction | count) ( condition [filter] )
    condition  := all { or all } ; all := term { and term } ; term := column | comparison
    filter     := [ comparison { , comparison } ]
    comparison := column comparator value
A number may be a fraction such as 8/255 or end in %; a value may be a word, quoted where it has blanks or commas.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from attrcert import vocabulary
from attrcert.columns import DEGREES, unit_of
from attrcert.errors import UsageError
from attrcert.foreign import printable
from attrcert.vocabulary import COSINE, did_you_mean

NUMERIC = ("mean", "median", "min", "max", "std")
COUNTING = ("fraction", "count")
COMPARATORS = ("<=", ">=", "==", "!=", "<", ">", "=")
# names of options that rows write as threshold_kind and threshold
THRESHOLDS = {"min_cosine": COSINE, **{name: kind for kind, (name, _) in vocabulary.THRESHOLDS.items()}}
T = TypeVar("T")
_TOKENS = re.compile(
    r"(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:/\d+)?%?)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<word>[A-Za-z_][\w.:+-]*)"
    r"|(?P<sign><=|>=|==|!=|[<>=()\[\],])"
    r"|(?P<other>\S)",
    re.ASCII,
)


class RuleError(UsageError):
    """A rule cannot be read, or cannot be judged on the rows that there are."""

    in_lines = True


def rule_error(rule: str, what: str, place: int, hint: str) -> RuleError:
    """With the rule and a mark below the place."""
    return RuleError(f"{what}, at character {place + 1} of the rule:\n  {printable(rule)}\n  {' ' * place}^", hint=hint)


@dataclass(frozen=True)
class Value:
    """What a cell is compared with: a number where it reads as one, and its text."""

    text: str
    number: float | None


@dataclass(frozen=True)
class Comparison:
    """A column against a value; without a comparator the column itself, which must be true or false."""

    column: str
    comparator: str
    value: Value | None
    place: int


@dataclass(frozen=True)
class Figure:
    """A statistic over rows: of a column, or of how many rows meet a condition (any of: all of)."""

    statistic: str
    column: str | None
    condition: tuple[tuple[Comparison, ...], ...]
    filters: tuple[Comparison, ...]
    text: str
    rule: str
    place: int  # of what it is a statistic of

    def error(self, what: str, hint: str = "", place: int | None = None) -> RuleError:
        return rule_error(self.rule, what, self.place if place is None else place, hint)

    @property
    def percent(self) -> float | None:
        """The NN of pNN."""
        return None if self.statistic in NUMERIC + COUNTING else float(self.statistic[1:])

    @property
    def measured(self) -> tuple[str, ...]:
        """The columns that its numbers come from."""
        return (self.column,) if self.column else tuple(dict.fromkeys(term.column for term in self.counted))

    @property
    def columns(self) -> tuple[str, ...]:
        """All that are needed to compute it."""
        return tuple(dict.fromkeys([*([self.column] if self.column else []), *(term.column for term in self.terms)]))

    @property
    def counted(self) -> tuple[Comparison, ...]:
        """The comparisons of the condition."""
        return tuple(term for part in self.condition for term in part)

    @property
    def terms(self) -> tuple[Comparison, ...]:
        """All comparisons, of the filter and of the condition."""
        return (*self.filters, *self.counted)


@dataclass(frozen=True)
class Rule:
    """What must hold of a figure, with a name and a reason for the reports."""

    figure: Figure
    comparator: str
    limit: float
    demand: str
    name: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Allowance:
    """By how much a figure may get worse than the baseline's: absolute or relative, upwards (+1), downwards (-1) or as its column
    says (0).
    """

    figure: Figure
    amount: float
    relative: bool
    sign: int
    demand: str
    name: str = ""
    reason: str = ""


def parse_rule(text: str, *, name: str = "", reason: str = "") -> Rule:
    reader = _Reader(text)
    figure = reader.figure()
    comparator = reader.comparator(f"after {figure.text}")
    token, limit = reader.limit()
    if token.text.endswith("%") and unit_of(figure.column or "") == DEGREES:
        raise reader.error(f"{figure.column} is in {DEGREES}, of which there is no percentage", token.place)
    return Rule(figure, comparator, limit, text, name or text, reason)


def parse_figure(text: str) -> Figure:
    """A statistic without a limit."""
    reader = _Reader(text)
    figure = reader.figure()
    reader.end()
    return figure


def parse_allowance(text: str, *, name: str = "", reason: str = "") -> Allowance:
    """`mean(T_c_deg) 5%`, or with a sign where no direction is worse by itself: `fraction(label_kept == "none") +0.01`."""
    reader = _Reader(text)
    figure = reader.figure()
    token, amount = reader.limit()
    sign = {"+": 1, "-": -1}.get(token.text[0], 0)
    demand = f"no worse: {text}"
    return Allowance(figure, abs(amount), token.text.endswith("%"), sign, demand, name or demand, reason)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    place: int


class _Reader:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text, self.place = re.sub(r"\s", " ", text), 0
        found = [_Token(str(match.lastgroup), match.group(), match.start()) for match in _TOKENS.finditer(self.text)]
        for token in found:
            if token.kind == "other":
                raise self.error(f"{token.text!r} has no meaning here", token.place)
        self.tokens = [*found, _Token("end", "", len(self.text))]

    def error(self, what: str, place: int, hint: str = "") -> RuleError:
        return rule_error(self.text, what, place, hint)

    def expected(self, what: str, token: _Token, hint: str = "") -> RuleError:
        return self.error(f"expected {what}, got {token.text or 'the end'!r}", token.place, hint)

    @property
    def peek(self) -> _Token:
        return self.tokens[self.place]

    def take(self) -> _Token:
        token = self.peek
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def expect(self, text: str, after: str) -> None:
        token = self.take()
        if token.text != text or token.kind != "sign":
            raise self.expected(f"{text!r} {after}", token)

    def end(self) -> None:
        if self.peek.kind != "end":
            raise self.expected("the end", self.peek)

    def figure(self) -> Figure:
        start = self.take()
        statistic = start.text
        if start.kind != "word" or not (statistic in NUMERIC + COUNTING or _is_percentile(statistic)):
            hint = did_you_mean(statistic, (*NUMERIC, "p95", *COUNTING), "e.g. p95(T_c_deg) <= 30")
            raise self.expected(f"a statistic ({', '.join((*NUMERIC, 'pNN', *COUNTING))})", start, hint)
        self.expect("(", f"after {statistic}")
        counting, place = statistic in COUNTING, self.peek.place
        condition = self.separated("or", lambda: self.separated("and", self.term)) if counting else ()
        column = None if counting else self.column().text
        filters: tuple[Comparison, ...] = ()
        if self.peek.text == "[":
            self.take()
            filters = tuple(part for parts in self.separated(",", self.filter) for part in parts)
            if self.peek.text in ("and", "or"):
                raise self.error("comparisons in a filter are joined by commas", self.peek.place)
            self.expect("]", "after the filter")
        self.expect(")", f"to close {statistic}(")
        closing = self.tokens[self.place - 1]
        text = self.text[start.place : closing.place + 1]
        return Figure(statistic, column, condition, filters, text, self.text, place)

    def separated(self, separator: str, item: Callable[[], T]) -> tuple[T, ...]:
        items = [item()]
        while self.peek.text == separator:
            self.take()
            items.append(item())
        return tuple(items)

    def term(self) -> Comparison:
        column = self.column()
        if self.peek.text not in COMPARATORS:
            return Comparison(column.text, "", None, column.place)
        return self._compared(column)

    def filter(self) -> tuple[Comparison, ...]:
        """One comparison, or the two that an option's name such as min_cosine stands for."""
        one = self._compared(self.column())
        option = one.column.replace("-", "_")
        if option not in THRESHOLDS:
            return (one,)
        kind = Comparison("threshold_kind", "==", Value(THRESHOLDS[option], None), one.place)
        return kind, replace(one, column="threshold")

    def _compared(self, column: _Token) -> Comparison:
        comparator = self.comparator(f"after {column.text}")
        token = self.take()
        if token.kind not in ("number", "word", "text"):
            raise self.expected("a number or a word", token)
        text = token.text[1:-1] if token.kind == "text" else token.text
        number = self._number(token) if token.kind == "number" else None
        return Comparison(column.text, comparator, Value(text, number), column.place)

    def column(self) -> _Token:
        token = self.take()
        if token.kind != "word":
            raise self.expected("a column's name", token)
        return token

    def comparator(self, where: str) -> str:
        token = self.take()
        if token.text not in COMPARATORS:
            raise self.expected(f"one of {' '.join(COMPARATORS)} {where}", token)
        return "==" if token.text == "=" else token.text

    def limit(self) -> tuple[_Token, float]:
        """The number that a text ends with, and how it is written."""
        token = self.take()
        if token.kind != "number":
            raise self.expected("a number", token)
        number = self._number(token)
        self.end()
        return token, number

    def _number(self, token: _Token) -> float:
        numerator, _, denominator = token.text.rstrip("%").partition("/")
        try:  # exactly, so that 0.7% is what 7 of 1000 are
            if abs(int((numerator.lower().partition("e")[2]) or 0)) > 400:
                raise OverflowError
            exact = Fraction(numerator) / Fraction(denominator or 1)
            return float(exact / 100 if token.text.endswith("%") else exact)
        except (OverflowError, ZeroDivisionError, ValueError) as error:
            raise self.error(f"expected a finite number, got {token.text[:30]!r}", token.place) from error


def _is_percentile(word: str) -> bool:
    match = re.fullmatch(r"p(\d+(?:\.\d+)?)", word, re.ASCII)
    return match is not None and 0 <= float(match.group(1)) <= 100
