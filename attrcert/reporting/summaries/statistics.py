"""The figures in rows, and their statistics over samples, of which some may lie beyond every figure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from scipy.special import betaincinv

from attrcert.columns import APART, Cell, Row
from attrcert.foreign import printable
from attrcert.vocabulary import Aim, part_name, plain_name

T = TypeVar("T")
K = TypeVar("K")
LEVEL = 0.95  # of intervals over samples


def usable(rows: Iterable[Row]) -> list[Row]:
    """Those that have figures."""
    return [row for row in rows if not str(row["status"]).startswith("error:")]


def on_maps(rows: Iterable[Row]) -> list[Row]:
    """Without attacks on the prediction, which keep no label: bounds are not about them."""
    return [row for row in rows if Aim.of(row.get("attack")) is Aim.MAP]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """By key, in the order in which they came."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def apart(rows: Iterable[Row]) -> tuple[str, ...]:
    """Of attribution, norm and softplus version, what the rows have several of."""
    held: dict[str, set[Cell]] = {name: set() for name in APART}
    for row in rows:
        for name, seen in held.items():
            seen.add(row.get(name))
    return tuple(name for name, seen in held.items() if len(seen - {None}) > 1)


def named(row: Row, names: Iterable[str]) -> tuple[tuple[str, Cell], ...]:
    """What a row has of these, in short."""
    cells = ((name, row.get(name)) for name in names)
    return tuple((name, cell if isinstance(cell, float) else plain_name(str(cell or "-"))) for name, cell in cells)


def spoken(of: Mapping[str, Cell]) -> list[str]:
    """The same in words."""
    return [part_name(name, cell) for name, cell in of.items()]


def by_part(rows: Sequence[Row]) -> dict[tuple[tuple[str, Cell], ...], list[Row]]:
    """The rows of each attribution, norm and softplus version; all where there is one of them."""
    names = apart(rows)
    return grouped(rows, lambda row: named(row, names))


@dataclass(frozen=True)
class InCase:
    """A part of a run at one eps; `of` are its attribution, norm and softplus version, where the run has several."""

    of: Mapping[str, Cell]
    eps: float

    @property
    def where(self) -> str:
        return ", ".join([*spoken(self.of), f"eps {self.eps:.4g}"])


def key_columns(parts: Sequence[InCase]) -> dict[str, Callable[[Any], str]]:
    """The first columns of a table with a line for each."""
    return {**part_columns(parts), "eps": lambda part: f"{part.eps:.4g}"}


def part_columns(parts: Iterable[Any]) -> dict[str, Callable[[Any], str]]:
    """The same where eps is none of them."""
    names = dict.fromkeys(name for part in parts for name in part.of)
    return {name: partial(_of, name) for name in names}


def _of(name: str, part: Any) -> str:
    cell = part.of[name]
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


def figures(rows: Iterable[Row], name: str) -> list[float]:
    return [number(row[name]) for row in rows if row.get(name) is not None]


def binomial_interval(hits: int, n: int) -> tuple[float, float]:
    """Of the chance of a hit after so many in n trials, by Clopper and Pearson: it misses with a probability of at most 1 - LEVEL."""
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    return low, float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0


def mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


@dataclass(frozen=True)
class Statistic:
    """Of one figure over the samples: mean, median, 95th percentile, largest; None where no sample has the figure."""

    count: int
    mean: float | None
    median: float | None
    p95: float | None
    max: float | None

    @staticmethod
    def of(values: Sequence[float], *, beyond: int = 0) -> "Statistic":
        """`beyond` samples lie above every value: they count in the percentiles, which are None where they reach them."""
        return Statistic(len(values), mean(values), *_ranked(sorted(values), 0, beyond))


@dataclass(frozen=True)
class LowStatistic:
    """Of a figure that is a lower bound: mean, median, 5th percentile, least; None where no sample has the figure."""

    count: int
    mean: float | None
    median: float | None
    p5: float | None
    min: float | None

    @staticmethod
    def of(values: Sequence[float], *, below: int = 0, above: int = 0) -> "LowStatistic":
        """The same of samples that lie below every value, or above."""
        return LowStatistic(len(values), mean(values), *_ranked(sorted(values, reverse=True), above, below))


def _ranked(ordered: Sequence[float], before: int, beyond: int) -> tuple[float | None, float | None, float | None]:
    """The middle value, or the mean of the middle two; the first that a share of 95% does not go beyond; and the last."""
    total = before + len(ordered) + beyond

    def at(place: int) -> float | None:
        return ordered[place - before] if 0 <= place - before < len(ordered) else None

    low, high = at((total - 1) // 2), at(total // 2)
    median = None if low is None or high is None else (low + high) / 2
    return median, at(math.ceil(0.95 * total) - 1), at(total - 1)


def unusable_told(rows: Sequence[Row]) -> Iterable[str]:
    """How many samples no figure is of, and why that is so for the first of them."""
    good, samples = {row["index"] for row in usable(rows)}, {row["index"] for row in rows}
    bad = next((row for row in rows if row["index"] not in good), None)
    if bad is not None:
        why = f" (sample {bad['index']}: {printable(str(bad['message']))})" if bad.get("message") else ""
        yield f"{len(samples - good)} of the {len(samples)} samples could not be used{why}."
