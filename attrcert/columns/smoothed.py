"""The columns of smoothing certificates."""

from math import inf

from attrcert.columns.bound import TURNED
from attrcert.columns.column import ANY_COSINE, OF_ROW, Column, angle, figure
from attrcert.columns.consequences import consequences
from attrcert.vocabulary import CENTRE, NOISES

SMOOTH = (
    Column("noise", str, "uniform (in the l2 ball), gaussian, or centre (gaussian, of --smooth centre)", words=(*NOISES, CENTRE)),
    Column("radius", float, "its radius, or sigma", least=0, case=True, place=9),
    Column("samples", int, "draws of the noise", least=0),
    figure("C_hat", None, "length of the mean of the draws: an estimate of |h(x)|, biased upwards", worse="down"),
    figure("C_lower", None, "lower bound of |h(x)|, with probability 1 - failure", worse="down"),
    figure("lambda_hat", None, "largest variance of the draws in any direction: an estimate, not a bound", since=3),
    figure("lambda_upper", None, "upper bound of the largest variance of g, with probability 1 - failure", since=3),
    Column("M", float, "bound of |g| by construction", least=0),
    Column("tau", float, "total variation between the noise at x and at distance eps", least=0, most=1),
    figure(
        "cosine", OF_ROW, "least cosine between h(x) and h(x+delta), rounded down; empty where nothing follows, vacuous up to 0",
        worse="down", lacking=ANY_COSINE, least=-1, most=1, bounds=TURNED, rank=14, axis="certified cosine", compared=("mean",), place=18,
    ),
    angle("angle_deg", OF_ROW, "the angle that it allows", bounds=TURNED, follows="cosine", place=19),
    *consequences("the deviation of h: of the mean of the draws", OF_ROW, follows="cosine"),
    figure(
        "radius_min", OF_ROW, "smallest radius of the grid at which the threshold was certified (min-radius)",
        lacking=inf, asked=("task", "min-radius"), rank=15, axis="smallest certified radius", compared=("mean",), place=21,
    ),
    Column("radii_tried", str, "the radii tested, and the cosine (--radius best: the eps) certified at each"),
    Column(
        "rule", str, "auto (the better of moments and tight), moments, tight, tangent, or published (not a certificate)",
        words=("auto", "moments", "tight", "tangent", "published"),
    ),
    Column("rule_used", str, "of the rules of auto, the one that gave the figure", words=("moments", "tight"), since=3),
    figure(
        "twice", None, "what twice as many draws would about give in place of cosine or eps_max: an estimate",
        worse="down", least=0, since=3,
    ),
    Column(
        "gaussian_sigma", float, "of uniform noise: radius / sqrt(d), the sigma at which Gaussian noise is much like it", least=0, since=3
    ),
    figure(
        "gaussian", None, "what such Gaussian noise would about give in place of cosine or eps_max, from the same draws: an estimate",
        worse="down", least=0, since=3,
    ),
    Column("confidence", str, "how |h(x)| was bounded from below; binomial: how the distances of a centre were"),
    Column(
        "failure", float,
        "probability that a row claims too much, over the radii that it chose from; with --simultaneous for all samples and radii at once",
        least=0, most=1,
    ),
)  # fmt: skip
