"""What each rule certifies of smoothed maps, and what an attack reaches there: `python -m benchmarks.certificates FOLDER [NAME ...]`.

FOLDER has `checkpoints/*.safetensors` with their factories in `checkpoints/archs.py`, and the test sets as .npz. For every sigma, which
stands for a radius r = sigma sqrt(d): the mean largest eps at which the cosine stays at .8 or .9, by the published rule fed with sample
maxima (false), by `tight` and by `auto`, the cosine that an attack reaches at `auto`'s mean eps for .9, and seconds. Then the smallest
sigma of a grid at which the cosine stays at .8 or .9 within EPS, by the same rules.
"""

import sys
import time
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import attrcert
from attrcert.columns import Row

SAMPLES, DRAWS, RADII, COSINES = 8, 2000, (0.5, 1.0, 2.0, 3.5), (0.8, 0.9)
EPS, SIGMAS = 0.05, (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
IMAGENET = {"mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225"}
TINY = {"mean": "0.4914,0.4822,0.4465", "std": "0.2471,0.2435,0.2616"}
SMALL = {"mean": "0.4914,0.4822,0.4465", "std": "0.2023,0.1994,0.201"}


@dataclass(frozen=True)
class Subject:
    factory: str
    data: str
    d: int
    pixels: dict[str, str]


SUBJECTS = {
    "mnist_convex_0_1": Subject("mnist_2conv", "mnist_test", 784, {}),
    "fashion_convex_0_1": Subject("mnist_2conv", "fashion_mnist_test", 784, {}),
    "mnist_trades_smallcnn": Subject("mnist_trades_smallcnn", "mnist_test", 784, {}),
    "cifar_convsmall_pgd": Subject("cifar_convsmall", "cifar10_test_1000", 3072, SMALL),
    "cifar_tinyresnet2b_adv": Subject("cifar_tinyresnet2b", "cifar10_test_1000", 3072, TINY),
    "cifar_resnet20": Subject("cifar_resnet20", "cifar10_test_1000", 3072, IMAGENET),
}
RULES: dict[str, dict[str, Any]] = {
    "published": {"rule": "published", "bounded": "sample-max"},
    "tight": {"rule": "tight"},
    "auto": {"rule": "auto"},
}


def measured(folder: Path, name: str, radius: float) -> str:
    """A line of the first table."""
    started, sigma = time.perf_counter(), radius / sqrt(SUBJECTS[name].d)
    where, settings = known(folder, name)
    settings |= {"sigma": sigma}
    found = {rule: attrcert.max_eps(*where, **settings, min_cosine=COSINES, **how) for rule, how in RULES.items()}
    means = {(rule, T): fmean(_eps(rows, T)) for rule, rows in found.items() for T in COSINES}
    eps = means["auto", COSINES[-1]]
    reached = _cosines(attrcert.attack(*where, **settings, eps=eps)) if eps > 0 else []
    cells = [f"{means[rule, T]:.4f}" for T in COSINES for rule in RULES]
    cosine = f"{fmean(reached):.3f}" if reached else "-"
    return (
        f"| {name} | {sigma:.4f} ({radius:g}) | {' | '.join(cells)} | {cosine} | {time.perf_counter() - started:.0f} |"
    )


def smallest(folder: Path, name: str) -> str:
    """A line of the second table."""
    started = time.perf_counter()
    where, settings = known(folder, name)
    asked = {"eps": EPS, "radii": SIGMAS, "min_cosine": COSINES}
    found = {rule: attrcert.min_radius(*where, **settings, **asked, **how) for rule, how in RULES.items()}
    cells = [_mean_radius(found[rule], T) for T in COSINES for rule in RULES]
    return f"| {name} | {' | '.join(cells)} | {time.perf_counter() - started:.0f} |"


def known(folder: Path, name: str) -> tuple[tuple[str, str], dict[str, Any]]:
    """Model and data, and the settings of every run."""
    subject = SUBJECTS[name]
    arch = f"{folder}/checkpoints/archs.py:{subject.factory}"
    settings = {"arch": arch, **subject.pixels, "limit": SAMPLES, "smooth": "gaussian", "samples": DRAWS}
    return (f"{folder}/checkpoints/{name}.safetensors", f"{folder}/{subject.data}.npz"), settings


def _mean_radius(rows: list[Row], T: float) -> str:
    """Over the samples that have one, and how many these are."""
    radii = [float(row["radius_min"]) for row in rows if row["threshold"] == T and row.get("radius_min") is not None]
    return f"{fmean(radii):.3f} ({len(radii)})" if radii else "- (0)"


def _eps(rows: list[Row], T: float) -> list[float]:
    return [float(row["eps_max"] or 0) for row in rows if row["threshold"] == T]


def _cosines(rows: list[Row]) -> list[float]:
    return [float(row["cosine_hat"]) for row in rows if row["cosine_hat"] is not None]


def main(folder: Path, names: list[str]) -> None:
    heads = [f"{rule} {T}" for T in COSINES for rule in RULES]
    print(f"{SAMPLES} images, {DRAWS} draws, failure .001; mean largest eps by rule and cosine")
    print(f"| checkpoint | sigma (r) | {' | '.join(heads)} | attack's cosine at auto's eps | seconds |")
    print("|" + "---|" * (len(heads) + 4))
    for name in names or list(SUBJECTS):
        for radius in RADII:
            print(measured(folder, name, radius), flush=True)
    print(
        f"\nmean smallest sigma of {', '.join(map(str, SIGMAS))} for eps {EPS}, and of how many samples, by rule and cosine"
    )
    print(f"| checkpoint | {' | '.join(heads)} | seconds |")
    print("|" + "---|" * (len(heads) + 2))
    for name in names or list(SUBJECTS):
        print(smallest(folder, name), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
