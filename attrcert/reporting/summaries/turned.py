"""The summary of `attack --smooth`: per eps, how far the attack turned the smoothed maps, beside how far the certificate lets them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attrcert.columns import Cell, Row
from attrcert.reporting.summaries.bounds import ByColumn
from attrcert.reporting.summaries.statistics import InCase, by_part, figures, grouped, key_columns, mean, number
from attrcert.reporting.tables.text_table import TextTable
from attrcert.vocabulary import Guarantee, round_down, round_up

NOTES = (
    "T_hat_c_deg is the angle at the perturbation found, measured on fresh draws, less two standard errors; cosine_hat is the plain "
    "estimate, T_sampled_c_deg the angle at a random perturbation of the same size, angle_deg what the certificate allows. "
    f"{Guarantee.EMPIRICAL}: {Guarantee.EMPIRICAL.meaning}.",
    "tightness, T_hat_c_deg/angle_deg, is a mean over the samples that have a certified angle. The perturbation lies in the ball; it "
    "may leave the input range and change the label, as the certificate allows.",
)


@dataclass(frozen=True)
class TurnedSummary(ByColumn, InCase):
    """All samples at one eps: means over those that have the figure."""

    samples: int
    angle_deg: float | None
    T_hat_c_deg: float | None
    cosine_hat: float | None
    T_sampled_c_deg: float | None
    tightness: float | None
    compared: int
    violated: int
    label_changed: int


def summarise_turned(rows: Sequence[Row]) -> tuple[TurnedSummary, ...]:
    """By eps, in the order in which they came; samples that failed have no figures."""
    return tuple(
        _group(dict(of), number(eps), group)
        for of, part in by_part(rows).items()
        for eps, group in grouped(part, lambda row: row["eps"]).items()
    )


def _group(of: Mapping[str, Cell], eps: float, rows: Sequence[Row]) -> TurnedSummary:
    def average(name: str) -> float | None:
        return mean(figures(rows, name))

    return TurnedSummary(
        of,
        eps,
        len(rows),
        average("angle_deg"),
        average("T_hat_c_deg"),
        average("cosine_hat"),
        average("T_sampled_c_deg"),
        average("tightness"),
        sum(row.get("violated_certified") is not None for row in rows),
        sum(row.get("violated_certified") is True for row in rows),
        sum(row.get("label_changed") is True for row in rows),
    )


def turned_table(rows: Sequence[Row]) -> TextTable:
    """A line per eps."""
    found = summarise_turned(rows)
    keys = key_columns(found)
    return TextTable(
        title="How far an attack turns the smoothed attribution",
        header=(
            *keys, "T_hat_c_deg", "angle_deg", "cosine_hat", "tightness", "T_sampled_c_deg", "violated_certified", "label_changed",
            "samples",
        ),
        cells=tuple(
            (
                *(cell(part) for cell in keys.values()),
                _degrees(part.T_hat_c_deg, round_down),
                _degrees(part.angle_deg, round_up),
                "-" if part.cosine_hat is None else round_up(part.cosine_hat, 4),
                "-" if part.tightness is None else round_down(part.tightness, 3),
                _degrees(part.T_sampled_c_deg, round_down),
                f"{part.violated}/{part.compared}",
                str(part.label_changed),
                str(part.samples),
            )
            for part in found
        ),
        keys=len(keys),
        notes=NOTES,
    )  # fmt: skip


def _degrees(value: float | None, rounded: Callable[[float, int], str]) -> str:
    return "-" if value is None else f"{rounded(value, 3)}°"
