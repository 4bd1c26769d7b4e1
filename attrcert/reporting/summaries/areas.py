"""Areas under the mean figures of an `attack` run over eps."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import fsum
from operator import attrgetter
from typing import Any

from attrcert.columns import Cell
from attrcert.reporting.summaries.attacks import AttackSummary
from attrcert.reporting.summaries.statistics import part_columns
from attrcert.reporting.tables.text_table import TextTable, plain


@dataclass(frozen=True)
class Area:
    """Under one figure's mean over eps: the area, and the area over the range of eps that it spans."""

    of: Mapping[str, Cell]
    attack: str
    figure: str
    area: float
    average: float

    def as_json(self) -> dict[str, Any]:
        whole = asdict(self)
        return {**whole.pop("of"), **whole}


def area(points: Sequence[tuple[float, float]]) -> float:
    """The trapezoid rule over (eps, figure) [wang2020smoothed, Table 2]."""
    ordered = sorted(points)
    return fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(ordered))


def areas(attacks: Sequence[AttackSummary]) -> tuple[Area, ...]:
    """Of every figure that two eps at least have."""
    curves: dict[tuple[tuple[tuple[str, Cell], ...], str, str], list[tuple[float, float]]] = {}
    for part in attacks:
        for figure, value in part.reached.items():
            curves.setdefault((tuple(part.of.items()), part.attack, figure), []).append((part.eps, value))
    return tuple(
        Area(dict(of), attack, figure, area(curve), area(curve) / (max(curve)[0] - min(curve)[0]))
        for (of, attack, figure), curve in curves.items()
        if len(curve) > 1
    )


def area_table(attacks: Sequence[AttackSummary]) -> TextTable:
    """A line for each."""
    found = areas(attacks)
    return TextTable.of(
        "Areas under the mean figures over eps, by the trapezoid rule (empirical)",
        found,
        {
            **part_columns(found),
            "attack": attrgetter("attack"),
            "figure": attrgetter("figure"),
            "area": lambda one: plain(one.area, 4),
            "area / range of eps": lambda one: plain(one.average, 4),
        },
    )
