"""The columns of the bounds of `bound`, `attack` and `max-eps`."""

from math import inf

from attrcert.columns.column import Column, angle, figure, words
from attrcert.columns.consequences import consequences
from attrcert.vocabulary import LINF_METHODS, Guarantee, SolverStatus

FIRST, CORRECTED, PROVED, REACHED = (
    Guarantee.FIRST_ORDER, Guarantee.CORRECTED, Guarantee.PROVED, Guarantee.EMPIRICAL,
)  # fmt: skip
MOVED, TURNED = "T_hat_e", "T_hat_c_deg"  # what attacks reach
SIGNS = ("both", "plus", "minus", "none")
ON_BALL, ON_PROVED, COMPARED = ("ball", True), ("proved", True), ("label_constraint", "compare")

FIDELITY = (
    Column(
        "softplus_beta", float, "which softplus version the row speaks of, where a run has several", least=0, since=5, case=True,
    ),
    Column("same_label", bool, "whether that version predicts the class that the ReLU network predicts", since=5),
    figure("logit_gap", None, "largest difference between its logits and the ReLU network's", since=5),
    figure(
        "map_cosine", None, "cosine between its map and the ReLU network's, of the class `target`", worse="down", least=-1, most=1, since=5,
    ),
)  # fmt: skip
BOUND = (
    *FIDELITY,
    figure("xi_lower", REACHED, "lower end of the enclosure of xi_max, the top singular value of the Jacobian (l2, lp)"),
    figure("xi_upper", FIRST, "upper end, with probability 1 - failure over the solver's random start"),
    Column(
        "solver_status", str,
        "converged, exhausted (whole space: exact), step-limit, or rounding (it takes more than the slack: use --dtype float64)",
        words=words(SolverStatus),
    ),
    Column("steps", int, "Lanczos steps", least=0),
    Column("residual", float, "relative residual of the singular vector", least=0),
    figure(
        "T_e", FIRST, "first-order bound of |g(x+delta) - g(x)|_2 over the ball",
        lacking=inf, bounds=MOVED, headline=True, rank=1, axis="first-order bound T_e", compared=("mean",), place=13,
    ),
    figure(
        "T_e_attained", REACHED,
        "what the linearised attribution reaches at the worst perturbation found: T_e is at most T_e/T_e_attained loose",
    ),
    Column(
        "c", float, "measured / linear change at the worst perturbation found, the larger of both signs, at least 1", least=1,
    ),
    figure(
        "T_e_corrected", CORRECTED, "c T_e: first-order with a measured correction, not a certificate",
        lacking=inf, bounds=MOVED, headline=True, rank=2, note="T_e_corrected = c T_e, {0}: {0.meaning}.",
    ),
    figure(
        "T_e_ball", CORRECTED,
        "eps times the largest gain |J(z) w|_2 found in the ball, in an attack also on the way to its points (--ball): corrected",
        lacking=inf, asked=ON_BALL, bounds=MOVED, headline=True, rank=3,
        note="T_e_ball, {0}: eps times the largest gain found in the ball. A search, not a certificate.",
    ),
    figure(
        "T_proved", PROVED, "bound of |g(x+delta) - g(x)|_2 for every delta of the ball (--proved): proved",
        lacking=inf, asked=ON_PROVED, bounds=MOVED, headline=True, rank=5, axis="proved bound T_proved", compared=("mean",), place=14,
        note="T_proved, {0}: {0.meaning}, whatever an attack does; angle_proved_deg is what it allows. The other figures are "
        "not guarantees.",
    ),
    angle(
        "angle_proved_deg", PROVED, "the angle that it allows, degrees; empty where vacuous",
        asked=ON_PROVED, bounds=TURNED, follows="T_proved", headline=True, rank=6, note="",
        empty="T_proved reaches |g| on {} samples, of which no angle is proved; they lie beyond every percentile of it and are not in "
        "its mean.",
        axis="proved angle, degrees", curve="proved", compared=("p95",), place=11, leads=True,
    ),
    Column(
        "proved_method", str, "which proved bound was the smallest: secant, interval or joint; streamed where those need too much memory",
        words=("secant", "interval", "joint", "streamed"),
    ),
    angle(
        "T_c_deg", FIRST, "angle between g(x) and g(x+delta) that T_e allows, degrees; empty where vacuous",
        bounds=TURNED, follows="T_e", headline=True, rank=4,
        note="T_c_deg: the angle in degrees that T_e allows between the two attributions, first-order like it.",
        empty="{} samples are vacuous: T_e reaches |g|, so no angle follows. They lie beyond every percentile of T_c_deg and are not in "
        "its mean.",
        axis="first-order angle T_c_deg", curve="first-order T_c_deg", compared=("p95",), place=10, leads=True,
    ),
    angle("T_c_corrected_deg", CORRECTED, "the same from T_e_corrected", bounds=TURNED, follows="T_e_corrected"),
    *consequences("T_e", FIRST, follows="T_e"),
    *consequences("T_e_corrected", CORRECTED, "_corrected", follows="T_e_corrected"),
    *consequences("T_proved", PROVED, "_proved", follows="T_proved", asked=ON_PROVED),
    Column("linf_method", str, "which upper bound was the smallest: scaled, row-sums or corollary", words=LINF_METHODS),
    figure("linf_lower", REACHED, "eps |J s|_2 at the best sign vector found (linf)"),
    figure("T_e_scaled", FIRST, "eps times the scaled bound", bounds=MOVED),
    figure("T_e_rowsums", FIRST, "eps times the row-sum bound", bounds=MOVED),
    figure("T_e_corollary", FIRST, "eps sqrt(d) xi_upper", bounds=MOVED),
    figure(
        "margin_radius", None, "smallest perturbation, in this norm, that changes the label of the linearised model",
        worse="down",
    ),
    Column("margin_classes", int, "classes looked at for it", least=0),
    Column(
        "label_kept", str, "signs of the worst perturbation found that keep the predicted label: both, plus, minus, none",
        words=SIGNS,
    ),
    Column("label_kept_linearised", str, "the same by the linearised model", words=SIGNS),
    figure(
        "T_e_label", FIRST,
        "bound over the perturbations that keep the linearised label; where both signs lose it (may fail twice as often), with "
        "--label-constraint compare everywhere",
        bounds=MOVED,
    ),
    angle(
        "T_c_label_deg", FIRST, "the angle that it allows (--label-constraint compare)", asked=COMPARED, bounds=TURNED, follows="T_e_label",
        since=5,
    ),
    Column(
        "label_matters", bool,
        "whether T_e_label is below T_e by more than --slack, and below T_e_attained: the constraint lowers the first-order bound", since=5,
    ),
    figure("eta", None, "linearisation error |g(x+delta) - g(x) - J delta|_2 at the worst perturbation found"),
    figure("eta_random", None, "its mean over random perturbations on the sphere of the ball"),
    Column("completeness_gap", float, "|sum g - (f_y(x) - f_y(baseline))| (integrated gradients)", least=0),
    Column("failure", float, "probability that xi_upper or the linf bound is too small, per sample", least=0, most=1),
)  # fmt: skip
