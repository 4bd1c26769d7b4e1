"""The bounds of one batch as the cells that they fill."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.bounds.first_order.ball import BallSearch
from attrcert.bounds.first_order.enclosed import FirstOrder, best_of
from attrcert.bounds.first_order.label_dual import LabelDual
from attrcert.bounds.first_order.label_margin import Margins, label_kept, margins
from attrcert.bounds.first_order.taylor_correction import Linearisation, Linearity, linearise
from attrcert.bounds.proved.bound import ProvedBound
from attrcert.columns import Cell, Row
from attrcert.geometry.angles import largest_angle
from attrcert.running.evaluating.consequences import Consequences
from attrcert.running.evaluating.methods import certifiers, solver
from attrcert.running.evaluating.samples import sample_cells
from attrcert.running.evaluating.subjects import Subject
from attrcert.vocabulary import Guarantee, NormKind, SolverStatus, Status

LOST = (
    "rounding in {} changes the Jacobian by more than --slack allows; weights cancel; in float32, --dtype float64 helps"
)


@dataclass(frozen=True)
class Bounded:
    """What does not depend on eps, and the cells that follow from it."""

    subject: Subject
    found: Sequence[FirstOrder]
    worst: FirstOrder
    linearisation: Linearisation

    @cached_property
    def margins(self) -> Margins | None:
        """Of the linearised classifier, where they are asked for."""
        subject, bounding = self.subject, self.subject.config.bounding
        if bounding.label_constraint == "off":
            return None
        return margins(subject.f, subject.batch.images, subject.logits, bounding.margin_classes)

    @property
    def leading(self) -> list[Float[Tensor, "b n"]]:
        """Where attacks begin, in units of eps: both signs of the worst perturbation."""
        return [self.worst.direction, -self.worst.direction]

    def rows(self, eps: float) -> list[Row]:
        measured = self.linearisation(eps)
        deviations = [self._deviation(i, eps, measured) for i in range(len(self.subject.batch.indices))]
        whole = {
            **self.consequences.cells([_number(one["T_e"]) for one in deviations]),
            **self.consequences.cells([_number(one["T_e_corrected"]) for one in deviations], "_corrected"),
            **self._label_cells(eps), **self._ball_cells(eps), **self._proved_cells(eps),
        }  # fmt: skip
        return [
            {
                **self.common(i),
                **deviations[i],
                **self.solver_cells(i),
                **self._linf_cells(i, eps),
                **{k: v[i] for k, v in whole.items()},
            }
            for i in range(len(self.subject.batch.indices))
        ]

    def common(self, i: int) -> dict[str, Cell]:
        subject, gap, (predicted, target) = self.subject, self.subject.explained.gap, self._classes
        return {
            **sample_cells(subject.config, subject.batch.indices[i], subject.batch.labels[i], predicted[i], target[i]),
            "guarantee": (Guarantee.FIRST_ORDER if subject.prover is None else Guarantee.PROVED).value,
            "g_norm": subject.lengths[i],
            "completeness_gap": None if gap is None else float(gap[i]),
            "failure": self.worst.failure,
        }

    def _deviation(self, i: int, eps: float, measured: Linearity) -> dict[str, Cell]:
        length = self.subject.lengths[i]
        T_e = eps * float(self.worst.upper[i])
        c = float(measured.c[i])
        corrected = c * T_e if c < float("inf") else None
        angle = largest_angle(T_e, length)
        return {
            "eps": eps,
            "status": self.status(
                i, vacuous=angle is None if self.subject.prover is None else self._vacuous(i, eps)
            ).value,
            "T_e": T_e,
            "T_e_attained": eps * float(self.worst.lower[i]),
            "c": None if corrected is None else c,
            "T_e_corrected": corrected,
            "T_c_deg": angle,
            "T_c_corrected_deg": None if corrected is None else largest_angle(corrected, length),
            "eta": float(measured.eta[i]),
            "eta_random": None if measured.eta_random is None else float(measured.eta_random[i]),
        }

    @cached_property
    def consequences(self) -> Consequences:
        return self.consequences_of(self.subject.explained.value)

    def consequences_of(self, g: Float[Tensor, "b n"]) -> Consequences:
        return Consequences(g, self.subject.map_shape, self.subject.config.largest.of(g.shape[1]))

    @cached_property
    def _classes(self) -> tuple[list[int], list[int]]:
        """The predicted and the explained one of each sample."""
        return self.subject.predicted.tolist(), self.subject.target.tolist()

    @cached_property
    def _winners(self) -> list[FirstOrder]:
        """Whose upper bound is the smallest: it speaks for the sample."""
        places = torch.stack([found.upper for found in self.found]).argmin(dim=0)
        return [self.found[place] for place in places.tolist()]

    def status(self, i: int, *, vacuous: bool) -> Status:
        solution = self._winners[i].solution
        unsure = solution is not None and solution.status[i] in (SolverStatus.STEP_LIMIT, SolverStatus.ROUNDING)
        if unsure and self.subject.prover is None:  # what is proved does not hang on the first-order solver
            return Status.NOT_CONVERGED
        return Status.VACUOUS if vacuous else Status.OK

    def solver_cells(self, i: int) -> dict[str, Cell]:
        """What the solver says of a sample, whatever eps is."""
        winner = self._winners[i]
        solution, linf = winner.solution, self.subject.config.perturbation.delta_norm.kind is NormKind.LINF
        cells: dict[str, Cell] = {"linf_method": winner.method} if linf else {}
        if solution is None:
            return cells
        if solution.status[i] is SolverStatus.ROUNDING:
            cells["message"] = LOST.format(self.subject.config.arithmetic.dtype)
        cells |= {
            "solver_status": solution.status[i].value,
            "steps": int(solution.steps[i]),
            "residual": float(solution.residual[i]),
        }
        return cells if linf else {**cells, "xi_lower": float(solution.lower[i]), "xi_upper": float(solution.upper[i])}

    def _linf_cells(self, i: int, eps: float) -> dict[str, Cell]:
        if self.subject.config.perturbation.delta_norm.kind is not NormKind.LINF:
            return {}
        cells: dict[str, Cell] = {"linf_lower": eps * float(self.worst.lower[i])}
        return cells | {f"T_e_{found.method.replace('-', '')}": eps * float(found.upper[i]) for found in self.found}

    def _ball_cells(self, eps: float) -> dict[str, list[Cell]]:
        return {"T_e_ball": list(self.searched(eps))} if self.subject.config.bounding.ball else {}

    def searched(self, eps: float) -> list[float]:
        """The ball-wide estimate."""
        ball = Ball.whole(self.subject.batch.images, self.subject.config.perturbation.delta_norm, eps)
        return self.ball_wide(eps, BallSearch()(self.subject.jacobian_at, ball, self.worst))

    @cached_property
    def proved(self) -> dict[float, ProvedBound]:
        """By eps; what holds in a ball holds in every smaller one."""
        prover, config, x = self.subject.prover, self.subject.config, self.subject.batch.images
        if prover is None:
            return {}
        order = sorted(config.perturbation.eps, reverse=True)
        sizes = [torch.full((len(x),), eps, dtype=torch.float64) for eps in order]
        found = prover(x, self.subject.target, sizes, self.subject.draws)
        for larger, smaller in pairwise(range(len(found))):
            found[smaller] = found[smaller].at_most(found[larger])
        return dict(zip(order, found, strict=True))

    def _vacuous(self, i: int, eps: float) -> bool:
        """Whether no angle follows from the proved bound."""
        return largest_angle(float(self.proved[eps].upper[i]), float(self.proved[eps].length[i])) is None

    def _proved_cells(self, eps: float) -> dict[str, list[Cell]]:
        if self.subject.prover is None:
            return {}
        bound = self.proved[eps]
        pairs = list(zip(bound.upper.tolist(), bound.length.tolist(), strict=True))
        return {
            "T_proved": [upper if upper < float("inf") else None for upper, _ in pairs],
            "angle_proved_deg": [largest_angle(upper, length) for upper, length in pairs],
            "proved_method": list(bound.method),
            **self.consequences_of(bound.value).cells((bound.upper + bound.off).tolist(), "_proved"),
        }

    def ball_wide(self, eps: float, gain: Float[Tensor, " b"]) -> list[float]:
        """eps times a gain found in the ball, enlarged by what the enclosure at x left open; never below T_e."""
        ratio = torch.where(self.worst.lower > 0, self.worst.upper / self.worst.lower, 1.0)
        return (eps * torch.maximum(self.worst.upper, gain.cpu() * ratio)).tolist()

    def _label_cells(self, eps: float) -> dict[str, list[Cell]]:
        if self.margins is None:
            return {}
        delta = eps * self.worst.direction
        linear = [self.margins.kept(delta), self.margins.kept(-delta)]
        real = [
            label_kept(self.subject.f, self.subject.batch.images, sign * delta, self.subject.predicted)
            for sign in (1, -1)
        ]
        radius = self.margins.radius(self.subject.config.perturbation.delta_norm).tolist()
        cells: dict[str, list[Cell]] = {
            "margin_radius": [value if value < float("inf") else None for value in radius],
            "margin_classes": [self.margins.b.shape[1]] * len(radius),
            "label_kept": _signs(*real),
            "label_kept_linearised": _signs(*linear),
        }
        lost, bounding = (~linear[0] & ~linear[1]).nonzero()[:, 0], self.subject.config.bounding
        if bounding.label_constraint in ("tighten", "compare") and len(lost):
            cells["T_e_label"] = self._tightened(eps, lost)
        return cells | (self._beside(eps, cells.get("T_e_label")) if bounding.compares_labels else {})

    def _beside(self, eps: float, tightened: list[Cell] | None) -> dict[str, list[Cell]]:
        """The bounds with the constraint of all samples, and whether it lowers them by more than the solver leaves open."""
        upper, lower = (eps * end for end in (self.worst.upper, self.worst.lower))
        below = torch.minimum(lower, upper / (1 + self.subject.config.bounding.slack)).tolist()
        kept = [_number(cell) for cell in tightened or [None] * len(upper)]
        T = [plain if cell is None else cell for cell, plain in zip(kept, upper.tolist(), strict=True)]
        return {
            "T_e_label": list(T),
            "T_c_label_deg": [largest_angle(t, length) for t, length in zip(T, self.subject.lengths, strict=True)],
            "label_matters": [t < most for t, most in zip(T, below, strict=True)],
        }

    def _tightened(self, eps: float, lost: Tensor) -> list[Cell]:
        """The label-constrained bound of the samples that need it; it replaces T_e only where it is smaller."""
        assert self.margins is not None
        worst = self.worst.select(lost)
        norm = self.subject.config.perturbation.delta_norm
        tau = None if norm.kind is NormKind.LINF else norm.l2_factor(self.subject.explained.jacobian.shape[2]) ** 2
        bound = LabelDual(solver(self.subject.config, self.subject.allowance))(
            self.subject.explained.jacobian.select(lost),
            worst,
            Margins(self.margins.a[lost], self.margins.b[lost]),
            eps=eps,
            tau=tau,
            draws=self.subject.draws.select(lost),
        )
        if self.subject.rounding is not None:
            n = self.subject.explained.jacobian.shape[2]
            bound = bound + eps * norm.l2_factor(n) * self.subject.rounding.product[lost.cpu()]
        cells: list[Cell] = [None] * len(self.subject.batch.indices)
        for i, value, plain in zip(lost.tolist(), bound.tolist(), (eps * worst.upper).tolist(), strict=True):
            cells[i] = min(value, plain)
        return cells


def _number(cell: Cell) -> float | None:
    return None if cell is None else float(cell)


def _signs(plus: Tensor, minus: Tensor) -> list[Cell]:
    names = {(True, True): "both", (True, False): "plus", (False, True): "minus", (False, False): "none"}
    return [names[pair] for pair in zip(plus.tolist(), minus.tolist(), strict=True)]


def bound_all(subject: Subject) -> Bounded:
    """The bounds of a batch, for every eps."""
    config, J = subject.config, subject.explained.jacobian
    found = [
        certify(J, subject.draws) for certify in certifiers(config, subject.allowance, subject.layout, subject.probe[1])
    ]
    if subject.rounding is not None:
        found = [
            one.off_by(subject.rounding.product, config.perturbation.delta_norm, config.bounding.slack) for one in found
        ]
    worst = best_of(found)
    linearisation = linearise(
        subject.change,
        J,
        worst,
        norm=config.perturbation.delta_norm,
        draws=subject.draws,
        random=config.bounding.eta_draws,
        known=subject.probe,
    )
    return Bounded(subject, found, worst, linearisation)
