"""The columns of smoothing certificates."""

from math import inf

from attrcert.columns.column import ANY_COSINE, OF_ROW, Column, angle, figure
from attrcert.vocabulary import NOISES

SMOOTH = (
    Column("noise", str, "uniform (in the l2 ball) or gaussian", words=tuple(NOISES)),
    Column("radius", float, "its radius, or sigma", least=0, case=True, place=9),
    Column("samples", int, "draws of the noise", least=0),
    figure("C_hat", None, "length of the mean of the draws: an estimate of |h(x)|, biased upwards", worse="down"),
    figure("C_lower", None, "lower bound of |h(x)|, with probability 1 - failure", worse="down"),
    Column("M", float, "bound of |g| by construction", least=0),
    Column("tau", float, "total variation between the noise at x and at distance eps", least=0, most=1),
    figure(
        "cosine", OF_ROW, "least cosine between h(x) and h(x+delta), rounded down; empty where nothing follows",
        worse="down", lacking=ANY_COSINE, least=-1, most=1, rank=14, axis="certified cosine", compared=("mean",), place=18,
    ),
    angle("angle_deg", OF_ROW, "the angle that it allows", follows="cosine", place=19),
    figure(
        "radius_min", OF_ROW, "smallest radius of the grid at which the threshold was certified (min-radius)",
        lacking=inf, asked=("task", "min-radius"), rank=15, axis="smallest certified radius", compared=("mean",), place=21,
    ),
    Column("radii_tried", str, "the radii tested, and the cosine (--radius best: the eps) certified at each"),
    Column("rule", str, "tight, tangent, or published (not a certificate)", words=("tight", "tangent", "published")),
    Column("confidence", str, "how |h(x)| was bounded from below"),
    Column(
        "failure", float,
        "probability that a row claims too much, over the radii that it chose from; with --simultaneous for all samples and radii at once",
        least=0, most=1,
    ),
)  # fmt: skip
