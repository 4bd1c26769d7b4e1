"""xi_max by attrcert and by what else one would use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from attrcert import ATTRIBUTIONS
from attrcert.running.opening.memory import MOST_SAMPLES
from attrcert.types import LinearMap
from benchmarks.grids import Grid
from benchmarks.peers import (
    Cost,
    best_costs,
    by_attrcert,
    by_attrcert_without_upper_end,
    by_dense,
    by_power_iteration,
    by_scipy,
    cost,
    dense_seconds,
)
from benchmarks.subjects import LARGE, Subject, bundled, convsmall, random_weights, resnet20

NODES = 20
BATCH = MOST_SAMPLES["cpu"]  # what a run takes at once where memory allows it
HEADER = ("model", "d", "attribution", "samples", "attrcert, ms a sample", "scipy / attrcert", "power / attrcert", "dense / attrcert",
          "products a sample: value + upper end : scipy", "outside products", "gap: attrcert, scipy, power")  # fmt: skip
NOTE = (
    "All solvers use the same products, samples and threads. attrcert runs one batch until its enclosure is within 1 %; scipy (1e-4), "
    "power iteration (PyHessian's rule) go sample by sample and give lower bounds, dense eight columns at a time (~: reckoned from those); "
    "gap: the largest relative distance of a value from dense, or (*) from the largest that was found."
)


@dataclass(frozen=True)
class Work:
    """A model, an attribution, and how often it is measured."""

    subject: Subject
    attribution: str
    repeats: int
    formed: bool = True

    def jacobian(self) -> LinearMap:
        f, x = self.subject.classifier, self.subject.images
        made = ATTRIBUTIONS.make(self.attribution, steps=NODES)
        return made.explain(f, x, f(x).argmax(1)).jacobian


def work(shared: Path) -> Iterator[Work]:
    """Fewer samples where one costs more."""
    yield Work(bundled(BATCH), "saliency", 3)
    yield Work(bundled(16), "integrated-gradients", 2)
    yield Work(convsmall(shared, BATCH), "saliency", 3)
    yield Work(convsmall(shared, 8), "integrated-gradients", 2)
    yield Work(resnet20(shared, 16), "saliency", 2)
    yield Work(resnet20(shared, 2), "integrated-gradients", 1, formed=False)
    yield Work(random_weights(*LARGE, 2, dense=0), "saliency", 2)
    yield Work(random_weights(*LARGE, 1, dense=0), "integrated-gradients", 1)


def solvers(shared: Path) -> Grid:
    return Grid("The top singular value", NOTE, HEADER, [_measured(one) for one in work(shared)])


def _measured(one: Work) -> tuple[str, ...]:
    subject = one.subject
    with subject.classifier.prepared():
        J = one.jacobian()
        J.matvec(torch.ones(J.shape[0], J.shape[2]))  # the first product builds the graphs
        ours, scipys, power = best_costs((by_attrcert, by_scipy, by_power_iteration), J, one.repeats)
        value = cost(by_attrcert_without_upper_end, J)
        exact = cost(by_dense, J.select(torch.arange(subject.dense))) if subject.dense and one.formed else None
        reckoned = None if exact or not subject.dense else dense_seconds(J, columns=8)
    b = len(ours.values)
    return (
        subject.name,
        str(subject.d),
        one.attribution + (f", {NODES} nodes" if one.attribution != "saliency" else ""),
        str(b),
        f"{1e3 * ours.each():.1f}",
        f"{scipys.each() / ours.each():.1f}",
        f"{power.each() / ours.each():.1f}",
        _times_longer(ours, exact, reckoned),
        f"{value.products / b:.0f} + {(ours.products - value.products) / b:.0f} : {scipys.products / b:.0f}",
        f"{ours.outside:.0%}",
        _gaps((ours, scipys, power), exact),
    )


def _times_longer(ours: Cost, exact: Cost | None, reckoned: float | None) -> str:
    """What the dense matrix takes."""
    if exact is None:
        return f"~{reckoned / ours.each():.0f}" if reckoned else "-"
    return f"{exact.each() / ours.each():.0f}"


def _gaps(solved: Sequence[Cost], exact: Cost | None) -> str:
    """How far the values of each solver are from the matrix's, or from the largest: all of them are lower bounds."""
    truth = np.max([one.values for one in solved], axis=0) if exact is None else exact.values
    gaps = [np.abs(one.values[: len(truth)] / truth - 1).max() for one in solved]
    return ", ".join(f"{gap:.0e}" for gap in gaps) + (" *" if exact is None else "")
