"""Attacks on the predictions of one batch at one eps: found on the network as it is and on other checkpoints, and tried on all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.ascent.loop import Attacked, Problem, Reference, ascend, best_of, maps_at
from attrcert.attacks.prediction import LOGITS, MarginAttack, PredictionAttack, class_first, margin
from attrcert.columns import CORRECT, Cell, transfer_column
from attrcert.metrics.metric import cells_of
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.subjects import Subject
from attrcert.settings.attacking import Attacking
from attrcert.vocabulary import Aim


@dataclass(frozen=True)
class Predictions:
    """What is attacked is the label; where there is none, the class that the network predicts at x."""

    subject: Subject
    problem: Problem  # of the maps, in the same ball
    reference: Reference
    others: Mapping[str, Classifier]  # by the names of their columns
    asked: Attacking

    @cached_property
    def f(self) -> Classifier:
        """With its own activations: no derivative of second order is taken."""
        return self.subject.f.original()

    @cached_property
    def predicted(self) -> Int64[Tensor, " b"]:
        return self.problem.logits(self.f, torch.zeros_like(self.problem.ball.low)).argmax(dim=1)

    @cached_property
    def classes(self) -> Int64[Tensor, " b"]:
        """What is to be predicted no more."""
        labels = zip(self.subject.batch.labels, self.predicted.tolist(), strict=True)
        told = [predicted if label is None else label for label, predicted in labels]
        return torch.tensor(told, device=self.predicted.device)

    def run(self) -> dict[str, Attacked]:
        """The attack that was asked for, and what it finds on other checkpoints."""
        if not self.asked.predicting:
            return {}
        names = [name for name in self.asked.tried if Aim.of(name) is Aim.PREDICTION]
        return {name: self._found(f) for name, f in zip(names, (self.f, *self.others.values()), strict=True)}

    def _found(self, f: Classifier) -> Attacked:
        """From x and from random points, with the map at the point."""
        problem = replace(self.problem, attribution=LOGITS, measured=f, guide=lambda t: f, target=self.classes)
        ball, draws = problem.ball, problem.draws
        random = [ball.random(draws, f"prediction-{i}") for i in range(self.asked.restarts)]
        starts = torch.stack([torch.zeros_like(ball.low), *random])
        reference, size = Reference.of(problem), self.asked.step_size
        attacks = PredictionAttack(size), MarginAttack(size)
        found = best_of([ascend(one, problem, reference, starts, steps=self.asked.steps) for one in attacks])
        return replace(found, map=maps_at(self.problem, self.reference, found.delta))

    def cells(self, delta: Float[Tensor, "b n"]) -> dict[str, Sequence[Cell]]:
        """What perturbations do to the predictions of all checkpoints."""
        logits, clean, there = self.problem.logits(self.f, delta), self._right(self.f), self._right(self.f, delta)
        labelled = zip(self.subject.batch.labels, clean, strict=True)
        return {
            "predicted": self.predicted.tolist(),
            "correct": [None if label is None else right for label, right in labelled],
            "fooled": [not kept if right else None for right, kept in zip(clean, there, strict=True)],
            "predicted_attacked": logits.argmax(dim=1).tolist(),
            "correct_attacked": there,
            "margin_attacked": cells_of(margin(class_first(logits, self.classes).double()), len(delta)),
            **self._elsewhere(delta),
        }

    def _elsewhere(self, delta: Float[Tensor, "b n"]) -> dict[str, Sequence[Cell]]:
        """Whether the other checkpoints are right at x and at the point."""
        clean, attacked = CORRECT
        return {
            transfer_column(name, column): self._right(f, point)
            for name, f in self.others.items()
            for column, point in ((clean, None), (attacked, delta))
        }

    def _right(self, f: Classifier, delta: Float[Tensor, "b n"] | None = None) -> list[bool]:
        """Whether a checkpoint predicts the class at the points, or at x."""
        delta = torch.zeros_like(self.problem.ball.low) if delta is None else delta
        return (self.problem.logits(f, delta).argmax(dim=1) == self.classes).tolist()
