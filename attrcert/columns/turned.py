"""The columns of attacks on smoothed attributions."""

from dataclasses import replace

from attrcert.columns.attack import METRIC_COLUMNS, NAME, REACHED
from attrcert.columns.column import Column, angle, figure

TURN = "turn"  # the attack's name
SOURCES = ("jacobian", "ascent", "random")
SMOOTH_ATTACK = (
    NAME,
    replace(
        METRIC_COLUMNS["degrees"],
        meaning="angle between h(x) and h(x+delta) at the perturbation found, degrees, by fresh draws, less two standard errors",
    ),
    figure("cosine_hat", REACHED, "estimate of its cosine, without bias", worse="down", least=-1, most=1, place=18),
    Column("cosine_error", float, "standard error of cosine_hat", least=0),
    replace(
        METRIC_COLUMNS["top-k"], since=3,
        meaning="share of the k largest entries by |.| that the two maps have in common, as means of the fresh draws",
    ),
    angle("T_sampled_c_deg", REACHED, "the same angle at a random perturbation of that size, by fewer draws"),
    Column(
        "tightness", float, "T_hat_c_deg / angle_deg: how much of the certified angle the attack reached",
        least=0, rank=10, compared=("mean",), place=16,
    ),
    Column(
        "violated_certified", bool, "whether T_hat_c_deg exceeds angle_deg: never, or something is wrong (exit code 1)",
        judges="angle_deg", rank=11, compared=("fraction",), place=17,
    ),
    Column(
        "found_by", str, "jacobian (of the smoothed map, from the certificate's draws), ascent (of the angle), or random", words=SOURCES,
    ),
    Column("label_changed", bool, "whether the model, without noise, predicts another class at x+delta"),
    Column("delta_norm", float, "size of the perturbation in this norm", least=0),
    Column("fresh_samples", int, "draws that T_hat_c_deg was measured on, none of which was used before", least=0),
)  # fmt: skip
