"""linf bounds, smoothing draws, attacks, and Captum's sensitivity."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from captum.attr import Saliency
from captum.metrics import sensitivity_max
from torch import Tensor

from attrcert import ATTRIBUTIONS, AttackConfig, BoundConfig, DataSpec, ModelSpec, RunOptions, open_run
from attrcert.bounds.first_order.linf_row_sums import LinfRowSums
from attrcert.bounds.first_order.linf_scaled import LinfScaled
from attrcert.draws import Draws
from attrcert.settings.certifying import CertifyConfig
from attrcert.settings.tasks import Task
from benchmarks.grids import Grid
from benchmarks.peers import CHUNK, least_seconds
from benchmarks.subjects import LARGE, Subject, bundled, convsmall, convsmall_source, random_weights

SAMPLES = 16
DRAWS, FEW = 2000, 200  # FEW at 224 x 224
LOOP = 40  # draws of the plain loop


def linf(shared: Path) -> Grid:
    """The scaled bound against row sums, on samples whose matrices can be formed."""
    rows = []
    for subject in (bundled(SAMPLES), convsmall(shared, SAMPLES)):
        f, x = subject.classifier, subject.images
        with f.prepared():
            J = ATTRIBUTIONS.make("saliency", chunk=CHUNK).explain(f, x, f(x).argmax(1)).jacobian
            draws = Draws(0, tuple(range(len(x))))
            scaled, sums = LinfScaled()(J, draws), LinfRowSums()(J, draws)
            fast, slow = (
                least_seconds(lambda J=J, draws=draws, bound=bound: bound(J, draws), repeats=repeats)
                for bound, repeats in ((LinfScaled(copies=2), 3), (LinfRowSums(copies=2), 1))
            )
        tighter = (sums.upper / scaled.upper).mean().item()
        each = f"{1e3 * fast / len(x):.0f}"
        rows.append((subject.name, str(subject.d), str(len(x)), each, f"{slow / fast:.1f}", f"{tighter:.2f}"))
    header = ("model", "d", "samples", "scaled, ms a sample", "row sums / scaled, time", "row sums / scaled, bound")
    return Grid("The linf bound of saliency", "Both of the linearised attribution.", header, rows)


def smoothing(shared: Path) -> Grid:
    """Draws a second of whole runs, against gradients alone."""
    cases = ((bundled(SAMPLES), DRAWS), (convsmall(shared, SAMPLES), DRAWS), (random_weights(*LARGE, 2, dense=0), FEW))
    rows = [_drawn(subject, draws) for subject, draws in cases]
    header = (
        "model",
        "d",
        "samples x draws",
        "draws a second",
        "against a loop, a draw at a time",
        "against gradients alone",
    )
    note = "`bound --smooth gaussian`: noise, gradients, sums, the largest variance, and the cosines; gradients alone in the run's chunks."
    return Grid("Smoothing certificates", note, header, rows)


def _drawn(subject: Subject, draws: int) -> tuple[str, ...]:
    f, x = subject.classifier.original(), subject.images
    run = open_run(
        subject.classifier, (x, np.zeros(len(x), dtype=np.int64)), CertifyConfig(smooth="gaussian", samples=draws)
    )
    gradient = ATTRIBUTIONS.make("saliency", chunk=run.work.layout.chunk).value
    wide = x.repeat(-(-(128 if draws > FEW else 8) // len(x)), *[1] * (x.ndim - 1))
    with f.prepared():
        classes = f(wide).argmax(1)
        loop = LOOP / least_seconds(lambda: _one_by_one(f, x[:1], gradient), repeats=1)
        whole, plain = [], []
        for _ in range(3):  # in turn, so that a busy machine is busy for both
            whole.append(least_seconds(lambda: list(run.rows(warn=lambda _: None)), repeats=1))
            plain.append(least_seconds(lambda: gradient(f, wide, classes), repeats=5))
    ours, batched = len(x) * draws / min(whole), len(wide) / min(plain)
    rate = f"{ours:.0f}", f"{ours / loop:.1f}", f"{ours / batched:.2f}"
    return subject.name, str(subject.d), f"{len(x)} x {draws}", *rate


def attacks(shared: Path) -> Grid:
    """Whole runs: bounds and attacks of every sample."""
    rows = []
    for subject, model, data in _cases(shared):
        bound = _run_seconds(model, data, BoundConfig())
        for kinds in (("euclidean",), ("worst",)):
            seconds = _run_seconds(model, data, AttackConfig(attack=kinds))
            rate = f"{SAMPLES / seconds:.2f}"
            rows.append((subject.name, kinds[0], rate, f"{1e3 * bound / SAMPLES:.0f}", f"{seconds / bound:.0f}"))
    header = ("model", "attack", "samples a second", "bound alone, ms a sample", "attack / bound, time")
    note = f"`attrcert attack`, saliency, l2, eps 0.1, 30 steps, {SAMPLES} samples, with the bounds beside the attacks."
    return Grid("Attacks", note, header, rows)


def captum(shared: Path) -> Grid:
    """What ten random perturbations cost, which bound nothing."""
    rows = []
    for subject, model, data in _cases(shared):
        f, x = subject.classifier, subject.images
        with f.prepared():
            explain = Saliency(f)
            y = f(x).argmax(1)
            theirs = least_seconds(
                lambda x=x, y=y, e=explain: sensitivity_max(e.attribute, x, target=y, abs=False, perturb_radius=0.1),
                repeats=3,
            )
        ours = _run_seconds(model, data, BoundConfig())
        each = f"{1e3 * theirs / SAMPLES:.1f}"
        rows.append((subject.name, str(subject.d), each, f"{1e3 * ours / SAMPLES:.1f}", f"{ours / theirs:.2f}"))
    header = ("model", "d", "Captum, ms a sample", "attrcert bound, ms a sample", "attrcert / Captum, time")
    note = "Captum's sensitivity_max takes the largest change over 10 random perturbations; `attrcert bound` gives all columns of its rows."
    return Grid("Captum's sensitivity_max, for its cost", note, header, rows)


def _cases(shared: Path) -> Iterator[tuple[Subject, ModelSpec, DataSpec]]:
    """Models with their images, and what the program is told to load them."""
    yield bundled(SAMPLES), ModelSpec(), DataSpec()
    source = convsmall_source(shared)
    if source:
        yield convsmall(shared, SAMPLES), *source


def _run_seconds(model: ModelSpec, data: DataSpec, config: Task) -> float:
    """Of the rows of a run that is open."""
    run = open_run(model, replace(data, limit=SAMPLES), config, RunOptions(chunk=CHUNK))
    repeats = 1 if isinstance(config, AttackConfig) else 2
    return least_seconds(lambda: list(run.rows(warn=lambda _: None)), repeats=repeats)


def _one_by_one(f: Callable[[Tensor], Tensor], x: Tensor, gradient: Callable[..., Tensor]) -> None:
    rng = torch.Generator().manual_seed(0)
    y = f(x).argmax(1)
    for _ in range(LOOP):
        gradient(f, x + 0.01 * torch.randn(x.shape, generator=rng), y)
