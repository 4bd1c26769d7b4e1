"""The columns of what attacks reach, and of what that says of the bounds."""

from dataclasses import replace
from math import inf

from attrcert.columns.column import Column, angle, figure
from attrcert.columns.score import SCORES
from attrcert.vocabulary import Aim, Guarantee

REACHED = Guarantee.EMPIRICAL

METRIC_COLUMNS = {
    "euclidean": figure(
        "T_hat_e", REACHED,
        "|g(x+delta) - g(x)|_2 at the attack's best perturbation that keeps the label (that of prediction need not): empirical",
        headline=True, rank=8, compared=("mean",), place=15,
    ),
    "degrees": angle(
        "T_hat_c_deg", REACHED, "angle between the two maps there, degrees",
        headline=True, rank=9, curve="reached T_hat_c_deg", compared=("mean",), place=12, leads=True,
    ),
    "cosine": figure("cosine", REACHED, "its cosine", worse="down", least=-1, most=1, place=18),
    "top-k": figure(
        "top_k", REACHED, "share of the k largest entries by |.| that both maps have",
        worse="down", most=1, rank=12, compared=("mean",),
    ),
    "top-k-mass": figure(
        "top_k_mass", REACHED, "share of the moved map's mass on the original's k largest entries", worse="down", most=1
    ),
    "kendall": figure("kendall", REACHED, "rank correlation tau-b of the maps", worse="down", least=-1, most=1),
    "spearman": figure("spearman", REACHED, "rank correlation rho of the maps", worse="down", least=-1, most=1),
    "pearson": figure("pearson", REACHED, "correlation of the maps", worse="down", least=-1, most=1),
    "mass-centre": figure("mass_centre", REACHED, "pixels between the centres of mass of |.|", unit="pixels"),
    "ssim": figure(
        "ssim", REACHED, "structural similarity of |.|, summed over channels and divided by its maximum",
        worse="down", least=-1, most=1,
    ),
}  # fmt: skip
ON_REQUEST = {  # scores of the attacked map, which --metric must name
    name: replace(SCORES[name][0], only=None, headline=False, compared=(), place=None, leads=False)
    for name in ("insertion", "adv-insertion", "crc")
}
TRANSFERRED = ("T_hat_e", "T_hat_c_deg", "top_k", "kendall")
NAME = Column(
    "attack", str, "its name; behind a colon the checkpoint that it was made on (--transfer-from)", case=True, place=6
)
PREDICTION = (
    Column(
        "fooled", bool, "with prediction: whether the label, or without one the class predicted at x, is predicted there no more; empty "
        "where the prediction is wrong at x", REACHED, aim=Aim.PREDICTION, since=4, compared=("fraction",), place=12,
    ),
    Column("predicted_attacked", int, "with prediction: the class that is predicted there", least=0, aim=Aim.PREDICTION, since=4, place=3),
    Column(
        "correct_attacked", bool, "with prediction: whether that is the label, or without one the class predicted at x; its fraction is "
        "the accuracy under attack", REACHED, aim=Aim.PREDICTION, since=4, compared=("fraction",),
    ),
    figure(
        "margin_attacked", REACHED, "with prediction: logit of that class minus the largest other one there, the smallest that was found",
        worse="down", least=-inf, aim=Aim.PREDICTION, since=4,
    ),
)  # fmt: skip
CLEAN = Column("correct", bool, "whether the prediction at x is right", REACHED, aim=Aim.PREDICTION, since=4)
CORRECT = (CLEAN.name, "correct_attacked")  # what is also told of the checkpoints of --transfer-from
ATTACK = (
    NAME,
    figure(
        "T_sampled", REACHED, "largest |g(x+delta) - g(x)|_2 among random perturbations that keep the label: empirical",
        headline=True, rank=7,
    ),
    *METRIC_COLUMNS.values(),
    replace(
        METRIC_COLUMNS["euclidean"], name="T_hat_e_free", meaning="T_hat_e where the label may change (--label-constraint compare)",
        headline=False, compared=(), place=None, since=5,
    ),
    replace(
        METRIC_COLUMNS["degrees"], name="T_hat_c_free_deg", meaning="T_hat_c_deg where the label may change (--label-constraint compare)",
        headline=False, curve="", compared=(), place=None, leads=False, since=5,
    ),
    Column(
        "T_hat_floor", float,
        "what rounding alone may make of T_hat_e; where T_hat_e is not above it, it is noise and is not compared with any bound",
        least=0, since=2,
    ),
    Column(
        "tightness", float,
        "T_hat_e / T_e; empty where they speak of different models (--measure-on relu), or T_hat_e is noise",
        least=0, aim=Aim.MAP, rank=10, compared=("mean",), place=16,
    ),
    Column(
        "violated", bool, "whether T_hat_e exceeds T_e", aim=Aim.MAP, judges="T_e", rank=11, compared=("fraction",), place=17
    ),
    Column("violated_corrected", bool, "whether T_hat_e exceeds T_e_corrected", aim=Aim.MAP, judges="T_e_corrected"),
    Column("violated_ball", bool, "whether T_hat_e exceeds T_e_ball", aim=Aim.MAP, judges="T_e_ball"),
    Column(
        "violated_proved", bool, "whether T_hat_e exceeds T_proved: never, or something is wrong (exit code 1)",
        aim=Aim.MAP, judges="T_proved",
    ),
    figure(
        "target_left", REACHED,
        "with manipulate: squared distance of the map from the target, as a share of that of the original map", worse="down",
    ),
    *PREDICTION,
    Column("delta_norm", float, "size of the perturbation in this norm", least=0),
    Column("attack_steps", int, "steps that its start took", least=0),
)  # fmt: skip


def transfer_column(other: str, figure: str) -> str:
    """A figure of another attribution, or of another checkpoint."""
    return f"{other.replace('-', '_')}_{figure}"


def transferred(name: str, figure: str, meaning: str) -> Column:
    """A figure of an attack, of another attribution or another checkpoint."""
    known = {column.name: column for column in (*METRIC_COLUMNS.values(), *PREDICTION, CLEAN)}
    own = known[figure]
    return replace(own, name=name, meaning=meaning, headline=False, curve="", compared=(), place=None, leads=False)
