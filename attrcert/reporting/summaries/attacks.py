"""The summary of an `attack` run, as the papers' tables: per eps and attack, what was reached beside what was bounded."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from attrcert.columns import (
    COLUMNS,
    CORRECT,
    DEGREES,
    METRIC_COLUMNS,
    ON_REQUEST,
    Cell,
    Column,
    Row,
    column_named,
    headlines,
    verdicts,
)
from attrcert.reporting.summaries.accuracies import Accuracy, accuracy_tables
from attrcert.reporting.summaries.bounds import ByColumn, Summary, counts_text, is_wrong, shown
from attrcert.reporting.summaries.statistics import InCase, by_part, figures, grouped, key_columns, mean, number, usable
from attrcert.reporting.tables.text_table import TextTable, plain, told
from attrcert.vocabulary import Aim, Guarantee, round_down, round_up

TARGET = "target_left"  # of the way to the target map, with manipulate


@dataclass(frozen=True)
class Outside:
    """A bound's mean, and how many of the samples that have both figures exceed it."""

    mean: float | None
    exceeded: int
    compared: int


@dataclass(frozen=True)
class AttackSummary(ByColumn, InCase):
    """All samples at one eps under one attack: `bounds` and other headline `figures`, means over every sample that has the figure."""

    attack: str
    samples: int
    label_changed: int
    bounds: dict[str, Outside]
    figures: dict[str, float | None]
    looseness: float | None
    tightness: float | None
    vacuous: int
    angles: int
    noise: int
    status: dict[str, int]
    misclassified: int
    metrics: dict[str, float]
    transferred: dict[str, float]
    predictions: Accuracy | None

    @property
    def reached(self) -> dict[str, float]:
        """All that was measured, by name."""
        accuracy = {"accuracy_attacked": self.predictions.accuracy_attacked} if self.predictions else {}
        first = {column.name: self.figures[column.name] for column in METRIC_COLUMNS.values() if column.headline}
        whole = {**accuracy, **first, **self.metrics, **self.transferred}
        return {name: value for name, value in whole.items() if value is not None}

    def mean(self, name: str) -> float | None:
        """Of a headline figure."""
        return self.bounds[name].mean if name in self.bounds else self.figures[name]


Columns = dict[str, Callable[[AttackSummary], str]]
OTHERS = {  # tables of what else was measured
    "Metrics between the maps at x and at the attacked point, means (empirical)": attrgetter("metrics"),
    "The same perturbations measured on other attributions, means (empirical)": attrgetter("transferred"),
}


def summarise_attacks(rows: Iterable[Row]) -> tuple[AttackSummary, ...]:
    """Rows grouped by eps and attack, in the order in which they came; rows of failed samples have no figures."""
    return tuple(
        _group(dict(of), number(eps), str(attack), group)
        for of, part in by_part(list(rows)).items()
        for (eps, attack), group in grouped(part, lambda row: (row["eps"], row.get("attack"))).items()
    )


def _group(of: Mapping[str, Cell], eps: float, attack: str, rows: Sequence[Row]) -> AttackSummary:
    good = usable(rows)
    columns, flags = headlines("attack"), {bound.name: flag.name for flag, bound in verdicts()}
    others = [(metric, column.name) for metric, column in METRIC_COLUMNS.items() if not column.headline]
    others += [(metric, column.name) for metric, column in ON_REQUEST.items()]
    others.append((TARGET, "target_left"))
    own = {column.name for column in (*COLUMNS["attack"], *ON_REQUEST.values())}
    named = dict.fromkeys(name for row in good for name in row if name not in own and not name.endswith(CORRECT))
    extra = [name for name in named if column_named(name, "attack")]
    return AttackSummary(
        of=of,
        eps=eps,
        attack=attack,
        samples=len(rows),
        label_changed=sum(row["status"] == "label-changed" for row in rows),
        bounds={c.name: _outside(good, c.name, flags.get(c.name)) for c in columns if _is_deviation(c)},
        figures={c.name: _mean(good, c.name) for c in columns if not _is_deviation(c)},
        looseness=_looseness(good),
        tightness=_mean(good, "tightness"),
        vacuous=sum(row.get("T_c_deg") is None and row.get("T_e") is not None for row in good),
        angles=sum(row.get("T_c_deg") is not None for row in good),
        noise=sum(_is_noise(row) for row in good),
        status=dict(Counter(str(row["status"]) for row in rows)),
        misclassified=sum(map(is_wrong, rows)),
        metrics={metric: mean for metric, name in others if (mean := _mean(good, name)) is not None},
        transferred={name: mean for name in extra if (mean := _mean(good, name)) is not None},
        predictions=Accuracy.of_rows(good),
    )


def _is_deviation(column: Column) -> bool:
    """Whether a headline bounds how far the map moves."""
    return not column.reached and column.unit != DEGREES


def _looseness(rows: Sequence[Row]) -> float | None:
    """How many times the proved bound is what the attack reached."""
    flag, bound = _proved()
    compared = [row for row in rows if row.get(flag.name) is not None and row.get(bound.name) is not None]
    return mean([number(row[bound.name]) / number(row[bound.bounds]) for row in compared if row.get(bound.bounds)])


def _proved() -> tuple[Column, Column]:
    """The proved bound that attacks are compared with, behind its verdict."""
    return next(pair for pair in verdicts() if pair[1].guarantee is Guarantee.PROVED)


def _is_noise(row: Row) -> bool:
    """Whether rounding alone may have made what the attack reached."""
    reached, floor = row.get("T_hat_e"), row.get("T_hat_floor")
    return reached is not None and floor is not None and 0 < number(reached) <= number(floor)


def _outside(rows: Sequence[Row], name: str, flag: str | None) -> Outside:
    verdicts = [row[flag] for row in rows if flag and row.get(flag) is not None]
    return Outside(_mean(rows, name), sum(map(bool, verdicts)), len(verdicts))


def _mean(rows: Sequence[Row], name: str) -> float | None:
    return mean(figures(rows, name))


def attack_tables(summary: Summary, attacks: Sequence[AttackSummary]) -> tuple[TextTable, ...]:
    """What was reached beside what was bounded, what was left of the accuracy, and the other metrics."""
    others = [_means(title, attacks, of) for title, of in OTHERS.items() if any(map(of, attacks))]
    moving = [part for part in attacks if Aim.of(part.attack) is Aim.MAP]
    tables = [_reached(summary, moving)] if moving else []
    if changing := [part for part in attacks if part not in moving]:
        tables += accuracy_tables(changing, () if moving else summary.told(), () if moving else _counts(changing))
    return (*tables, *others)


def _reached(summary: Summary, attacks: Sequence[AttackSummary]) -> TextTable:
    case, columns, proved = _case(attacks), _shown(attacks), _proved()[1]
    moves = METRIC_COLUMNS["euclidean"].name
    moved = [c for c in columns if c.reached and c.unit != DEGREES]
    angles = sorted((c for c in columns if c.unit == DEGREES), key=lambda c: (not c.reached, c.rank))
    ratios: Columns = {"tightness": lambda part: told(part.tightness, round_down)}
    if proved in columns:
        ratios[f"{proved.name}/{proved.bounds}"] = lambda part: told(part.looseness, round_up)
    return TextTable.of(
        "How far attacks move the attribution, and how far the "
        + ("first-order and proved bounds" if proved in columns else "first-order bounds")
        + " say they can",
        attacks,
        {
            **case,
            **{c.name: partial(_angle, c) for c in angles},
            **{c.name: partial(_moved, c) for c in moved if c.name == moves},
            **{c.name: partial(_against, c) for c in columns if _is_deviation(c)},
            **ratios,
            **{c.name: partial(_moved, c) for c in moved if c.name != moves},
            "samples": lambda part: str(part.samples),
        },
        facts=summary.told(),
        notes=_notes(summary, attacks),
        keys=len(case),
    )


def _case(attacks: Sequence[AttackSummary]) -> Columns:
    return {**key_columns(attacks), "attack": attrgetter("attack")}


def _shown(attacks: Sequence[AttackSummary]) -> list[Column]:
    return shown("attack", lambda name: any(part.mean(name) is not None for part in attacks))


def _moved(column: Column, part: AttackSummary) -> str:
    return told(part.figures[column.name], round_down)


def _against(column: Column, part: AttackSummary) -> str:
    bound = part.bounds[column.name]
    return told(bound.mean, round_up) + (f" [{_share(bound)}]" if bound.mean is not None and bound.compared else "")


def _share(bound: Outside) -> str:
    """In per cent; neither 0 nor 100 unless it is none or all."""
    percent = 100 * bound.exceeded / bound.compared
    if bound.exceeded and percent < 1:
        return "<1%"
    return ">99%" if bound.exceeded < bound.compared and percent > 99 else f"{percent:.0f}%"


def _angle(column: Column, part: AttackSummary) -> str:
    """With the number of samples that have it, where not all that are bounded at all have."""
    counted = column.asked is None and not column.reached and part.vacuous and part.angles
    value = part.figures[column.name]
    degrees = told(value, round_down if column.reached else round_up, 3) + ("" if value is None else "°")
    return degrees + (f" (n={part.angles})" if counted else "")


def _counts(attacks: Sequence[AttackSummary]) -> Iterable[str]:
    """How the samples ended, at each eps."""
    for part, *_ in grouped(attacks, attrgetter("where")).values():
        counts = counts_text(part.status, part.misclassified)
        yield f"{part.where}, means over {part.samples} samples ({part.attack}: {counts})."


def _notes(summary: Summary, attacks: Sequence[AttackSummary]) -> Iterable[str]:
    of_eps = grouped(attacks, attrgetter("where"))
    yield from _counts(attacks)
    yield (
        f"T_hat_c_deg, T_hat_e, T_sampled: {Guarantee.EMPIRICAL}, {Guarantee.EMPIRICAL.meaning}. "
        "T_sampled is the best of the random perturbations; T_hat_e belongs to the attack's best (by its own score, or by "
        "--keep) perturbation in the ball and the input range that keeps the label."
    )
    yield (
        f"T_e, T_c_deg: {Guarantee.FIRST_ORDER}, {Guarantee.FIRST_ORDER.meaning}. T_e_corrected = c T_e: {Guarantee.CORRECTED}. "
        "tightness: T_hat_e/T_e."
    )
    yield "In brackets: the share of samples whose attack exceeded the figure."
    names = {column.name for column in _shown(attacks)}
    if "T_e_ball" in names:
        yield f"T_e_ball: eps times the largest gain found in the ball, {Guarantee.CORRECTED}: a search, not a certificate."
    if _proved()[1].name in names:
        yield (
            f"T_proved, angle_proved_deg: {Guarantee.PROVED}, {Guarantee.PROVED.meaning}: the only guarantees here, over the whole ball. "
            "T_proved/T_hat_e is a mean of ratios: how much larger it is than what the attack reached."
        )
    for part in attacks:
        if part.noise:
            yield (
                f"{part.where}, {part.attack}: T_hat_e of {part.noise} samples is not above what rounding alone can make of it "
                "(T_hat_floor); it is not compared with the bounds. --dtype float64 lowers that floor."
            )
    if any(part.T_e.mean is not None and not part.T_e.compared and not part.noise for part in attacks):
        yield "The attribution was measured on another model than the bounds speak of: they are not compared."
    for part in attacks:
        if part.label_changed:
            yield (
                f"{part.where}, {part.attack}: every iterate of {part.label_changed} samples changed the label; "
                "they count with no perturbation (T_hat_e = 0)."
            )
    for where, parts in of_eps.items():
        vacuous = max(part.vacuous for part in parts)
        if vacuous:
            yield f"{where}: {vacuous} samples have no T_c_deg, since T_e reaches |g|; they are in the mean of T_hat_c_deg."


def _means(title: str, attacks: Sequence[AttackSummary], of: Callable[[AttackSummary], dict[str, float]]) -> TextTable:
    """Of other figures that each attack reached."""
    names = dict.fromkeys(name for part in attacks for name in of(part))
    known = METRIC_COLUMNS | ON_REQUEST
    columns = {name: known[name].name if name in known else name for name in names}

    def cell(name: str) -> Callable[[AttackSummary], str]:
        return lambda part: told(of(part).get(name), plain)

    case = _case(attacks)
    return TextTable.of(title, attacks, {**case, **{columns[name]: cell(name) for name in names}}, keys=len(case))
