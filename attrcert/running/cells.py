"""The bounds of one batch, and the cells that they fill."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.certificates.first_order import FirstOrder, best_of
from attrcert.certificates.label_dual import LabelDual
from attrcert.certificates.label_margin import Margins, label_kept, margins
from attrcert.certificates.taylor_correction import Linearisation, Linearity, linearise
from attrcert.geometry.angles import largest_angle
from attrcert.linalg.draws import Draws
from attrcert.loading.classifier import Classifier
from attrcert.records import Cell, Row
from attrcert.running.config import BoundConfig
from attrcert.running.methods import attribution_label, certifiers, explainer, solver
from attrcert.types import Batch, Explained
from attrcert.vocabulary import Guarantee, NormKind, SolverStatus, Status


@dataclass(frozen=True)
class Subject:
    """Samples with the class that is explained and their attribution."""

    f: Classifier
    batch: Batch
    config: BoundConfig
    logits: Float[Tensor, "b k"]
    target: Int64[Tensor, " b"]
    explained: Explained

    @property
    def draws(self) -> Draws:
        return Draws(self.config.seed, self.batch.indices)

    @property
    def predicted(self) -> Int64[Tensor, " b"]:
        return self.logits.argmax(dim=1)

    def change(self, delta: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        """g(x + delta) - g(x)."""
        x = self.batch.images
        attribution = explainer(self.config, self.f.mean)
        return attribution.value(self.f, x + delta.view_as(x), self.target) - self.explained.value

    def finite(self) -> Bool[Tensor, " b"]:
        """Which samples have a finite attribution and a finite Jacobian, by one product."""
        J = self.explained.jacobian
        product = J.matvec(self.draws.normal("probe", J.shape[2], like=J))
        return (self.explained.value.isfinite() & product.isfinite()).all(dim=1)


def explain(f: Classifier, batch: Batch, logits: Float[Tensor, "b k"], config: BoundConfig) -> Subject:
    """The attribution of the configured class of every sample."""
    predicted = logits.argmax(dim=1)
    if config.target == "predicted":
        target = predicted
    elif config.target == "label":
        target = torch.tensor(batch.labels, device=predicted.device)
    else:
        target = torch.full_like(predicted, int(config.target))
    explained = explainer(config, f.mean).explain(f, batch.images, target)
    return Subject(f, batch, config, logits, target, explained)


def bound_subject(subject: Subject) -> dict[int, list[Row]]:
    """Each sample's rows, one per eps, by its index."""
    config, J = subject.config, subject.explained.jacobian
    found = [certify(J, subject.draws) for certify in certifiers(config, subject.f.beta)]
    worst = best_of(found)
    near = None
    if config.label_constraint != "off":
        near = margins(subject.f, subject.batch.images, subject.logits, config.margin_classes)
    linearisation = linearise(
        subject.change, J, worst, norm=config.delta_norm, draws=subject.draws, random=config.eta_draws
    )
    bounded = _Bounded(subject, found, worst, linearisation, near)
    by_eps = [bounded.rows(eps) for eps in config.eps]
    return {index: [rows[i] for rows in by_eps] for i, index in enumerate(subject.batch.indices)}


@dataclass(frozen=True)
class _Bounded:
    """What does not depend on eps, and the cells that follow from it."""

    subject: Subject
    found: Sequence[FirstOrder]
    worst: FirstOrder
    linearisation: Linearisation
    margins: Margins | None

    def rows(self, eps: float) -> list[Row]:
        measured = self.linearisation(eps)
        label = self._label_cells(eps)
        return [
            {
                **self._common(i),
                **self._deviation(i, eps, measured),
                **self._solver_cells(i, eps),
                **{k: v[i] for k, v in label.items()},
            }
            for i in range(len(self.subject.batch.indices))
        ]

    def _common(self, i: int) -> dict[str, Cell]:
        gap = self.subject.explained.gap
        return {
            "index": self.subject.batch.indices[i],
            "label": self.subject.batch.labels[i],
            "predicted": int(self.subject.predicted[i]),
            "target": int(self.subject.target[i]),
            "guarantee": Guarantee.FIRST_ORDER.value,
            "attribution": attribution_label(self.subject.config),
            "norm": str(self.subject.config.delta_norm),
            "g_norm": float(self.subject.explained.value[i].double().norm()),
            "completeness_gap": None if gap is None else float(gap[i]),
            "failure": self.worst.failure,
        }

    def _deviation(self, i: int, eps: float, measured: Linearity) -> dict[str, Cell]:
        length = float(self.subject.explained.value[i].double().norm())
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

    def _winner(self, i: int) -> FirstOrder:
        """Whose upper bound is the smallest: it speaks for the sample."""
        return min(self.found, key=lambda found: float(found.upper[i]))

    def _status(self, i: int, *, vacuous: bool) -> Status:
        solution = self._winner(i).solution
        if solution is not None and solution.status[i] is SolverStatus.STEP_LIMIT:
            return Status.NOT_CONVERGED
        if vacuous:
            return Status.VACUOUS
        label = self.subject.batch.labels[i]
        return Status.OK if label is None or label == int(self.subject.predicted[i]) else Status.MISCLASSIFIED

    def _solver_cells(self, i: int, eps: float) -> dict[str, Cell]:
        cells: dict[str, Cell] = {}
        winner = self._winner(i)
        solution = winner.solution
        if solution is not None:
            cells |= {
                "solver_status": solution.status[i].value,
                "steps": int(solution.steps[i]),
                "residual": float(solution.residual[i]),
            }
        if self.subject.config.delta_norm.kind is NormKind.LINF:
            cells |= {"linf_method": winner.method, "linf_lower": eps * float(self.worst.lower[i])}
            cells |= {f"T_e_{found.method.replace('-', '')}": eps * float(found.upper[i]) for found in self.found}
        elif solution is not None:
            cells |= {"xi_lower": float(solution.lower[i]), "xi_upper": float(solution.upper[i])}
        return cells

    def _label_cells(self, eps: float) -> dict[str, list[Cell]]:
        if self.margins is None:
            return {}
        delta = eps * self.worst.direction
        linear = [self.margins.kept(delta), self.margins.kept(-delta)]
        real = [
            label_kept(self.subject.f, self.subject.batch.images, sign * delta, self.subject.predicted)
            for sign in (1, -1)
        ]
        radius = self.margins.radius(self.subject.config.delta_norm).tolist()
        cells: dict[str, list[Cell]] = {
            "margin_radius": [value if value < float("inf") else None for value in radius],
            "margin_classes": [self.margins.b.shape[1]] * len(radius),
            "label_kept": _signs(*real),
            "label_kept_linearised": _signs(*linear),
        }
        lost = (~linear[0] & ~linear[1]).nonzero()[:, 0]
        if self.subject.config.label_constraint == "tighten" and len(lost):
            cells["T_e_label"] = self._tightened(eps, lost)
        return cells

    def _tightened(self, eps: float, lost: Tensor) -> list[Cell]:
        """The label-constrained bound of the samples that need it; it replaces T_e only where it is smaller."""
        assert self.margins is not None
        worst = self.worst.select(lost)
        norm = self.subject.config.delta_norm
        tau = None if norm.kind is NormKind.LINF else norm.l2_factor(self.subject.explained.jacobian.shape[2]) ** 2
        bound = LabelDual(solver(self.subject.config, self.subject.f.beta))(
            self.subject.explained.jacobian.select(lost),
            worst,
            Margins(self.margins.a[lost], self.margins.b[lost]),
            eps=eps,
            tau=tau,
            draws=self.subject.draws.select(lost),
        )
        cells: list[Cell] = [None] * len(self.subject.batch.indices)
        for i, value, plain in zip(lost.tolist(), bound.tolist(), (eps * worst.upper).tolist(), strict=True):
            cells[i] = min(value, plain)
        return cells


def _signs(plus: Tensor, minus: Tensor) -> list[Cell]:
    names = {(True, True): "both", (True, False): "plus", (False, True): "minus", (False, False): "none"}
    return [names[pair] for pair in zip(plus.tolist(), minus.tolist(), strict=True)]
