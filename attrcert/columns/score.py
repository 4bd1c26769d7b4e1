"""The columns of scores of attributions: each metric's own, in the rows of that metric alone."""

from dataclasses import replace
from math import inf
from typing import Any

from attrcert.columns.column import Column, figure
from attrcert.vocabulary import Guarantee

MEASURED, FIRST, CORRECTED, PROVED = (
    Guarantee.EMPIRICAL, Guarantee.FIRST_ORDER, Guarantee.CORRECTED, Guarantee.PROVED,
)  # fmt: skip
ON_PROVED = ("proved", True)
METRIC = Column("metric", str, "what was measured (`attrcert score`)", case=True, place=7)
CURVE = Column(
    "curve", str,
    "of insertion and its like: `share: probability` of the explained class, at each share of the pixels, as text",
)  # fmt: skip

# how often boxes are hits, at which thresholds: the parts of a map whose box counts, and the least IoU
HITS = {"largest 0.5": ("largest", 0.5), **{f"any {level}": ("any", level) for level in (0.3, 0.5, 0.7)}}
STEPS = 1000  # of the threshold, from 0


def score_columns(metric: str, *columns: Column) -> tuple[Column, ...]:
    """The columns of a metric, which no row of another has."""
    return tuple(replace(column, only=(METRIC.name, metric)) for column in columns)


def _similarity(name: str, meaning: str, **more: Any) -> Column:
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
            "deletion", MEASURED, "area under the class's probability as pixels are taken out, the most important first",
            most=1, headline=True, rank=24, compared=("mean",), place=34, leads=True,
        ),
    ),
    "adv-insertion": score_columns(
        "adv-insertion",
        figure(
            "adv_insertion", MEASURED, "insertion of the clean input's pixels in the order of the map at the attacked input",
            worse="down", most=1, headline=True, rank=25, compared=("mean",), place=35, leads=True,
        ),
    ),
    "local-robustness": score_columns(
        "local-robustness",
        figure(
            "robustness_lower", MEASURED, "largest |g(x+delta) - g(x)|_2 / |delta| found in the ball: local robustness is at least that",
            headline=True, rank=26, compared=("mean",), place=36, leads=True,
        ),
        figure(
            "robustness_first_order", FIRST, "what the Jacobian at x allows of local robustness; elsewhere in the ball it may be larger",
            headline=True, rank=27, place=37,
        ),
        figure(
            "robustness_ball", CORRECTED, "the largest gain found in the ball (T_e_ball / eps): an estimate of local robustness from above",
            headline=True, rank=28,
        ),
        figure(
            "robustness_proved", PROVED,
            "local robustness is at most that: T_proved / eps (--proved), where T_proved also bounds the rate of smaller changes",
            lacking=inf, asked=ON_PROVED, headline=True, rank=29, compared=("mean",), place=38,
        ),
    ),
    "crc": score_columns(
        "crc",
        figure(
            "crc", MEASURED, "(1 - cosine) / 2 of the maps at x and the attacked point; in score the largest of those tried",
            most=1, headline=True, rank=30, compared=("mean",), place=39, leads=True,
        ),
        figure(
            "crc_published", FIRST,
            "|J delta| / |g(x+delta)| at that point: the published bound without its remainder; crc can exceed it",
            headline=True, rank=31,
        ),
        figure(
            "crc_bound", MEASURED,
            "(1 - sqrt(1 - r^2)) / 2 at that point, r = |g(x+delta) - g(x)| / the longer map: never below crc; empty where r is 1 or more",
            lacking=1.0, most=1, headline=True, rank=32,
        ),
        figure(
            "crc_first_order", FIRST, "what T_e allows of crc in the ball: crc_bound with r = T_e / |g(x)|; empty where vacuous",
            lacking=1.0, most=1, headline=True, rank=33,
        ),
        figure(
            "crc_proved", PROVED, "what T_proved allows of crc in the ball (--proved); empty where vacuous",
            lacking=1.0, asked=ON_PROVED, most=1, headline=True, rank=34, compared=("mean",), place=40,
        ),
    ),
    "localisation": score_columns(
        "localisation",
        figure(
            "loc_iou", MEASURED, "intersection over union of the map's box (--loc-threshold) and the nearest true box (--boxes)",
            worse="down", most=1, headline=True, rank=44, compared=("mean",), place=44, leads=True,
        ),
        Column("gt_known_loc", bool, "whether loc_iou is 0.5 or more", MEASURED, compared=("fraction",), place=45),
        Column(
            "top1_loc", bool, "whether the prediction is right too; empty where the data have no labels", MEASURED, compared=("fraction",),
            place=46,
        ),
        Column("loc_box", str, "the map's box in pixels of the input: x0, y0, x1, y1"),
        Column(
            "box_hits", str,
            f"the thresholds (of {STEPS}) at which the box of the map's largest part, or of any part, has at least the IoU named",
        ),
    ),
    "stability": score_columns(
        "stability",
        *(
            figure(
                name, MEASURED, f"largest relative change of the map, entry by entry, by that of the {what} (relative {whose} stability)",
                headline=True, rank=35 + place, compared=("median",), place=41 + place, leads=not place,
            )
            for place, (name, what, whose) in enumerate(
                (("ris", "input", "input"), ("ros", "logits", "output"), ("rrs", "inner layer (--inner-layer)", "representation"))
            )
        ),
    ),
}  # fmt: skip


def score_row() -> tuple[Column, ...]:
    """All that a row of a score can have, of whatever metric."""
    return (METRIC, *(column for columns in SCORES.values() for column in columns), CURVE)
