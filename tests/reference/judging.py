"""Gates, slowly: files as runs leave them, and the figures of rules by loops over the rows that csv.DictReader reads."""

import csv
import json
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from attrcert.columns import COLUMNS
from attrcert.records import to_csv

CASE = ("attribution", "norm", "eps", "attack", "threshold_kind", "threshold", "radius")
_DERIVATIVE = {
    **dict.fromkeys(("T_c_deg", "T_c_corrected_deg", "angle_proved_deg"), 180.0),
    **dict.fromkeys(("T_e", "T_e_corrected", "T_e_ball", "T_proved"), math.inf),
}
UNBOUNDED = {  # what a usable row counts as, whose cell is empty because nothing bounds the figure
    "bound": _DERIVATIVE,
    "attack": _DERIVATIVE,
    "max-eps": _DERIVATIVE,
    "smooth": {"cosine": -1.0, "angle_deg": 180.0, "radius_min": math.inf},
}
OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
IDENTITY = {
    "attribution": "saliency",
    "norm": "l2",
    "eps": [0.1],
    "target": "predicted",
    "ig_steps": 20,
    "seed": 0,
    "dtype": "float32",
    "checkpoint": "fashion-natural",
    "checkpoint_sha256": "3a7c",
    "arch": "softplus-cnn",
    "dataset": "fashion-test",
    "dataset_sha256": "235e",
    "limit": 4,
    "softplus_beta": None,
}


def write_run(
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    command: str = "bound",
    *,
    names: Collection[str] = (),
    identity: Mapping[str, Any] | None = None,
    state: str | None = "complete",
) -> Path:
    """A CSV, of some columns or of all, and its manifest; none where the state is None."""
    columns = [column for column in COLUMNS[command] if not names or column.name in names]
    common = {"status": "ok", "attribution": "saliency", "norm": "l2"}
    path.write_text(to_csv([{**common, **row} for row in rows], columns, header=True), encoding="utf-8")
    if state is not None:
        manifest = {"schema": 1, "command": command, "identity": {**IDENTITY, **(identity or {})}, "state": state}
        path.with_name(path.name + ".json").write_text(json.dumps(manifest), encoding="utf-8")
    return path


def bound_rows(angles: Sequence[float | None], **cells: Any) -> list[dict[str, Any]]:
    """A row at eps 0.1 for each angle; vacuous where there is none."""
    return [
        {"index": i, "eps": 0.1, "T_c_deg": angle, "status": "vacuous" if angle is None else "ok", **cells}
        for i, angle in enumerate(angles)
    ]


@dataclass(frozen=True)
class Compared:
    """A column against a value, which is written as `text` in rules; true or false stand for a bare column."""

    column: str
    comparator: str
    value: float | str | bool
    text: str

    def __str__(self) -> str:
        return self.column if isinstance(self.value, bool) else f"{self.column} {self.comparator} {self.text}"


@dataclass(frozen=True)
class Asked:
    """A figure: a statistic of a column, or of a condition (any of: all of), over the rows that all filters admit."""

    statistic: str
    column: str | None
    condition: tuple[tuple[Compared, ...], ...]
    filters: tuple[Compared, ...]

    def __str__(self) -> str:
        what = self.column or " or ".join(" and ".join(map(str, part)) for part in self.condition)
        kept = f"[{', '.join(map(str, self.filters))}]" if self.filters else ""
        return f"{self.statistic}({what}{kept})"

    @property
    def measured(self) -> list[str]:
        return [self.column] if self.column else [term.column for part in self.condition for term in part]


def figures(path: Path, command: str, asked: Asked, waived: Collection[int] = ()) -> dict[str, float] | None:
    """The figure in every case that the filters admit; None where it cannot be judged."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    found = {}
    for case in _cases(rows):
        if not all(_holds(case[0], term, command) for term in asked.filters if term.column in CASE):
            continue
        kept = [row for row in case if int(row["index"]) not in waived]
        kept = [row for row in kept if all(_holds(row, term, command) for term in asked.filters)]
        if not kept or any(all(row[name] == "" for row in kept) for name in asked.measured):
            return None
        numbers = [number for row in kept if (number := _number(row, asked, command)) is not None]
        if not numbers:
            return None
        found[_named(case[0])] = statistic(asked.statistic, numbers)
    return found or None


def _named(row: Mapping[str, str]) -> str:
    """A case as verdicts name it."""
    words = [f"{name} {_short(row[name])}" for name in ("eps", "attack", "radius") if row.get(name)]
    return ", ".join(words + ([f"{row['threshold_kind']} {_short(row['threshold'])}"] if row.get("threshold") else []))


def _short(text: str) -> str:
    return f"{float(text):.6g}" if text[0].isdecimal() else text


def _cases(rows: Sequence[Mapping[str, str]]) -> list[list[Mapping[str, str]]]:
    cases: list[list[Mapping[str, str]]] = []
    for row in rows:
        for case in cases:
            if all(case[0].get(name) == row.get(name) for name in CASE):
                case.append(row)
                break
        else:
            cases.append([row])
    return cases


def _number(row: Mapping[str, str], asked: Asked, command: str) -> float | None:
    if asked.column:
        return _figure(row, asked.column, command)
    return _any([_all([_holds(row, term, command) for term in part]) for part in asked.condition])


def _all(parts: Sequence[float | None]) -> float | None:
    """What is unknown could be either: false and unknown is false, true and unknown is unknown."""
    if 0 in parts:
        return 0.0
    return None if None in parts else 1.0


def _any(parts: Sequence[float | None]) -> float | None:
    if 1 in parts:
        return 1.0
    return None if None in parts else 0.0


def _figure(row: Mapping[str, str], column: str, command: str) -> float | None:
    if column in CASE:
        return float(row[column])
    if row["status"].startswith("error:"):
        return None
    return float(row[column]) if row[column] else UNBOUNDED[command].get(column)


def _holds(row: Mapping[str, str], term: Compared, command: str) -> bool | None:
    """None where it does not apply to the row."""
    if isinstance(term.value, float):
        number = _figure(row, term.column, command)
        return None if number is None else bool(OPERATORS[term.comparator](number, term.value))
    if row[term.column] == "":
        return None
    if isinstance(term.value, bool):
        return (row[term.column] == "True") is term.value
    return bool(OPERATORS[term.comparator](row[term.column], term.value))


def statistic(name: str, numbers: Sequence[float]) -> float:
    n = len(numbers)
    rising = sorted(numbers)
    if name in ("mean", "fraction"):
        return math.fsum(numbers) / n
    if name == "count":
        return math.fsum(numbers)
    if name == "std":
        mean = math.fsum(numbers) / n
        return math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / n)
    if name == "median":
        return (rising[(n - 1) // 2] + rising[n // 2]) / 2
    if name in ("min", "max"):
        return rising[0 if name == "min" else -1]
    share = Fraction(name.removeprefix("p")) / 100
    return next(one for one in rising if sum(other <= one for other in rising) >= share * n)
