"""The columns of rows: what each cell says, which way it gets worse, and what a row without it counts as."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Literal

from attrcert.vocabulary import ERROR_KINDS, Guarantee, SolverStatus, Status

ANY_ANGLE, ANY_COSINE = 180.0, -1.0  # degrees, and their cosine: what holds of any two maps
Cell = str | int | float | bool | None
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Column:
    """A column of rows. `worse` is the direction in which its figure gets worse, `reached` says that it was found and not bounded,
    `lacking` what a usable row counts as that has none because nothing bounds it (not where the figure does not apply), `words` all
    that a text can be, `least` and `most` what a number can be. `asked` is the entry of a run's identity without which it has no such
    figure.
    """

    name: str
    kind: type
    meaning: str
    worse: Literal["up", "down"] | None = None
    reached: bool = False
    lacking: float | None = None
    words: tuple[str, ...] = ()
    least: float = -inf
    most: float = inf
    asked: tuple[str, Cell] | None = None


def _words(names: type[StrEnum]) -> tuple[str, ...]:
    return tuple(name.value for name in names)


COMMON = (
    Column("index", int, "the sample's place in the data set", least=0),
    Column("label", int, "its label; empty where the data have none"),
    Column("predicted", int, "the class with the largest logit", least=0),
    Column("target", int, "the explained class y", least=0),
    Column("correct", bool, "whether the prediction is the label; empty where the data have none"),
    Column(
        "status",
        str,
        "ok, everywhere (max-eps --proved: the threshold is kept as far as two images can be apart), "
        "vacuous (T_e, or with --proved T_proved, >= g_norm, or C_lower <= 2 tau M: no angle follows), "
        "abstained (smoothed: the threshold was not certified), infeasible (min-radius: at no radius tested), label-changed (attack: "
        "no iterate kept the label), not-converged, or error:<kind>",
        words=(*_words(Status), *(f"error:{kind}" for kind in ERROR_KINDS)),
    ),
    Column(
        "guarantee",
        str,
        "what the bound promises: proved (T_proved), confidence (but for `failure`) or first-order (T_e holds for the linearised "
        "attribution only)",
        words=_words(Guarantee),
    ),
    Column("attribution", str, "the method with its parameters"),
    Column("norm", str, "of the perturbation: l2, l<p> or linf"),
    Column("eps", float, "its size, in pixel units", least=0),
    Column("g_norm", float, "|g(x)|_2", least=0),
)
BOUND = (
    Column(
        "xi_lower",
        float,
        "lower end of the enclosure of xi_max, the top singular value of the Jacobian (l2, lp)",
        worse="up",
        reached=True,
        least=0,
    ),
    Column(
        "xi_upper", float, "upper end, with probability 1 - failure over the solver's random start", worse="up", least=0
    ),
    Column(
        "solver_status",
        str,
        "converged, exhausted (whole space: exact), step-limit, or rounding (it takes more than the slack: use --dtype float64)",
        words=_words(SolverStatus),
    ),
    Column("steps", int, "Lanczos steps", least=0),
    Column("residual", float, "relative residual of the singular vector", least=0),
    Column("T_e", float, "first-order bound of |g(x+delta) - g(x)|_2 over the ball", worse="up", lacking=inf, least=0),
    Column(
        "T_e_attained",
        float,
        "what the linearised attribution reaches at the worst perturbation found: T_e is at most T_e/T_e_attained loose",
        worse="up",
        reached=True,
        least=0,
    ),
    Column(
        "c",
        float,
        "measured / linear change at the worst perturbation found, the larger of both signs, at least 1",
        least=1,
    ),
    Column(
        "T_e_corrected",
        float,
        "c T_e: first-order with a measured correction, not a certificate",
        worse="up",
        lacking=inf,
        least=0,
    ),
    Column(
        "T_e_ball",
        float,
        "eps times the largest gain |J(z) w|_2 found in the ball, in an attack also on the way to its points (--ball): corrected",
        worse="up",
        lacking=inf,
        least=0,
        asked=("ball", True),
    ),
    Column(
        "T_proved",
        float,
        "bound of |g(x+delta) - g(x)|_2 for every delta of the ball (--proved): proved",
        worse="up",
        lacking=inf,
        least=0,
        asked=("proved", True),
    ),
    Column(
        "angle_proved_deg",
        float,
        "the angle that it allows, degrees; empty where vacuous",
        worse="up",
        lacking=ANY_ANGLE,
        least=0,
        most=ANY_ANGLE,
        asked=("proved", True),
    ),
    Column(
        "proved_method", str, "which proved bound was the smallest: secant or interval", words=("secant", "interval")
    ),
    Column(
        "T_c_deg",
        float,
        "angle between g(x) and g(x+delta) that T_e allows, degrees; empty where vacuous",
        worse="up",
        lacking=ANY_ANGLE,
        least=0,
        most=ANY_ANGLE,
    ),
    Column(
        "T_c_corrected_deg",
        float,
        "the same from T_e_corrected",
        worse="up",
        lacking=ANY_ANGLE,
        least=0,
        most=ANY_ANGLE,
    ),
    Column(
        "linf_method",
        str,
        "which upper bound was the smallest: scaled, row-sums or corollary",
        words=("scaled", "row-sums", "corollary"),
    ),
    Column("linf_lower", float, "eps |J s|_2 at the best sign vector found (linf)", worse="up", reached=True, least=0),
    Column("T_e_scaled", float, "eps times the scaled bound", worse="up", least=0),
    Column("T_e_rowsums", float, "eps times the row-sum bound", worse="up", least=0),
    Column("T_e_corollary", float, "eps sqrt(d) xi_upper", worse="up", least=0),
    Column(
        "margin_radius",
        float,
        "smallest perturbation, in this norm, that changes the label of the linearised model",
        worse="down",
        least=0,
    ),
    Column("margin_classes", int, "classes looked at for it", least=0),
    Column(
        "label_kept",
        str,
        "signs of the worst perturbation found that keep the predicted label: both, plus, minus, none",
        words=("both", "plus", "minus", "none"),
    ),
    Column("label_kept_linearised", str, "the same by the linearised model", words=("both", "plus", "minus", "none")),
    Column(
        "T_e_label",
        float,
        "bound over the perturbations that keep the linearised label; where both signs lose it (may fail twice as often)",
        worse="up",
        least=0,
    ),
    Column(
        "eta",
        float,
        "linearisation error |g(x+delta) - g(x) - J delta|_2 at the worst perturbation found",
        worse="up",
        least=0,
    ),
    Column("eta_random", float, "its mean over random perturbations on the sphere of the ball", worse="up", least=0),
    Column("completeness_gap", float, "|sum g - (f_y(x) - f_y(baseline))| (integrated gradients)", least=0),
    Column("failure", float, "probability that xi_upper or the linf bound is too small, per sample", least=0, most=1),
)
CLOSING = (
    Column("seconds", float, "the sample's share of its batch's time", least=0),
    Column("seed", int, "of the run; a sample's draws depend on (seed, index) alone", least=0),
    Column("message", str, "why a sample could not be used, or what to try where it is infeasible"),
)
METRIC_COLUMNS = {
    "euclidean": Column(
        "T_hat_e",
        float,
        "|g(x+delta) - g(x)|_2 at the attack's best perturbation that keeps the label: empirical",
        worse="up",
        reached=True,
        least=0,
    ),
    "degrees": Column(
        "T_hat_c_deg",
        float,
        "angle between the two maps there, degrees",
        worse="up",
        reached=True,
        least=0,
        most=ANY_ANGLE,
    ),
    "cosine": Column("cosine", float, "its cosine", worse="down", reached=True, least=-1, most=1),
    "top-k": Column(
        "top_k",
        float,
        "share of the k largest entries by |.| that both maps have",
        worse="down",
        reached=True,
        least=0,
        most=1,
    ),
    "top-k-mass": Column(
        "top_k_mass",
        float,
        "share of the moved map's mass on the original's k largest entries",
        worse="down",
        reached=True,
        least=0,
        most=1,
    ),
    "kendall": Column(
        "kendall", float, "rank correlation tau-b of the maps", worse="down", reached=True, least=-1, most=1
    ),
    "spearman": Column(
        "spearman", float, "rank correlation rho of the maps", worse="down", reached=True, least=-1, most=1
    ),
    "pearson": Column("pearson", float, "correlation of the maps", worse="down", reached=True, least=-1, most=1),
    "mass-centre": Column(
        "mass_centre", float, "pixels between the centres of mass of |.|", worse="up", reached=True, least=0
    ),
    "ssim": Column(
        "ssim",
        float,
        "structural similarity of |.|, summed over channels and divided by its maximum",
        worse="down",
        reached=True,
        least=-1,
        most=1,
    ),
}
METRIC_NAMES = tuple(METRIC_COLUMNS)
ATTACK = (
    Column("attack", str, "the attack's name"),
    Column(
        "T_sampled",
        float,
        "largest |g(x+delta) - g(x)|_2 among random perturbations that keep the label: empirical",
        worse="up",
        reached=True,
        least=0,
    ),
    *METRIC_COLUMNS.values(),
    Column(
        "T_hat_floor",
        float,
        "what rounding alone may make of T_hat_e; where T_hat_e is not above it, it is noise and is not compared with any bound",
        least=0,
    ),
    Column(
        "tightness",
        float,
        "T_hat_e / T_e; empty where they speak of different models (--measure-on relu), or T_hat_e is noise",
        least=0,
    ),
    Column("violated", bool, "whether T_hat_e exceeds T_e"),
    Column("violated_corrected", bool, "whether T_hat_e exceeds T_e_corrected"),
    Column("violated_ball", bool, "whether T_hat_e exceeds T_e_ball"),
    Column("violated_proved", bool, "whether T_hat_e exceeds T_proved: never, or something is wrong (exit code 1)"),
    Column(
        "target_left",
        float,
        "with manipulate: squared distance of the map from the target, as a share of that of the original map",
        worse="down",
        reached=True,
        least=0,
    ),
    Column("delta_norm", float, "size of the perturbation in this norm", least=0),
    Column("attack_steps", int, "steps that its start took", least=0),
)
INVERSE = (
    Column(
        "threshold_kind",
        str,
        "deviation, cosine-distance, angle, or cosine (smoothed)",
        words=("deviation", "cosine-distance", "angle", "cosine"),
    ),
    Column("threshold", float, "what must not be exceeded, or the least cosine", least=0),
    Column("eps_max", float, "largest eps at which the bound keeps the threshold, rounded down", worse="down", least=0),
)
SMOOTH = (
    Column("noise", str, "uniform (in the l2 ball) or gaussian", words=("uniform", "gaussian")),
    Column("radius", float, "its radius, or sigma", least=0),
    Column("samples", int, "draws of the noise", least=0),
    Column(
        "C_hat", float, "length of the mean of the draws: an estimate of |h(x)|, biased upwards", worse="down", least=0
    ),
    Column("C_lower", float, "lower bound of |h(x)|, with probability 1 - failure", worse="down", least=0),
    Column("M", float, "bound of |g| by construction", least=0),
    Column("tau", float, "total variation between the noise at x and at distance eps", least=0, most=1),
    Column(
        "cosine",
        float,
        "least cosine between h(x) and h(x+delta), rounded down; empty where nothing follows",
        worse="down",
        lacking=ANY_COSINE,
        least=-1,
        most=1,
    ),
    Column("angle_deg", float, "the angle that it allows", worse="up", lacking=ANY_ANGLE, least=0, most=ANY_ANGLE),
    Column(
        "radius_min",
        float,
        "smallest radius of the grid at which the threshold was certified (min-radius)",
        worse="up",
        lacking=inf,
        least=0,
        asked=("task", "min-radius"),
    ),
    Column("radii_tried", str, "the radii tested, and the cosine (--radius best: the eps) certified at each"),
    Column("rule", str, "tight, tangent, or published (not a certificate)", words=("tight", "tangent", "published")),
    Column("confidence", str, "how |h(x)| was bounded from below"),
    Column(
        "failure",
        float,
        "probability that a row claims too much, over the radii that it chose from; with --simultaneous for all samples and radii at once",
        least=0,
        most=1,
    ),
)
COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "bound": COMMON + BOUND + CLOSING,
    "attack": COMMON + BOUND + ATTACK + CLOSING,
    "max-eps": COMMON + INVERSE + BOUND + CLOSING,
    "smooth": COMMON + INVERSE + SMOOTH + CLOSING,
}


PROMISED: Mapping[str, Guarantee] = {  # what a figure is worth; of the others, the row's own guarantee says it
    **dict.fromkeys(
        ("T_e", "T_c_deg", "T_e_label", "xi_upper", "T_e_scaled", "T_e_rowsums", "T_e_corollary"), Guarantee.FIRST_ORDER
    ),
    **dict.fromkeys(("T_e_corrected", "T_c_corrected_deg", "T_e_ball"), Guarantee.CORRECTED),
    **dict.fromkeys(("T_proved", "angle_proved_deg"), Guarantee.PROVED),
}
BY_ROW = ("eps_max", "radius_min", "cosine", "angle_deg")


def guarantees(name: str, command: str, of_rows: Iterable[Cell]) -> tuple[Guarantee, ...]:
    """What the figures of a column promise in a run whose rows say `of_rows`; nothing where it is no figure of that kind."""
    column = column_named(name, command)
    if column is None:
        return ()
    if column.reached:
        return (Guarantee.EMPIRICAL,)
    if name in BY_ROW:
        present = set(of_rows)
        return tuple(guarantee for guarantee in Guarantee if guarantee.value in present)
    return (PROMISED[name],) if name in PROMISED else ()


def column_named(name: str, command: str) -> Column | None:
    """A column that rows of this command can have."""
    own = (column for column in COLUMNS.get(command, ()) if column.name == name)
    if found := next(own, None):
        return found
    figure = next((figure for figure in TRANSFERRED if name.endswith(f"_{figure}")), None)
    if command != "attack" or figure is None:
        return None
    return _transferred(name, figure, f"{figure} of another attribution at the same perturbation")


def _transferred(name: str, figure: str, meaning: str) -> Column:
    """A figure of an attack, of another attribution."""
    return replace(next(column for column in ATTACK if column.name == figure), name=name, meaning=meaning)


def attack_columns(transfer: Sequence[str]) -> tuple[Column, ...]:
    """The columns of an attack, with those of the attributions that it was transferred to."""
    carried = tuple(
        _transferred(transfer_column(name, figure), figure, f"{figure} of {name} at the same perturbation")
        for name in transfer
        for figure in TRANSFERRED
    )
    return COMMON + BOUND + ATTACK + carried + CLOSING


TRANSFERRED = ("T_hat_e", "T_hat_c_deg", "top_k", "kendall")


def transfer_column(attribution: str, figure: str) -> str:
    return f"{attribution.replace('-', '_')}_{figure}"
