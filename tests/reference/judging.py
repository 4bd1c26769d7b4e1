"""Gates, slowly: files as runs leave them, and the figures of rules by loops over the rows that csv.DictReader reads."""

import csv
import json
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from attrcert.columns import COLUMNS
from attrcert.saved.records import to_csv

CASE = ("attribution", "norm", "eps", "attack", "threshold_kind", "threshold", "radius")
_DERIVATIVE = {
    **dict.fromkeys(("T_c_deg", "T_c_corrected_deg", "angle_proved_deg"), 180.0),
    **dict.fromkeys(("T_e", "T_e_corrected", "T_e_ball", "T_proved"), math.inf),
}
UNBOUNDED = {  # what a usable row counts as, whose cell is empty because nothing bounds the figure
    "bound": _DERIVATIVE,
    "attack": _DERIVATIVE,
    "max-eps": _DERIVATIVE,
    "certify": {"cosine": -1.0, "angle_deg": 180.0, "radius_min": math.inf},
}
RANGES = {  # what the cells of a column can be: the ends of an interval, or all words
    **dict.fromkeys(("T_c_deg", "angle_deg"), (0.0, 180.0)),
    **dict.fromkeys(("T_e", "T_e_corrected", "T_proved", "T_hat_e", "margin_radius", "eps_max"), (0.0, math.inf)),
    **dict.fromkeys(("radius_min", "C_lower", "eps", "threshold", "radius"), (0.0, math.inf)),
    "cosine": (-1.0, 1.0),
    "violated": ("True", "False"),
    "status": ("ok", "vacuous", "abstained", "not-converged", "error:shape", "error:memory"),
    "label_kept": ("both", "plus", "minus", "none"),
    "threshold_kind": ("deviation", "cosine-distance", "angle", "cosine"),
    "attack": ("top-k", "euclidean", "another"),
}
OPTIONAL = ("T_proved", "angle_proved_deg", "T_e_ball", "radius_min")  # where no row has it, it was not asked for
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
    findings: Sequence[Any] = (),
) -> Path:
    """A CSV, of some columns or of all, and its manifest; none where the state is None."""
    columns = [column for column in COLUMNS[command] if not names or column.name in names]
    common = {"status": "ok", "attribution": "saliency", "norm": "l2"}
    path.write_text(to_csv([{**common, **row} for row in rows], columns, header=True), encoding="utf-8")
    if state is not None:
        manifest = {"schema": 1, "command": command, "identity": {**IDENTITY, **(identity or {})}, "state": state}
        manifest |= {"findings": list(findings)}
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
    named = [*asked.measured, *(term.column for term in asked.filters)]
    if any(name in OPTIONAL and all(row[name] == "" for row in rows) for name in named):
        return None
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


def refuted(path: Path, command: str, asked: Asked, waived: Collection[int] = ()) -> set[str]:
    """The cases with a judged row whose bound an attack of this file exceeded in its ball: here no map has a length."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    reached = {"T_e": "T_hat_e", "T_e_corrected": "T_hat_e", "T_proved": "T_hat_e", "T_c_deg": "T_hat_c_deg"}
    claims = [(name, reached[name]) for name in asked.measured if name in reached]
    found = set()
    for row in rows if command == "attack" else ():
        judged = int(row["index"]) not in waived and all(_holds(row, term, command) for term in asked.filters)
        if not judged or _number(row, asked, command) is None:
            continue
        for name, hat in claims:
            for other in rows:
                same = all(other[key] == row[key] for key in ("index", "attribution", "norm"))
                inside = same and float(other["eps"]) <= float(row["eps"]) and other["violated"] != ""
                if inside and row[name] and other[hat] and float(other[hat]) > float(row[name]):
                    found.add(_named(row))
    return found


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


def is_open(asked: Asked, comparator: str, limit: float) -> bool:
    """Whether some rows would meet the rule and others fail it: every row that could be is tried."""
    low, high = _possible(asked)
    if comparator in ("==", "!="):
        return low <= limit <= high and low < high
    return OPERATORS[comparator](low, limit) is not OPERATORS[comparator](high, limit)


def _possible(asked: Asked) -> tuple[float, float]:
    terms = [*asked.filters, *(term for part in asked.condition for term in part)]
    names = sorted({term.column for term in terms} | ({asked.column} if asked.column else set()))
    tried = [_tried(name, [term.value for term in terms if term.column == name]) for name in names]
    rows = [dict(zip(names, cells, strict=True)) for cells in product(*tried)]
    kept = [row for row in rows if all(_is(row, term) for term in asked.filters)]
    if not kept:
        return 0.0, 0.0  # nothing to judge
    if asked.column:
        numbers = [row[asked.column] for row in kept]
        low, high = min(numbers), max(numbers)
        return (0.0, (high - low) / 2) if asked.statistic == "std" else (low, high)
    met = {any(all(_is(row, term) for term in part) for part in asked.condition) for row in kept}
    most = 1.0 if asked.statistic == "fraction" else math.inf
    return (1.0 if met == {True} else 0.0), (0.0 if met == {False} else most)


def _tried(name: str, values: Sequence[float | str | bool]) -> list[Any]:
    """Cells of a column: all words, or the ends of its range and what lies at, just beside and between the values."""
    if isinstance(RANGES[name][0], str):
        return list(RANGES[name])
    low, high = RANGES[name]
    near = {value + step for value in values for step in (-1e-3, 0.0, 1e-3)}
    return sorted({low, high, *(number for number in near if low <= number <= high)})


def _is(row: Mapping[str, Any], term: Compared) -> bool:
    if isinstance(term.value, bool):
        return (row[term.column] == "True") is term.value
    return bool(OPERATORS[term.comparator](row[term.column], term.value))
