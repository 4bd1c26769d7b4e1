"""Figures that attacks exceeded: a bound of a sample is refuted where an attack on the same sample, model and attribution reached more
inside its ball.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attrcert.columns import ATTACKING, DEGREES, TURNED, Cell, Column, declared, guarantees, verdicts
from attrcert.columns.bound import MOVED
from attrcert.reporting.gating.baselines import IMAGES
from attrcert.reporting.gating.comparisons import SAME
from attrcert.reporting.gating.rules import Figure
from attrcert.reporting.gating.selections import Selection, statistic
from attrcert.saved.runfiles import RunTable
from attrcert.vocabulary import COSINE, Guarantee

THRESHOLD = "threshold"  # what a figure bounds that is the size of a ball
# what rounding alone may make of the difference of two maps, relative to their length, in rows without T_hat_floor
MAP_ROUNDING = {"float32": 2e-6, "float64": 1e-13}
SAME_LENGTH = 1e-4  # relative: |g| of one sample in two runs of one model
MODEL = ("checkpoint_sha256", "arch_sha256", "arch_args", "mean", "std", "output")
# where nothing was hashed
NAMES = {"checkpoint_sha256": "checkpoint", "arch_sha256": "arch", "dataset_sha256": "dataset"}
WORST = 5  # samples that a report names


@dataclass(frozen=True)
class Refutation:
    """Of how many of the judged samples attacks exceeded a figure, by how much at most, and which attacks; `put_in` is the statistic
    with what they reached in place of these figures, `promised` says that the figure was a guarantee.
    """

    column: str
    claim: str
    run: str
    samples: int
    judged: int
    excess: float
    unit: str
    by: tuple[str, ...]
    worst: tuple[tuple[int, str], ...]
    put_in: float | None
    promised: bool

    def __str__(self) -> str:
        return (
            f"attacks exceeded {self.claim} on {self.samples} of {self.judged} samples, by up to {self.excess:.3g}{self.unit} "
            f"({'; '.join(self.by)})"
        )


@dataclass(frozen=True)
class _Claim:
    """Within `size` of sample `index` the map does not move, or turn, by more than `limit`."""

    index: int
    size: float
    turned: bool
    limit: float


@dataclass(frozen=True)
class _Reached:
    """How far an attack of that size moved and turned the map of a sample, and what of that rounding may have done, relative to the
    map's `length`.
    """

    source: str
    attack: str
    size: float
    place: int
    moved: float
    turned: float
    rounding: float
    length: float

    def figure(self, claim: _Claim) -> float:
        return self.turned if claim.turned else self.moved

    def excess(self, claim: _Claim) -> float:
        """By how much the claim was exceeded; 0 where rounding alone could have done it."""
        allowed = claim.limit + self.rounding * self.length
        if claim.turned:  # the rounding of the deviation, as an angle
            sine = math.sin(math.radians(min(claim.limit, 90.0))) + self.rounding
            allowed = max(claim.limit, math.degrees(math.asin(min(1.0, sine))))
        return self.figure(claim) - claim.limit if self.figure(claim) > allowed else 0.0


def evidence() -> set[str]:
    """The columns that are read beside the judged ones."""
    told = {
        name for column in declared() for name in (column.bounds, column.follows, column.judges and column.name) if name
    }
    return {*told, "T_hat_floor", "g_norm", "label", "predicted", "target", "noise"}


class Evidence:
    """What the attacks in some runs reached."""

    def __init__(self, tables: Iterable[RunTable]) -> None:
        self.tables = [_Attacks(table) for table in tables if table.command in ATTACKING]

    def against(self, figure: Figure, selection: Selection, table: RunTable) -> tuple[Refutation, ...]:
        """Of each column that a figure's numbers come from, if any of its samples was refuted."""
        attacks = [one for one in self.tables if one.speaks_of(table)]
        found = (_refutation(figure, name, selection, table, attacks) for name in figure.measured if attacks)
        return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class _Attacks:
    """The rows of an attack that say something about the bounds of the model that was bounded."""

    table: RunTable

    @cached_property
    def samples(self) -> Mapping[int, list[_Reached]]:
        """By index; rows that were measured on another network (--measure-on relu) are no evidence."""
        found: dict[int, list[_Reached]] = {}
        usual = MAP_ROUNDING.get(str(self.table.identity.get("dtype")), MAP_ROUNDING["float32"])
        for place, index in enumerate(self.table.cells["index"]):
            moved, turned, size, length, floor = (
                _number(self.table, name, place) for name in (MOVED, TURNED, "eps", "g_norm", "T_hat_floor")
            )
            if (turned if self._smoothed else moved) is None or size is None or not self._comparable(place):
                continue
            rounding = floor / length if floor and length else usual
            one = _Reached(
                source=self.table.name,
                attack=str(_cell(self.table, "attack", place) or "attack"),
                size=size,
                place=place,
                moved=moved or 0.0,
                turned=turned or 0.0,
                rounding=0.0 if self._smoothed else rounding,  # less than the errors that were taken off
                length=length or 0.0,
            )
            found.setdefault(int(index or 0), []).append(one)
        return found

    @property
    def _smoothed(self) -> bool:
        """Whether it turned smoothed maps; no more is known of them."""
        return self.table.command != "attack"

    @cached_property
    def _verdicts(self) -> Sequence[Cell] | None:
        """Of a bound that every run has."""
        always = (flag.name for flag, bound in verdicts() if bound.asked is None)
        return next((self.table.cells[name] for name in always if name in self.table.cells), None)

    def _comparable(self, place: int) -> bool:
        if self._smoothed:
            return True
        if self._verdicts is not None:
            return self._verdicts[place] is not None
        return self.table.identity.get("measure_on") == "twin"

    def speaks_of(self, table: RunTable) -> bool:
        """Whether both runs are about one model and data set, as far as is known before their rows are compared."""
        return not (self.table.manifest and table.manifest) or _same(self.table.identity, table.identity)

    def on(self, table: RunTable, place: int, claim: _Claim) -> Iterator[_Reached]:
        """The attacks on the map that a row is about, inside the ball of its claim."""
        for one in self.samples.get(claim.index, ()):
            if one.size <= claim.size * (1 + SAME) and _same_map(self.table, one.place, table, place):
                yield one


def _same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two identities name one model and one data set, by hash where both have one."""
    smoothed = ("seed",) if "smooth" in str(ours.get("attribution")) else ()  # whose noise it fixes
    for key in (*MODEL, *IMAGES, *smoothed):
        name = key if ours.get(key) and theirs.get(key) else NAMES.get(key, key)
        if name in ours and name in theirs and ours[name] != theirs[name]:
            return False
    builders = {str(one["arch"]).rpartition(":")[2] for one in (ours, theirs) if "arch" in one}  # a file has a hash
    return len(builders) < 2


def _same_map(one: RunTable, here: int, other: RunTable, there: int) -> bool:
    """Whether two rows are not about different maps: the attribution is told with its parameters. Where manifests do not tell whether
    the model is the same, classes and |g| do.
    """
    known = bool(one.manifest and other.manifest)
    for name in ("attribution", "norm", "target", "noise", "radius", *(() if known else ("predicted", "label"))):
        ours, theirs = _cell(one, name, here), _cell(other, name, there)
        if ours is not None and theirs is not None and ours != theirs:
            return False
    pair = ((one, here), (other, there))  # of several softplus versions the rows tell which
    betas = [_cell(table, "softplus_beta", place) or table.identity.get("softplus_beta") for table, place in pair]
    if known and betas[0] != betas[1]:
        return False
    length, other_length = _number(one, "g_norm", here), _number(other, "g_norm", there)
    return known or length is None or other_length is None or math.isclose(length, other_length, rel_tol=SAME_LENGTH)


def _cell(table: RunTable, name: str, place: int) -> Cell:
    column = table.cells.get(name)
    return None if column is None else column[place]


def _number(table: RunTable, name: str, place: int) -> float | None:
    cell = _cell(table, name, place)
    return None if cell is None else float(cell)


def _claim(table: RunTable, column: Column, place: int) -> _Claim | None:
    """What a cell claims; None where it is empty or claims nothing about the moved map."""
    figure, index = _number(table, column.name, place), int(table.cells["index"][place] or 0)
    if figure is None or table.failed[place]:
        return None
    if column.bounds == THRESHOLD:
        kind, threshold = _cell(table, "threshold_kind", place), _number(table, THRESHOLD, place) or 0.0
        if kind == "cosine-distance":
            kind, threshold = "angle", _angle(1 - threshold)
        if kind == COSINE:
            kind, threshold = "angle", _angle(threshold)
        if kind == "top-k":
            kind, threshold = "deviation", _number(table, "deviation_allowed", place) or math.inf
        return _Claim(index, figure, kind == "angle", threshold) if kind in ("angle", "deviation") else None
    size = _number(table, "eps", place)
    limit = _angle(figure) if _is_cosine(column) else figure
    return None if size is None else _Claim(index, size, column.bounds == TURNED, limit)


def _is_cosine(column: Column) -> bool:
    """Whether it bounds an angle by its cosine."""
    return column.bounds == TURNED and column.unit != DEGREES


def _angle(cosine: float) -> float:
    return math.degrees(math.acos(min(max(cosine, -1.0), 1.0)))


def _refutation(
    figure: Figure, name: str, selection: Selection, table: RunTable, attacks: Sequence[_Attacks]
) -> Refutation | None:
    column = table.column(name)
    claimed = column if column is None or column.bounds else table.column(column.follows)
    if column is None or claimed is None or not claimed.bounds:
        return None
    beaten: dict[int, tuple[float, _Claim, _Reached]] = {}  # by place in the selection
    for number, place in enumerate(selection.places):
        if claim := _claim(table, claimed, place):
            hits = [(one.excess(claim), claim, one) for part in attacks for one in part.on(table, place, claim)]
            most = max(hits, key=lambda hit: hit[0], default=None)
            if most is not None and most[0] > 0:
                beaten[number] = most
    if not beaten:
        return None
    gravest = sorted(beaten, key=lambda number: -beaten[number][0])
    _, claim, _ = beaten[gravest[0]]
    told = guarantees(name, table.command, table.cells.get("guarantee", ()))
    return Refutation(
        column=name,
        claim=_told(column, claimed),
        run=table.name,
        samples=len(beaten),
        judged=len(selection),
        excess=beaten[gravest[0]][0],
        unit=f" {DEGREES}" if claim.turned else "",
        by=tuple(_sources(one for _, _, one in beaten.values())),
        worst=tuple(
            (selection.indices[number], f"{one.figure(claim):.4g} against {claim.limit:.4g}")
            for number, (_, claim, one) in ((number, beaten[number]) for number in gravest[:WORST])
        ),
        put_in=_put_in(figure, column, selection, {n: one.figure(claim) for n, (_, claim, one) in beaten.items()}),
        promised=bool({Guarantee.PROVED, Guarantee.CONFIDENCE} & set(told)),
    )


def _told(column: Column, claimed: Column) -> str:
    if claimed is not column:
        return f"{claimed.name}, from which {column.name} follows,"
    return column.name if column.bounds != THRESHOLD else f"the threshold within {column.name}"


def _put_in(figure: Figure, column: Column, selection: Selection, reached: Mapping[int, float]) -> float | None:
    """The statistic with what attacks reached in place of what they exceeded."""
    if figure.column is None or column.bounds in ("", THRESHOLD):
        return None
    values = selection.values.copy()
    values[list(reached)] = [math.cos(math.radians(one)) if _is_cosine(column) else one for one in reached.values()]
    value = statistic(figure, values)
    return value if np.isfinite(value) else None


def _sources(hits: Iterable[_Reached]) -> Iterator[str]:
    """Files, and the attacks of each that exceeded the most."""
    attacks: dict[str, dict[str, None]] = {}
    for one in hits:
        attacks.setdefault(one.source, {})[one.attack] = None
    yield from (f"{source}, {' and '.join(names)}" for source, names in attacks.items())
