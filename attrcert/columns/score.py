"""The columns of scores of attributions: each metric's own, in the rows of that metric alone."""

from dataclasses import replace

from attrcert.columns.column import Column, figure
from attrcert.vocabulary import Guarantee

MEASURED = Guarantee.EMPIRICAL
METRIC = Column("metric", str, "what was measured (`attrcert score`)", case=True, place=7)
CURVE = Column(
    "curve", str,
    "of insertion and its like: `share: probability` of the explained class, at each share of the pixels, as text",
)  # fmt: skip


def score_columns(metric: str, *columns: Column) -> tuple[Column, ...]:
    """The columns of a metric, which no row of another has."""
    return tuple(replace(column, only=(METRIC.name, metric)) for column in columns)


def _similarity(name: str, meaning: str, **more: object) -> Column:
    """Of maps at x and beside it."""
    return figure(
        name, MEASURED, f"{meaning} of the maps at x and at x + z, the mean over draws of z", worse="down", most=1, headline=True,
        compared=("mean",), **more,
    )  # fmt: skip


SCORES: dict[str, tuple[Column, ...]] = {
    "rps": score_columns(
        "rps",
        _similarity("rps_cosine", "cosine", rank=20, place=30, leads=True),
        _similarity("rps_pearson", "correlation", rank=21, place=31, least=-1),
        _similarity("rps_ssim", "structural similarity (images of 7 x 7 pixels or more)", rank=22, place=32, least=-1),
    ),
    "insertion": score_columns(
        "insertion",
        figure(
            "insertion", MEASURED, "area under the class's probability as pixels are put in, the most important first",
            worse="down", most=1, headline=True, rank=23, compared=("mean",), place=33, leads=True,
        ),
    ),
    "deletion": score_columns(
        "deletion",
        figure(
            "deletion", MEASURED, "the same as pixels are taken out, the most important first",
            most=1, headline=True, rank=24, compared=("mean",), place=34, leads=True,
        ),
    ),
}  # fmt: skip


def score_row() -> tuple[Column, ...]:
    """All that a row of a score can have, of whatever metric."""
    return (METRIC, *(column for columns in SCORES.values() for column in columns), CURVE)
