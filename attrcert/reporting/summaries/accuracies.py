"""Accuracy under attacks on the prediction, and how far perturbations of one checkpoint reach on others."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from attrcert.columns import CORRECT, Row
from attrcert.reporting.summaries.statistics import LEVEL, binomial_interval, figures, grouped, key_columns, mean
from attrcert.reporting.tables.text_table import TextTable, plain, told
from attrcert.vocabulary import Guarantee, round_down

if TYPE_CHECKING:
    from attrcert.reporting.summaries.attacks import AttackSummary

HERE = "CHECKPOINT"  # the one that a run is about, among others


@dataclass(frozen=True)
class Right:
    """The share of the samples on which a checkpoint is right at x, and at the attacked points."""

    accuracy: float
    accuracy_attacked: float

    @staticmethod
    def of(rows: Sequence[Row], before: str = "") -> "Right":
        """By columns whose names begin so."""
        return Right(*(sum(bool(row.get(before + column)) for row in rows) / len(rows) for column in CORRECT))


@dataclass(frozen=True)
class Accuracy(Right):
    """With the interval of the accuracy under attack, the share of what was right at x and is fooled, and the mean margin; `elsewhere`
    are other checkpoints, by the names of their columns.
    """

    low: float
    high: float
    fooled: float | None
    margin: float | None
    labelled: bool
    elsewhere: Mapping[str, Right]

    @property
    def everywhere(self) -> Mapping[str, Right]:
        """Of all checkpoints."""
        return {HERE: self, **self.elsewhere}

    @staticmethod
    def of_rows(rows: Sequence[Row]) -> "Accuracy | None":
        """Of the usable rows of one attack; None where it is not on the prediction."""
        having = [row for row in rows if row.get("correct_attacked") is not None]
        if not having:
            return None
        kept = sum(bool(row["correct_attacked"]) for row in having)
        fooled = [float(bool(row["fooled"])) for row in having if row.get("fooled") is not None]
        ending = f"_{CORRECT[-1]}"
        others = dict.fromkeys(name.removesuffix(ending) for row in having for name in row if name.endswith(ending))
        return Accuracy(
            len(fooled) / len(having),
            kept / len(having),
            *binomial_interval(kept, len(having)),
            fooled=mean(fooled),
            margin=mean(figures(having, "margin_attacked")),
            labelled=any(row.get("label") is not None for row in having),
            elsewhere={name: Right.of(having, f"{name}_") for name in others},
        )


Cells = dict[str, Callable[["AttackSummary"], str]]
Line = tuple["AttackSummary", str, Mapping[str, float]]


def accuracy_tables(
    parts: Sequence["AttackSummary"], facts: Iterable[str], notes: Iterable[str]
) -> Iterable[TextTable]:
    """What attacks on the prediction left of the accuracy, and of that of other checkpoints where there are some."""
    keys: Cells = key_columns(parts)
    figures: dict[str, Callable[[Accuracy], str]] = {
        "at x": lambda one: percent(one.accuracy) if one.labelled else "-",
        "under attack": lambda one: percent(one.accuracy_attacked),
        f"{LEVEL:.0%} interval": lambda one: f"{percent(one.low)} to {percent(one.high)}",
        "fooled": lambda one: "-" if one.fooled is None else percent(one.fooled),
        "margin_attacked": lambda one: told(one.margin, plain),
    }
    cells: Cells = {
        **keys,
        "attack": attrgetter("attack"),
        **{name: partial(_figure, figure) for name, figure in figures.items()},
        "T_hat_c_deg": lambda part: told(part.T_hat_c_deg, round_down, 3) + ("" if part.T_hat_c_deg is None else "°"),
        "samples": lambda part: str(part.samples),
    }
    title = f"Accuracy under attack ({Guarantee.EMPIRICAL}: a stronger attack can only lower it)"
    yield TextTable.of(title, parts, cells, facts=facts, notes=(*notes, *_notes(parts)), keys=len(keys) + 1)
    if any(part.predictions and part.predictions.elsewhere for part in parts):
        yield _transfer(parts, keys)


def _figure(figure: Callable[[Accuracy], str], part: "AttackSummary") -> str:
    return figure(part.predictions) if part.predictions else "-"


def _notes(parts: Sequence["AttackSummary"]) -> Iterable[str]:
    known = [part.predictions for part in parts if part.predictions]
    yield (
        "at x, under attack: the share of samples whose label is predicted; what is misclassified at x counts as wrong. fooled: of those "
        f"that are right at x. The interval ({LEVEL:.0%}, Clopper and Pearson) is for other samples of their kind."
    )
    if not all(one.labelled for one in known):
        yield "The samples have no labels: the class that is predicted at x stands for them."
    yield "margin_attacked, T_hat_c_deg: means at the perturbations found, which may change the label: bounds are not compared with them."
    if any(one.elsewhere for one in known):
        yield "prediction:NAME: the perturbations were found on the checkpoint NAME and tried here."


def _transfer(parts: Sequence["AttackSummary"], keys: Cells) -> TextTable:
    """A line for each checkpoint that perturbations were found on, a column for each that they were tried on."""
    known = [(part, part.predictions) for part in parts if part.predictions]
    lines: list[Line] = []
    for of_eps in grouped(known, lambda one: one[0].where).values():
        first, clean = of_eps[0]
        lines.append((first, "none, at x", {name: one.accuracy for name, one in clean.everywhere.items()}))
        for part, found in of_eps:
            source = re.sub(r"\W", "_", part.attack.partition(":")[2]) or HERE
            lines.append((part, source, {name: one.accuracy_attacked for name, one in found.everywhere.items()}))

    def key(show: Callable[["AttackSummary"], str]) -> Callable[[Line], str]:
        return lambda line: show(line[0])

    def cell(name: str) -> Callable[[Line], str]:
        return lambda line: percent(line[2][name]) if name in line[2] else "-"

    return TextTable.of(
        f"Transfer: accuracy on each checkpoint under the perturbations that were found on each ({Guarantee.EMPIRICAL})",
        lines,
        {
            **{name: key(show) for name, show in keys.items()},
            "found on": lambda line: line[1],
            **{f"on {name}": cell(name) for name in dict.fromkeys(name for _, one in known for name in one.everywhere)},
        },
        keys=len(keys) + 1,
    )


def percent(share: float) -> str:
    return f"{100 * share:.1f}%"
