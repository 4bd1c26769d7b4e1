"""The figures in rows, and their statistics over samples, of which some may lie beyond every figure."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from attrcert.columns import Cell, Row

T = TypeVar("T")
K = TypeVar("K")


def usable(rows: Iterable[Row]) -> list[Row]:
    """Those that have figures."""
    return [row for row in rows if not str(row["status"]).startswith("error:")]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """By key, in the order in which they came."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


def figures(rows: Iterable[Row], name: str) -> list[float]:
    return [number(row[name]) for row in rows if row.get(name) is not None]


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
