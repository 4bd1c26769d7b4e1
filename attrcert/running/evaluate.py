"""Rows of `attrcert bound`, a batch at a time: reading, explaining, bounding; nothing is printed or saved here."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attrcert.certificates.first_order import FirstOrder, best_of
from attrcert.certificates.label_dual import LabelDual
from attrcert.certificates.label_margin import Margins, label_kept, margins
from attrcert.certificates.taylor_correction import Linearity, linearise
from attrcert.errors import SampleError
from attrcert.geometry.angles import largest_angle
from attrcert.linalg.draws import Draws
from attrcert.loading.classifier import Classifier
from attrcert.loading.datasets import Images
from attrcert.records import Cell, Row
from attrcert.running.config import BoundConfig
from attrcert.running.methods import attribution_label, certifiers, explainer, solver, torch_dtype
from attrcert.types import Batch, Explained
from attrcert.vocabulary import Guarantee, NormKind, SolverStatus, Status

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Failed:
    """A sample that cannot be used, and why."""

    index: int
    label: int | None
    kind: str
    message: str


def bound_rows(
    classifier: Classifier,
    images: Images,
    batches: Sequence[tuple[int, ...]],
    config: BoundConfig,
    *,
    device: torch.device,
    shape: tuple[int, ...],
    warn: Warn,
) -> Iterator[list[Row]]:
    """The rows of each batch of indices, in their order; every sample has one row per eps, whatever became of it."""
    with classifier.prepared():
        for indices in batches:
            started = time.perf_counter()
            batch, failed = read(images, indices, shape, device=device, dtype=torch_dtype(config))
            rows = _bounded(classifier, batch, config, warn) if batch else {}
            rows |= {failure.index: _failed_rows(failure, config) for failure in failed}
            seconds = (time.perf_counter() - started) / len(indices)
            yield [{**row, "seconds": seconds, "seed": config.seed} for index in indices for row in rows[index]]


def read(
    images: Images, indices: Sequence[int], shape: tuple[int, ...], *, device: torch.device, dtype: torch.dtype
) -> tuple[Batch | None, list[Failed]]:
    """The usable images of a batch, and the others with their reasons."""
    good: list[tuple[int, Tensor, int | None]] = []
    failed: list[Failed] = []
    for index in indices:
        try:
            image, label = images[index]
        except SampleError as error:
            failed.append(Failed(index, None, error.kind, error.message))
            continue
        if tuple(image.shape) == shape:
            good.append((index, image, label))
        else:
            message = (
                f"the run's images have the shape {shape}, this one {tuple(image.shape)} (use --resize and --crop)"
            )
            failed.append(Failed(index, label, "shape", message))
    if not good:
        return None, failed
    picked, pictures, labels = zip(*good, strict=True)
    return Batch(picked, torch.stack([p.to(dtype) for p in pictures]).to(device), labels), failed


def _bounded(classifier: Classifier, batch: Batch, config: BoundConfig, warn: Warn) -> dict[int, list[Row]]:
    """The rows of a batch by index; a batch that does not fit into memory is halved."""
    try:
        return _bound_batch(classifier, batch, config)
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
    if len(batch.indices) == 1:
        failure = Failed(batch.indices[0], batch.labels[0], "memory", "one sample does not fit into memory")
        return {failure.index: _failed_rows(failure, config)}
    half = len(batch.indices) // 2
    warn(f"out of memory with {len(batch.indices)} samples at once; going on with {half}")
    first = Batch(batch.indices[:half], batch.images[:half], batch.labels[:half])
    second = Batch(batch.indices[half:], batch.images[half:], batch.labels[half:])
    return _bounded(classifier, first, config, warn) | _bounded(classifier, second, config, warn)


def _out_of_memory(error: RuntimeError) -> bool:
    return (
        isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error) or "out of memory" in str(error)
    )


def _bound_batch(classifier: Classifier, batch: Batch, config: BoundConfig) -> dict[int, list[Row]]:
    with torch.no_grad():
        logits = classifier(batch.images)
    failed, keep = _unusable(batch, logits, config)
    rows = {failure.index: _failed_rows(failure, config) for failure in failed}
    if keep:
        kept = Batch(tuple(batch.indices[i] for i in keep), batch.images[keep], tuple(batch.labels[i] for i in keep))
        rows |= _Bounding(classifier, kept, logits[keep], config).rows()
    return rows


def _unusable(batch: Batch, logits: Tensor, config: BoundConfig) -> tuple[list[Failed], list[int]]:
    finite, classes = logits.isfinite().all(dim=1).tolist(), logits.shape[1]
    failed, keep = [], []
    for i, (index, label) in enumerate(zip(batch.indices, batch.labels, strict=True)):
        if not finite[i]:
            failed.append(Failed(index, label, "non-finite-output", "the model's output is NaN or infinite"))
        elif label is not None and not 0 <= label < classes:
            failed.append(Failed(index, label, "label", f"label {label}, but the model has {classes} classes"))
        elif label is None and config.target == "label":
            failed.append(Failed(index, label, "label", "target is the label, but the sample has none"))
        else:
            keep.append(i)
    return failed, keep


def _failed_rows(failure: Failed, config: BoundConfig) -> list[Row]:
    common: dict[str, Cell] = {
        "index": failure.index,
        "label": failure.label,
        "status": f"error:{failure.kind}",
        "attribution": attribution_label(config),
        "norm": str(config.ball),
        "message": failure.message,
    }
    return [{**common, "eps": eps} for eps in config.eps]


class _Bounding:
    """One batch's bounds: what does not depend on eps is computed once."""

    def __init__(self, classifier: Classifier, batch: Batch, logits: Tensor, config: BoundConfig) -> None:
        self.f, self.batch, self.config = classifier, batch, config
        self.x, self.draws = batch.images, Draws(config.seed, batch.indices)
        self.predicted = logits.argmax(dim=1)
        self.target = self._targets()
        self.attribution = explainer(config, classifier.mean)
        self.explained: Explained = self.attribution.explain(classifier, self.x, self.target)
        self.found = [certify(self.explained.jacobian, self.draws) for certify in certifiers(config)]
        self.worst: FirstOrder = best_of(self.found)
        self.linearisation = linearise(
            self._change,
            self.explained.jacobian,
            self.worst,
            norm=config.ball,
            draws=self.draws,
            random=config.eta_draws,
        )
        self.margins: Margins | None = None
        if config.label_constraint != "off":
            self.margins = margins(classifier, self.x, logits, config.margin_classes)

    def rows(self) -> dict[int, list[Row]]:
        by_eps = [self._rows_at(eps) for eps in self.config.eps]
        return {index: [rows[i] for rows in by_eps] for i, index in enumerate(self.batch.indices)}

    def _targets(self) -> Tensor:
        if self.config.target == "predicted":
            return self.predicted
        if self.config.target == "label":
            return torch.tensor(self.batch.labels, device=self.x.device)
        return torch.full_like(self.predicted, int(self.config.target))

    def _change(self, delta: Tensor) -> Tensor:
        return self.attribution.value(self.f, self.x + delta.view_as(self.x), self.target) - self.explained.value

    def _rows_at(self, eps: float) -> list[Row]:
        measured = self.linearisation(eps)
        label = self._label_cells(eps)
        return [
            {
                **self._common(i),
                **self._deviation(i, eps, measured),
                **self._solver_cells(i, eps),
                **{k: v[i] for k, v in label.items()},
            }
            for i in range(len(self.batch.indices))
        ]

    def _common(self, i: int) -> dict[str, Cell]:
        gap = self.explained.gap
        return {
            "index": self.batch.indices[i],
            "label": self.batch.labels[i],
            "predicted": int(self.predicted[i]),
            "target": int(self.target[i]),
            "guarantee": Guarantee.FIRST_ORDER.value,
            "attribution": attribution_label(self.config),
            "norm": str(self.config.ball),
            "g_norm": float(self.explained.value[i].double().norm()),
            "completeness_gap": None if gap is None else float(gap[i]),
            "failure": self.worst.failure,
        }

    def _deviation(self, i: int, eps: float, measured: Linearity) -> dict[str, Cell]:
        length = float(self.explained.value[i].double().norm())
        T_e = eps * float(self.worst.upper[i])
        c = float(measured.c[i])
        corrected = c * T_e if c < float("inf") else None
        angle = largest_angle(T_e, length)
        return {
            "eps": eps,
            "status": self._status(i, vacuous=angle is None).value,
            "T_e": T_e,
            "T_e_attained": eps * float(self.worst.lower[i]),
            "c": None if corrected is None else c,
            "T_e_corrected": corrected,
            "T_c_deg": angle,
            "T_c_corrected_deg": None if corrected is None else largest_angle(corrected, length),
            "eta": float(measured.eta[i]),
            "eta_random": None if measured.eta_random is None else float(measured.eta_random[i]),
        }

    def _status(self, i: int, *, vacuous: bool) -> Status:
        solution = self.worst.solution
        if solution is not None and solution.status[i] is SolverStatus.STEP_LIMIT:
            return Status.NOT_CONVERGED
        if vacuous:
            return Status.VACUOUS
        label = self.batch.labels[i]
        return Status.OK if label is None or label == int(self.predicted[i]) else Status.MISCLASSIFIED

    def _solver_cells(self, i: int, eps: float) -> dict[str, Cell]:
        cells: dict[str, Cell] = {}
        solution = self.worst.solution
        if solution is not None:
            cells |= {
                "solver_status": solution.status[i].value,
                "steps": int(solution.steps[i]),
                "residual": float(solution.residual[i]),
            }
        if self.config.ball.kind is NormKind.LINF:
            cells |= {"linf_method": self.worst.method[i], "linf_lower": eps * float(self.worst.lower[i])}
            cells |= {f"T_e_{found.method[i].replace('-', '')}": eps * float(found.upper[i]) for found in self.found}
        elif solution is not None:
            cells |= {"xi_lower": float(solution.lower[i]), "xi_upper": float(solution.upper[i])}
        return cells

    def _label_cells(self, eps: float) -> dict[str, list[Cell]]:
        if self.margins is None:
            return {}
        delta = eps * self.worst.direction
        linear = [self.margins.kept(delta), self.margins.kept(-delta)]
        real = [label_kept(self.f, self.x, sign * delta, self.predicted) for sign in (1, -1)]
        radius = self.margins.radius(self.config.ball).tolist()
        cells: dict[str, list[Cell]] = {
            "margin_radius": [value if value < float("inf") else None for value in radius],
            "margin_classes": [self.margins.b.shape[1]] * len(radius),
            "label_kept": _signs(*real),
            "label_kept_linearised": _signs(*linear),
        }
        lost = (~linear[0] & ~linear[1]).nonzero()[:, 0]
        if self.config.label_constraint == "tighten" and len(lost):
            cells["T_e_label"] = self._tightened(eps, lost)
        return cells

    def _tightened(self, eps: float, lost: Tensor) -> list[Cell]:
        """The label-constrained bound of the samples that need it; it replaces T_e only where it is smaller."""
        assert self.margins is not None
        worst = self.worst.select(lost)
        norm = self.config.ball
        tau = None if norm.kind is NormKind.LINF else norm.l2_factor(self.explained.jacobian.shape[2]) ** 2
        bound = LabelDual(solver(self.config))(
            self.explained.jacobian.select(lost),
            worst,
            Margins(self.margins.a[lost], self.margins.b[lost]),
            eps=eps,
            tau=tau,
            draws=self.draws.select(lost),
        )
        cells: list[Cell] = [None] * len(self.batch.indices)
        for i, value, plain in zip(lost.tolist(), bound.tolist(), (eps * worst.upper).tolist(), strict=True):
            cells[i] = min(value, plain)
        return cells


def _signs(plus: Tensor, minus: Tensor) -> list[Cell]:
    names = {(True, True): "both", (True, False): "plus", (False, True): "minus", (False, False): "none"}
    return [names[pair] for pair in zip(plus.tolist(), minus.tolist(), strict=True)]
