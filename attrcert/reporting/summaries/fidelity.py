"""How close each of several softplus versions is to the ReLU network, beside what is bounded of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attrcert.columns import Cell, Row, column_named
from attrcert.reporting.summaries.statistics import (
    Statistic,
    by_part,
    figures,
    grouped,
    mean,
    number,
    part_columns,
    usable,
)
from attrcert.reporting.tables.text_table import TextTable, plain
from attrcert.vocabulary import THRESHOLDS, round_down, round_up

BOUNDED = {
    "T_c_deg": "bound",
    "eps_max": "max-eps",
}  # what stands beside it, whichever the run has, and a command that has it


@dataclass(frozen=True)
class Closeness:
    """One softplus version over the samples: on how many it keeps the label, the largest logit gap, the mean cosine of the maps; and the
    median of a bound in each case, None where half of the samples have none.
    """

    of: Mapping[str, Cell]
    samples: int
    kept: int
    logit_gap: float
    map_cosine: float | None
    figure: str
    medians: Mapping[str, float | None]

    @property
    def beta(self) -> float:
        return number(self.of["softplus_beta"])

    def as_json(self) -> dict[str, Any]:
        return {**self.of, **{name: value for name, value in asdict(self).items() if name != "of"}}


def closeness(rows: Sequence[Row]) -> tuple[Closeness, ...]:
    """By attribution, norm and beta; nothing where there is one beta."""
    good = [row for row in usable(rows) if row.get("same_label") is not None]
    figure = next((name for name in BOUNDED if any(row.get(name) is not None for row in good)), "T_c_deg")
    return tuple(_of(dict(of), part, figure) for of, part in by_part(good).items() if "softplus_beta" in dict(of))


def _of(of: Mapping[str, Cell], rows: Sequence[Row], figure: str) -> Closeness:
    samples = [group[0] for group in grouped(rows, lambda row: row["index"]).values()]
    return Closeness(
        of,
        len(samples),
        sum(row["same_label"] is True for row in samples),
        max(figures(samples, "logit_gap"), default=0.0),
        mean(figures(samples, "map_cosine")),
        figure,
        {case: _median(group, figure) for case, group in grouped(rows, _case).items()},
    )


def _case(row: Row) -> str:
    if row.get("eps") is not None:
        return f"eps {number(row['eps']):.4g}"
    sign = ">=" if THRESHOLDS.get(str(row["threshold_kind"]), ("",))[0].startswith("min") else "<="
    return f"{row['threshold_kind']} {sign} {number(row['threshold']):g}"


def _median(rows: Sequence[Row], figure: str) -> float | None:
    """Over samples, of which attacks have several rows; those without the figure lie beyond."""
    found = figures([group[0] for group in grouped(rows, lambda row: row["index"]).values()], figure)
    return Statistic.of(found, beyond=len({row["index"] for row in rows}) - len(found)).median


def fidelity_tables(rows: Sequence[Row]) -> tuple[TextTable, ...]:
    """One, where a run has several softplus versions."""
    found = closeness(rows)
    if not found:
        return ()
    known = column_named(found[0].figure, BOUNDED[found[0].figure])
    rounded = round_up if known and known.worse == "up" else round_down
    cases = dict.fromkeys(case for one in found for case in one.medians)

    def median(case: str) -> Any:
        return lambda one: "-" if (value := one.medians.get(case)) is None else rounded(value, 3)

    keys = part_columns(found)
    columns = {
        **keys,
        "same label": lambda one: f"{one.kept}/{one.samples}",
        "largest logit gap": lambda one: plain(one.logit_gap, 3),
        "cosine of maps": lambda one: "-" if one.map_cosine is None else plain(one.map_cosine, 3),
        **{f"{found[0].figure}, {case}": median(case) for case in cases},
    }
    title = "How close each softplus version is to the ReLU network, beside the median of its bound"
    return (TextTable.of(title, found, columns, keys=len(keys)),)


def kept_labels(rows: Sequence[Row]) -> list[str]:
    """Which beta keeps the ReLU network's labels, in a sentence."""
    found = {one.beta: one for one in closeness(rows)}
    if not found:
        return []
    told = [f"beta {beta:g} on {one.kept} of {one.samples}" for beta, one in sorted(found.items())]
    whole = [beta for beta, one in found.items() if one.kept == one.samples]
    least = f"the smallest beta that keeps all is {min(whole):g}" if whole else "no beta keeps all"
    return [f"The softplus version keeps the ReLU network's label with {', '.join(told)} samples; {least}."]
