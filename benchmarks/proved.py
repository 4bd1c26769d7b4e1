"""Proved bounds beside what attacks reach: `python -m benchmarks.proved FOLDER OUT.csv [NAME ...] [beta=] [eps=] [limit=] [norm=]`.

Of third-party checkpoints (FOLDER is as for `benchmarks.certificates`), or of bundled models by name. A line of OUT per checkpoint,
softplus beta and eps: means over the samples of the ratios of the first-order estimate, the corrected one and the proved bounds (with
`--proved-effort 0`, which is version 0.1's, and as usual) to what `attack --attack worst` reached; how many samples have a proved angle,
its median and its largest; the median angle that Gaussian smoothing (sigma .05, 2,000 draws) certifies; seconds a sample and the peak of
memory.
Lines that OUT has already are not made again; `python -m benchmarks.proved table OUT.csv` prints it as markdown.
"""

import csv
import resource
import sys
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any

import attrcert
from attrcert.columns import Row
from benchmarks.certificates import known

NAMES = (
    "mnist_convex_0_1",
    "fashion_convex_0_1",
    "mnist_trades_smallcnn",
    "cifar_convsmall_pgd",
    "cifar_tinyresnet2b_adv",
)
BUNDLED = ("fashion-natural", "fashion-adversarial", "fashion-certifiable")
USUAL = {"beta": "5,20", "eps": "0.005,0.02,0.05,0.1,0.25", "limit": "4", "norm": "l2"}
SMOOTHED = {"smooth": "gaussian", "sigma": 0.05, "samples": 2000}
COLUMNS = (
    *("checkpoint", "norm", "beta", "eps", "samples", "T_e", "T_e_corrected", "T_proved_0", "T_proved", "angles"),
    *("angle_median", "angle_largest", "attack_angle", "smoothed_angle", "seconds", "seconds_0", "peak_gb"),
)


def line(folder: Path, name: str, beta: str, eps: str, limit: int, norm: str) -> dict[str, Any]:
    """What OUT has of a case."""
    where, common = _subject(folder, name, beta)
    common |= {"limit": limit, "eps": float(eps)}
    attacked = attrcert.attack(*where, **common, norm=norm, attack="worst", restarts=2)
    plain, seconds_0 = _timed(where, {**common, "norm": norm, "proved_effort": 0})
    proved, seconds = _timed(where, {**common, "norm": norm})
    smoothed = attrcert.bound(*where, **common, **SMOOTHED) if norm == "l2" else []
    angles = [float(row["angle_proved_deg"]) for row in proved if row["angle_proved_deg"] is not None]
    return {
        **{"checkpoint": name, "norm": norm, "beta": beta, "eps": eps, "samples": len(proved)},
        **{column: _ratio(proved, column, attacked) for column in ("T_e", "T_e_corrected", "T_proved")},
        "T_proved_0": _ratio(plain, "T_proved", attacked),
        "angles": len(angles),
        "angle_median": f"{median(angles):.1f}" if len(angles) > len(proved) / 2 else "",
        "angle_largest": f"{max(angles):.1f}" if len(angles) == len(proved) else "",
        "attack_angle": f"{median(float(row['T_hat_c_deg']) for row in attacked):.1f}",
        "smoothed_angle": _certified(smoothed),
        "seconds": f"{seconds / limit:.1f}",
        "seconds_0": f"{seconds_0 / limit:.1f}",
        "peak_gb": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f}",
    }


def _subject(folder: Path, name: str, beta: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    if name in BUNDLED:
        return (name,), {}
    where, settings = known(folder, name)
    kept = {key: value for key, value in settings.items() if key not in (*SMOOTHED, "limit")}
    return where, {**kept, "softplus_beta": float(beta)}


def _timed(where: tuple[str, ...], settings: dict[str, Any]) -> tuple[list[Row], float]:
    started = time.perf_counter()
    return attrcert.bound(*where, **settings, proved=True), time.perf_counter() - started


def _ratio(rows: list[Row], column: str, attacked: list[Row]) -> str:
    """The mean over samples; `inf` where a figure has no finite value."""
    pairs = zip(rows, attacked, strict=True)
    return f"{fmean(float('inf') if row[column] is None else float(row[column]) / float(by['T_hat_e']) for row, by in pairs):.2f}"


def _certified(rows: list[Row]) -> str:
    found = [180.0 if row["angle_deg"] is None else float(row["angle_deg"]) for row in rows]
    return f"{median(found):.1f}" if found and median(found) < 180 else ""


def main(folder: Path, out: Path, words: list[str]) -> None:
    asked = USUAL | dict(word.split("=", 1) for word in words if "=" in word)
    names = [word for word in words if "=" not in word] or list(NAMES)
    for name in names:
        for beta in ("5",) if name in BUNDLED else asked["beta"].split(","):
            for eps in asked["eps"].split(","):
                case = (name, asked["norm"], beta, eps, asked["limit"])
                if case not in _had(out):
                    _append(out, line(folder, name, beta, eps, int(asked["limit"]), asked["norm"]))


def _had(out: Path) -> set[tuple[str, ...]]:
    keys = ("checkpoint", "norm", "beta", "eps", "samples")
    return {tuple(row[key] for key in keys) for row in _lines(out)}


def _lines(out: Path) -> list[dict[str, str]]:
    if not out.exists():
        return []
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def _append(out: Path, found: dict[str, Any]) -> None:
    new = not out.exists()
    with out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(found)
    print(" ".join(f"{key}={found[key]}" for key in COLUMNS), flush=True)


def table(out: Path) -> None:
    """As markdown."""
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for row in _lines(out):
        print(f"| {' | '.join(row[column] for column in COLUMNS)} |")


if __name__ == "__main__":
    if sys.argv[1] == "table":
        table(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
