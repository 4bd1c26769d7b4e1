"""Rows, their columns, and the files they live in: an append-only CSV and its manifest."""

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attrcert.errors import ResumeError, UsageError

SCHEMA = 1
Cell = str | int | float | bool | None
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Column:
    name: str
    kind: type
    meaning: str


COMMON = (
    Column("index", int, "the sample's place in the data set"),
    Column("label", int, "its label; empty where the data have none"),
    Column("predicted", int, "the class with the largest logit"),
    Column("target", int, "the explained class y"),
    Column(
        "status",
        str,
        "ok, misclassified, vacuous (T_e, or with --proved T_proved, >= g_norm, or C_lower <= 2 tau M: no angle follows), "
        "abstained (smoothed: the threshold was not certified), infeasible (min-radius: at no radius tested), label-changed (attack: "
        "no iterate kept the label), not-converged, or error:<kind>",
    ),
    Column(
        "guarantee",
        str,
        "what the bound promises: proved (T_proved), confidence (but for `failure`) or first-order (T_e holds for the linearised "
        "attribution only)",
    ),
    Column("attribution", str, "the method with its parameters"),
    Column("norm", str, "of the perturbation: l2, l<p> or linf"),
    Column("eps", float, "its size, in pixel units"),
    Column("g_norm", float, "|g(x)|_2"),
)
BOUND = (
    Column("xi_lower", float, "lower end of the enclosure of xi_max, the top singular value of the Jacobian (l2, lp)"),
    Column("xi_upper", float, "upper end, with probability 1 - failure over the solver's random start"),
    Column("solver_status", str, "converged, exhausted (whole space: exact), or step-limit"),
    Column("steps", int, "Lanczos steps"),
    Column("residual", float, "relative residual of the singular vector"),
    Column("T_e", float, "first-order bound of |g(x+delta) - g(x)|_2 over the ball"),
    Column(
        "T_e_attained",
        float,
        "what the linearised attribution reaches at the worst perturbation found: T_e is at most T_e/T_e_attained loose",
    ),
    Column(
        "c", float, "measured / linear change at the worst perturbation found, the larger of both signs, at least 1"
    ),
    Column("T_e_corrected", float, "c T_e: first-order with a measured correction, not a certificate"),
    Column(
        "T_e_ball",
        float,
        "eps times the largest gain |J(z) w|_2 found in the ball, in an attack also on the way to its points (--ball): corrected",
    ),
    Column("T_proved", float, "bound of |g(x+delta) - g(x)|_2 for every delta of the ball (--proved): proved"),
    Column("angle_proved_deg", float, "the angle that it allows, degrees; empty where vacuous"),
    Column("proved_method", str, "which proved bound was the smallest: secant or interval"),
    Column("T_c_deg", float, "angle between g(x) and g(x+delta) that T_e allows, degrees; empty where vacuous"),
    Column("T_c_corrected_deg", float, "the same from T_e_corrected"),
    Column("linf_method", str, "which upper bound was the smallest: scaled, row-sums or corollary"),
    Column("linf_lower", float, "eps |J s|_2 at the best sign vector found (linf)"),
    Column("T_e_scaled", float, "eps times the scaled bound"),
    Column("T_e_rowsums", float, "eps times the row-sum bound"),
    Column("T_e_corollary", float, "eps sqrt(d) xi_upper"),
    Column(
        "margin_radius", float, "smallest perturbation, in this norm, that changes the label of the linearised model"
    ),
    Column("margin_classes", int, "classes looked at for it"),
    Column(
        "label_kept",
        str,
        "signs of the worst perturbation found that keep the predicted label: both, plus, minus, none",
    ),
    Column("label_kept_linearised", str, "the same by the linearised model"),
    Column(
        "T_e_label",
        float,
        "bound over the perturbations that keep the linearised label; where both signs lose it (may fail twice as often)",
    ),
    Column("eta", float, "linearisation error |g(x+delta) - g(x) - J delta|_2 at the worst perturbation found"),
    Column("eta_random", float, "its mean over random perturbations on the sphere of the ball"),
    Column("completeness_gap", float, "|sum g - (f_y(x) - f_y(baseline))| (integrated gradients)"),
    Column("failure", float, "probability that xi_upper or the linf bound is too small, per sample"),
)
CLOSING = (
    Column("seconds", float, "the sample's share of its batch's time"),
    Column("seed", int, "of the run; a sample's draws depend on (seed, index) alone"),
    Column("message", str, "why a sample could not be used, or what to try where it is infeasible"),
)
METRICS = {
    "euclidean": Column(
        "T_hat_e", float, "|g(x+delta) - g(x)|_2 at the attack's best perturbation that keeps the label: empirical"
    ),
    "degrees": Column("T_hat_c_deg", float, "angle between the two maps there, degrees"),
    "cosine": Column("cosine", float, "its cosine"),
    "top-k": Column("top_k", float, "share of the k largest entries by |.| that both maps have"),
    "top-k-mass": Column("top_k_mass", float, "share of the moved map's mass on the original's k largest entries"),
    "kendall": Column("kendall", float, "rank correlation tau-b of the maps"),
    "spearman": Column("spearman", float, "rank correlation rho of the maps"),
    "pearson": Column("pearson", float, "correlation of the maps"),
    "mass-centre": Column("mass_centre", float, "pixels between the centres of mass of |.|"),
    "ssim": Column("ssim", float, "structural similarity of |.|, summed over channels and divided by its maximum"),
}
METRIC_NAMES = tuple(METRICS)
ATTACK = (
    Column("attack", str, "the attack's name"),
    Column(
        "T_sampled", float, "largest |g(x+delta) - g(x)|_2 among random perturbations that keep the label: empirical"
    ),
    *METRICS.values(),
    Column("tightness", float, "T_hat_e / T_e; empty where they speak of different models (--measure-on relu)"),
    Column("violated", bool, "whether T_hat_e exceeds T_e"),
    Column("violated_corrected", bool, "whether T_hat_e exceeds T_e_corrected"),
    Column("violated_ball", bool, "whether T_hat_e exceeds T_e_ball"),
    Column("violated_proved", bool, "whether T_hat_e exceeds T_proved: never, or something is wrong (exit code 1)"),
    Column(
        "target_left",
        float,
        "with manipulate: squared distance of the map from the target, as a share of that of the original map",
    ),
    Column("delta_norm", float, "size of the perturbation in this norm"),
    Column("attack_steps", int, "steps that its start took"),
)
INVERSE = (
    Column("threshold_kind", str, "deviation, cosine-distance, angle, or cosine (smoothed)"),
    Column("threshold", float, "what must not be exceeded, or the least cosine"),
    Column("eps_max", float, "largest eps at which the bound keeps the threshold, rounded down"),
)
SMOOTH = (
    Column("noise", str, "uniform (in the l2 ball) or gaussian"),
    Column("radius", float, "its radius, or sigma"),
    Column("samples", int, "draws of the noise"),
    Column("C_hat", float, "length of the mean of the draws: an estimate of |h(x)|, biased upwards"),
    Column("C_lower", float, "lower bound of |h(x)|, with probability 1 - failure"),
    Column("M", float, "bound of |g| by construction"),
    Column("tau", float, "total variation between the noise at x and at distance eps"),
    Column("cosine", float, "least cosine between h(x) and h(x+delta), rounded down; empty where nothing follows"),
    Column("angle_deg", float, "the angle that it allows"),
    Column("radius_min", float, "smallest radius of the grid at which the threshold was certified (min-radius)"),
    Column("radii_tried", str, "the radii tested, and the cosine (--radius best: the eps) certified at each"),
    Column("rule", str, "tight, tangent, or published (not a certificate)"),
    Column("confidence", str, "how |h(x)| was bounded from below"),
    Column(
        "failure",
        float,
        "probability that a row claims too much, over the radii that it chose from; with --simultaneous for all samples and radii at once",
    ),
)
COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "bound": COMMON + BOUND + CLOSING,
    "attack": COMMON + BOUND + ATTACK + CLOSING,
    "max-eps": COMMON + INVERSE + BOUND + CLOSING,
    "smooth": COMMON + INVERSE + SMOOTH + CLOSING,
}


def attack_columns(transfer: Sequence[str]) -> tuple[Column, ...]:
    """The columns of an attack, with those of the attributions that it was transferred to."""
    carried = tuple(
        Column(transfer_column(name, figure), float, f"{figure} of {name} at the same perturbation")
        for name in transfer
        for figure in TRANSFERRED
    )
    return COMMON + BOUND + ATTACK + carried + CLOSING


TRANSFERRED = ("T_hat_e", "T_hat_c_deg", "top_k", "kendall")


def transfer_column(attribution: str, figure: str) -> str:
    return f"{attribution.replace('-', '_')}_{figure}"


def render(value: Cell) -> str:
    """A cell as text: floats by repr, empty for not applicable."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def parse(text: str, kind: type) -> Cell:
    if text == "":
        return None
    return {"True": True, "False": False}[text] if kind is bool else kind(text)


def to_csv(rows: Iterable[Row], columns: Sequence[Column], *, header: bool) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow([column.name for column in columns])
    writer.writerows([render(row.get(column.name)) for column in columns] for row in rows)
    return stream.getvalue()


def read_rows(path: Path, columns: Sequence[Column]) -> list[dict[str, Cell]]:
    """The whole rows of a CSV; a torn last line is left out."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    while whole.count(b'"') % 2:  # torn inside a quoted cell of several lines
        whole = whole[: whole.rfind(b"\n", 0, -1) + 1]
    reader = csv.DictReader(io.StringIO(whole.decode(), newline=""))
    names = [column.name for column in columns]
    if reader.fieldnames != names:
        raise ResumeError(
            f"{path} has other columns than this version writes", hint="choose another --out, or --overwrite"
        )
    kinds = {column.name: column.kind for column in columns}
    rows = []
    for number, line in enumerate(reader, 2):
        try:
            rows.append({name: parse(text, kinds[name]) for name, text in line.items()})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ResumeError(
                f"row {number} of {path} cannot be read: {error}", hint="mend or delete that row, or use --overwrite"
            ) from error
    return rows


class RowFile:
    """The CSV of a run and the manifest beside it; every batch is flushed, and a killed run can go on.

    `identity` is what makes two runs the same run: a run is resumed only where it is equal.
    """

    def __init__(
        self,
        path: Path,
        command: str,
        identity: Mapping[str, Any],
        *,
        columns: Sequence[Column] | None = None,
        rows_per_sample: int | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.path, self.columns = path, columns or COLUMNS[command]
        self._rows_per_sample = rows_per_sample or len(identity["eps"])
        self.rows: list[dict[str, Cell]] = []
        self.earlier: Mapping[str, Any] = {}
        self._head = {"schema": SCHEMA, "command": command, "identity": json.loads(json.dumps(identity, default=str))}
        if resume and overwrite:
            raise UsageError("--resume and --overwrite exclude each other")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
        if path.is_dir():
            raise UsageError(f"the rows go into a file, and {path} is a folder")
        if path.exists() and not (resume or overwrite):
            raise UsageError(f"{path} exists", hint="--resume continues that run, --overwrite replaces it")
        if overwrite and path.exists() and not path.read_bytes().startswith(b"index,"):
            raise UsageError(f"{path} is not a file that attrcert wrote, and is not overwritten")
        if resume and path.exists():
            self._continue()
        else:
            _replace(path, to_csv([], self.columns, header=True))

    @property
    def finished(self) -> frozenset[Cell]:
        """The samples whose rows are all there."""
        return frozenset(row["index"] for row in self.rows)

    @property
    def manifest_path(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def append(self, rows: Sequence[Row]) -> None:
        """The rows of whole samples, in one write."""
        with self.path.open("a") as stream:
            stream.write(to_csv(rows, self.columns, header=False))
            stream.flush()
            os.fsync(stream.fileno())
        self.rows += [dict(row) for row in rows]

    def write_manifest(self, facts: Mapping[str, Any]) -> None:
        """The run's identity and whatever else is known of it."""
        _replace(self.manifest_path, json.dumps({**self._head, **facts}, indent=2, default=str) + "\n")

    def _continue(self) -> None:
        """Keep the finished samples of an earlier run of the same identity; cut what a kill tore."""
        self.earlier = _read_manifest(self.manifest_path)
        theirs, ours = self.earlier.get("identity", {}), self._head["identity"]
        differing = [
            f"{key} was {theirs.get(key)!r} and is {ours.get(key)!r}"
            for key in sorted(theirs.keys() | ours.keys())
            if theirs.get(key) != ours.get(key)
        ]
        if differing or self.earlier.get("schema") != SCHEMA:
            raise ResumeError(
                f"{self.path} belongs to another run: {'; '.join(differing) or 'another schema'}",
                hint="choose another --out, or --overwrite",
            )
        rows = read_rows(self.path, self.columns)
        counts = Counter(row["index"] for row in rows)
        self.rows = [row for row in rows if counts[row["index"]] == self._rows_per_sample]
        _replace(self.path, to_csv(self.rows, self.columns, header=True))


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ResumeError(
            f"cannot resume: there is no manifest {path.name} beside the CSV", hint="use --overwrite"
        ) from error
    except json.JSONDecodeError as error:
        raise ResumeError(f"cannot resume: the manifest {path.name} is not JSON", hint="use --overwrite") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("identity"), dict):
        raise ResumeError(f"cannot resume: {path.name} is not a manifest", hint="use --overwrite")
    return manifest
