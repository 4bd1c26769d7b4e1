"""The summary of an `attack` run, as the papers' tables: per eps and attack, what was reached beside what was bounded."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum

from attrcert.columns import COLUMNS, METRIC_COLUMNS, Cell, Row, column_named
from attrcert.reporting.summaries.bounds import Summary, TextTable, counts_text
from attrcert.vocabulary import Guarantee, round_down, round_up

TARGET = "target left"  # of the way to the target map, with manipulate
REACHED = ("euclidean", "degrees")  # metrics that the first table shows


@dataclass(frozen=True)
class Outside:
    """A bound's mean, and how many of the samples that have both figures exceed it."""

    mean: float | None
    exceeded: int
    compared: int


@dataclass(frozen=True)
class AttackSummary:
    """All samples at one eps under one attack; means over every sample that has the figure."""

    eps: float
    attack: str
    samples: int
    label_changed: int
    T_sampled: float | None
    T_hat_e: float | None
    T_e: Outside
    T_e_corrected: Outside
    T_e_ball: Outside
    T_proved: Outside
    looseness: float | None
    angle_proved_deg: float | None
    tightness: float | None
    T_hat_c_deg: float | None
    T_c_deg: float | None
    vacuous: int
    angles: int
    noise: int
    status: dict[str, int]
    misclassified: int
    metrics: dict[str, float]
    transferred: dict[str, float]

    @property
    def figures(self) -> dict[str, float]:
        """Everything that was reached, by name."""
        reached = {"T_hat_e": self.T_hat_e, "T_hat_c": self.T_hat_c_deg, **self.metrics, **self.transferred}
        return {name: value for name, value in reached.items() if value is not None}


def summarise_attacks(rows: Iterable[Row]) -> tuple[AttackSummary, ...]:
    """Rows grouped by eps and attack, in the order in which they came; rows of failed samples have no figures."""
    groups: dict[tuple[Cell, Cell], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["eps"], row.get("attack")), []).append(row)
    return tuple(_group(_number(eps), str(attack), group) for (eps, attack), group in groups.items())


def _group(eps: float, attack: str, rows: Sequence[Row]) -> AttackSummary:
    usable = [row for row in rows if not str(row["status"]).startswith("error:")]
    others = [(metric, column.name) for metric, column in METRIC_COLUMNS.items() if metric not in REACHED]
    others.append((TARGET, "target_left"))
    own = {column.name for column in COLUMNS["attack"]}
    extra = dict.fromkeys(name for row in usable for name in row if column_named(name, "attack") and name not in own)
    return AttackSummary(
        eps=eps,
        attack=attack,
        samples=len(rows),
        label_changed=sum(row["status"] == "label-changed" for row in rows),
        T_sampled=_mean(usable, "T_sampled"),
        T_hat_e=_mean(usable, "T_hat_e"),
        T_e=_outside(usable, "T_e", "violated"),
        T_e_corrected=_outside(usable, "T_e_corrected", "violated_corrected"),
        T_e_ball=_outside(usable, "T_e_ball", "violated_ball"),
        T_proved=_outside(usable, "T_proved", "violated_proved"),
        looseness=_mean_ratio([row for row in usable if row.get("violated_proved") is not None], "T_proved", "T_hat_e"),
        angle_proved_deg=_mean(usable, "angle_proved_deg"),
        tightness=_mean(usable, "tightness"),
        T_hat_c_deg=_mean(usable, "T_hat_c_deg"),
        T_c_deg=_mean(usable, "T_c_deg"),
        vacuous=sum(row.get("T_c_deg") is None for row in usable),
        angles=sum(row.get("T_c_deg") is not None for row in usable),
        noise=sum(_is_noise(row) for row in usable),
        status=dict(Counter(str(row["status"]) for row in rows)),
        misclassified=sum(row.get("correct") is False for row in rows),
        metrics={metric: mean for metric, name in others if (mean := _mean(usable, name)) is not None},
        transferred={name: mean for name in extra if (mean := _mean(usable, name)) is not None},
    )


def _is_noise(row: Row) -> bool:
    """Whether rounding alone may have made what the attack reached."""
    reached, floor = row.get("T_hat_e"), row.get("T_hat_floor")
    return reached is not None and floor is not None and 0 < _number(reached) <= _number(floor)


def _outside(rows: Sequence[Row], name: str, flag: str) -> Outside:
    compared = [row for row in rows if row.get(flag) is not None]
    return Outside(_mean(rows, name), sum(bool(row[flag]) for row in compared), len(compared))


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [_number(row[name]) for row in rows if row.get(name) is not None]
    return fsum(values) / len(values) if values else None


def _mean_ratio(rows: Sequence[Row], name: str, of: str) -> float | None:
    ratios = [_number(row[name]) / _number(row[of]) for row in rows if row.get(name) is not None and row.get(of)]
    return fsum(ratios) / len(ratios) if ratios else None


def _number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


def attack_tables(summary: Summary, attacks: Sequence[AttackSummary], *, auc: bool) -> tuple[TextTable, ...]:
    """What was reached beside what was bounded; the other metrics; and the areas over eps if asked for."""
    tables = [_reached(summary, attacks)]
    if any(part.metrics for part in attacks):
        tables.append(_metrics(attacks))
    if any(part.transferred for part in attacks):
        tables.append(_transferred(attacks))
    if auc:
        tables.append(_areas(attacks))
    return tuple(tables)


def _reached(summary: Summary, attacks: Sequence[AttackSummary]) -> TextTable:
    with_ball = any(part.T_e_ball.mean is not None for part in attacks)
    with_proof = any(part.T_proved.mean is not None for part in attacks)
    more_headers = (("T_ball [outside]",) if with_ball else ()) + (("T_proved [outside]",) if with_proof else ())
    lines = []
    for part in attacks:
        more = (*((part.T_e_ball,) if with_ball else ()), *((part.T_proved,) if with_proof else ()))
        bounds = (part.T_e, part.T_e_corrected, *more)
        lines.append(
            (
                f"{part.eps:.4g}",
                part.attack,
                _down(part.T_sampled),
                _down(part.T_hat_e),
                *(_against(bound) for bound in bounds),
                _down(part.tightness),
                *((_up(part.looseness),) if with_proof else ()),
                _degrees(part.T_hat_c_deg, round_down),
                _degrees(part.T_c_deg, round_up) + (f" (n={part.angles})" if part.vacuous and part.angles else ""),
                *((_degrees(part.angle_proved_deg, round_up),) if with_proof else ()),
                str(part.samples),
            )
        )
    return TextTable(
        title="How far attacks move the attribution, and how far the "
        + ("first-order and proved bounds" if with_proof else "first-order bounds")
        + " say they can",
        facts=tuple(f"{name}: {value}" for name, value in summary.facts.items() if value is not None),
        header=(
            "eps",
            "attack",
            "sampled",
            "T_hat_e",
            "T_e [outside]",
            "T'_e [outside]",
            *more_headers,
            "T_hat_e/T_e",
            *(("T_proved/T_hat_e",) if with_proof else ()),
            "T_hat_c",
            "T_c",
            *(("proved angle",) if with_proof else ()),
            "samples",
        ),
        cells=tuple(lines),
        notes=tuple(_notes(summary, attacks)),
    )


def _notes(summary: Summary, attacks: Sequence[AttackSummary]) -> Iterable[str]:
    first = {eps: next(part for part in attacks if part.eps == eps) for eps in dict.fromkeys(p.eps for p in attacks)}
    for part in first.values():
        counts = counts_text(part.status, part.misclassified)
        yield f"eps {part.eps:.4g}, means over {part.samples} samples ({part.attack}: {counts})."
    yield (
        f"sampled, T_hat_e, T_hat_c: {Guarantee.EMPIRICAL}, {Guarantee.EMPIRICAL.meaning}. "
        "sampled is the best of the random perturbations; T_hat_e belongs to the attack's best (by its own score, or by "
        "--keep) perturbation in the ball and in [0,1] that keeps the label."
    )
    yield f"T_e, T_c: {Guarantee.FIRST_ORDER}, {Guarantee.FIRST_ORDER.meaning}. T'_e = c T_e: {Guarantee.CORRECTED}."
    yield "[outside]: the share of samples whose attack exceeded the figure."
    if any(part.T_e_ball.mean is not None for part in attacks):
        yield f"T_ball: eps times the largest gain found in the ball, {Guarantee.CORRECTED}: a search, not a certificate."
    if any(part.T_proved.mean is not None for part in attacks):
        yield (
            f"T_proved and its angle: {Guarantee.PROVED}, {Guarantee.PROVED.meaning}: the only guarantees here, over the whole ball. "
            "T_proved/T_hat_e is a mean of ratios: how much larger it is than what the attack reached."
        )
    for part in attacks:
        if part.noise:
            yield (
                f"eps {part.eps:.4g}, {part.attack}: T_hat_e of {part.noise} samples is not above what rounding alone can make of it "
                "(T_hat_floor); it is not compared with the bounds. --dtype float64 lowers that floor."
            )
    if any(part.T_e.mean is not None and not part.T_e.compared and not part.noise for part in attacks):
        yield "The attribution was measured on another model than the bounds speak of: they are not compared."
    for part in attacks:
        if part.label_changed:
            yield (
                f"eps {part.eps:.4g}, {part.attack}: every iterate of {part.label_changed} samples changed the label; "
                "they count with no perturbation (T_hat_e = 0)."
            )
    for eps in dict.fromkeys(part.eps for part in attacks):
        vacuous = max(part.vacuous for part in attacks if part.eps == eps)
        if vacuous:
            yield f"eps {eps:.4g}: {vacuous} samples have no T_c, since T_e reaches |g|; they are in the mean of T_hat_c."


def _metrics(attacks: Sequence[AttackSummary]) -> TextTable:
    names = [name for name in (*METRIC_COLUMNS, TARGET) if any(name in part.metrics for part in attacks)]
    return TextTable(
        title="Metrics between the maps at x and at the attacked point, means (empirical)",
        facts=(),
        header=("eps", "attack", *names),
        cells=tuple(
            (f"{part.eps:.4g}", part.attack, *(_plain(part.metrics.get(name)) for name in names)) for part in attacks
        ),
        notes=(),
    )


def _transferred(attacks: Sequence[AttackSummary]) -> TextTable:
    names = list(dict.fromkeys(name for part in attacks for name in part.transferred))
    return TextTable(
        title="The same perturbations measured on other attributions, means (empirical)",
        facts=(),
        header=("eps", "attack", *names),
        cells=tuple(
            (f"{part.eps:.4g}", part.attack, *(_plain(part.transferred.get(name)) for name in names))
            for part in attacks
        ),
        notes=(),
    )


def area(points: Sequence[tuple[float, float]]) -> float:
    """The trapezoid rule over (eps, figure) [wang2020smoothed, Table 2]."""
    ordered = sorted(points)
    return fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(ordered))


@dataclass(frozen=True)
class Area:
    """Under one figure's mean over eps: the area, and the area over the range of eps that it spans."""

    attack: str
    figure: str
    area: float
    average: float


def areas(attacks: Sequence[AttackSummary]) -> tuple[Area, ...]:
    """Of every figure that two eps at least have."""
    curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for part in attacks:
        for figure, value in part.figures.items():
            curves.setdefault((part.attack, figure), []).append((part.eps, value))
    return tuple(
        Area(attack, figure, area(curve), area(curve) / (max(curve)[0] - min(curve)[0]))
        for (attack, figure), curve in curves.items()
        if len(curve) > 1
    )


def _areas(attacks: Sequence[AttackSummary]) -> TextTable:
    lines = [(one.attack, one.figure, _plain(one.area), _plain(one.average)) for one in areas(attacks)]
    return TextTable(
        title="Areas under the mean figures over eps, by the trapezoid rule (empirical)",
        facts=(),
        header=("attack", "figure", "area", "area / range of eps"),
        cells=tuple(lines),
        notes=(),
    )


def _against(bound: Outside) -> str:
    if bound.mean is None:
        return "-"
    return round_up(bound.mean, 4) + (f" [{_share(bound)}]" if bound.compared else "")


def _share(bound: Outside) -> str:
    """In per cent; neither 0 nor 100 unless it is none or all."""
    percent = 100 * bound.exceeded / bound.compared
    if bound.exceeded and percent < 1:
        return "<1%"
    return ">99%" if bound.exceeded < bound.compared and percent > 99 else f"{percent:.0f}%"


def _down(value: float | None) -> str:
    return "-" if value is None else round_down(value, 4)


def _up(value: float | None) -> str:
    return "-" if value is None else round_up(value, 4)


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _degrees(value: float | None, rounded: Callable[[float, int], str]) -> str:
    return "-" if value is None else f"{rounded(value, 3)}°"
