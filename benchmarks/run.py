"""xi_max by attrcert and by what else one would use, and the linf bound: ratios from one run.

`make bench`. All solvers use the same products, samples and threads. scipy runs sample by sample to a relative accuracy of 1e-4,
attrcert in one batch until its enclosure is within 1 %, which is the stronger statement: the others' figures are lower bounds at
best. Dense forms the Jacobian and takes its norm, as the papers do. `SHARED=folder` names a folder with third-party checkpoints.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from attrcert import ATTRIBUTIONS, Draws
from attrcert.certificates.linf_row_sums import LinfRowSums
from attrcert.certificates.linf_scaled import LinfScaled
from benchmarks.peers import Cost, by_attrcert, by_dense, by_power_iteration, by_scipy, cost
from benchmarks.subjects import Subject, bundled, convsmall, random_weights, resnet20

SHARED = Path(os.environ.get("SHARED", "../shared/data"))
HEADER = ("model", "d", "attribution", "samples", "attrcert ms a sample", "scipy / attrcert", "power / attrcert", "dense / attrcert",
          "products, attrcert : scipy", "outside products", "gap to dense: attrcert, power")  # fmt: skip


def work() -> Iterator[tuple[Subject, str, dict[str, int]]]:
    """Model, attribution and its parameters; fewer samples where one costs more."""
    yield bundled(32), "saliency", {}
    yield bundled(16), "integrated-gradients", {"steps": 20}
    yield convsmall(SHARED, 32), "saliency", {}
    yield convsmall(SHARED, 8), "integrated-gradients", {"steps": 20}
    yield resnet20(SHARED, 16), "saliency", {}
    yield resnet20(SHARED, 2), "integrated-gradients", {"steps": 20}
    yield random_weights("resnet18", "torchvision:resnet18", 224, 2, dense=0), "saliency", {}


def measured(subject: Subject, attribution: str, parameters: dict[str, int]) -> tuple[str, ...]:
    with subject.classifier.prepared() as f:
        y = f(subject.images).argmax(1)
        jacobian = ATTRIBUTIONS.make(attribution, **parameters).explain(f, subject.images, y).jacobian
        jacobian.matvec(torch.ones(jacobian.shape[0], jacobian.shape[2]))  # the first product is slower
        ours, scipys, power = (cost(solve, jacobian) for solve in (by_attrcert, by_scipy, by_power_iteration))
        exact = cost(by_dense, jacobian.select(torch.arange(subject.dense))) if subject.dense else None
    name = attribution + (f"-{parameters['steps']}" if parameters else "")
    return (subject.name, str(subject.d), name, str(len(subject.images)), *_figures(ours, scipys, power, exact))


def _figures(ours: Cost, scipys: Cost, power: Cost, exact: Cost | None) -> tuple[str, ...]:
    b = len(ours.values)
    gap = "-"
    if exact is not None:
        errors = [np.abs(one.values[: len(exact.values)] / exact.values - 1).max() for one in (ours, power)]
        gap = f"{errors[0]:.0e}, {errors[1]:.0e}"
    return (
        f"{1e3 * ours.each():.1f}",
        f"{scipys.each() / ours.each():.1f}",
        f"{power.each() / ours.each():.1f}",
        f"{exact.each() / ours.each():.0f}" if exact else "-",
        f"{ours.products / b:.0f} : {scipys.products / b:.0f}",
        f"{ours.outside:.0%}",
        gap,
    )


def linf(subject: Subject) -> tuple[str, ...]:
    """The scaled bound against row sums, on samples whose matrices can be formed."""
    images = subject.images[: subject.dense]
    draws = Draws(0, tuple(range(len(images))))
    with subject.classifier.prepared() as f:
        J = ATTRIBUTIONS.make("saliency").explain(f, images, f(images).argmax(1)).jacobian
        found = []
        for method in (LinfScaled(), LinfRowSums()):
            started = time.perf_counter()
            bound = method(J, draws)
            found.append((time.perf_counter() - started, bound.upper))
    (fast, scaled), (slow, sums) = found
    return (subject.name, str(subject.d), str(len(images)), f"{1e3 * fast / len(images):.0f}", f"{slow / fast:.1f}",
            f"{(sums / scaled).mean().item():.2f}")  # fmt: skip


def main() -> None:
    console = Console(width=200)
    table = Table(*HEADER, title=f"xi_max, {torch.get_num_threads()} threads")
    for subject, attribution, parameters in work():
        table.add_row(*measured(subject, attribution, parameters))
    console.print(table)
    bounds = Table("model", "d", "samples", "scaled, ms a sample", "row sums / scaled, time", "row sums / scaled, bound",
                   title="linf bounds of saliency")  # fmt: skip
    for subject in (bundled(4), convsmall(SHARED, 1)):
        bounds.add_row(*linf(subject))
    console.print(bounds)


if __name__ == "__main__":
    main()
