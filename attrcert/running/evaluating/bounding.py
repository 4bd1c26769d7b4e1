"""`bound`: the work of a run, and what is ready once for all its batches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from jaxtyping import Bool
from torch import Tensor

from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.derivatives import curvature, piecewise_linear
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.checks.own_maps import differentiable
from attrcert.running.evaluating.cells import Bounded, bound_all
from attrcert.running.evaluating.methods import differentiated_part, explainer
from attrcert.running.evaluating.proving import MisreadError, Proving, proving
from attrcert.running.evaluating.rounding import Otherwise, otherwise
from attrcert.running.evaluating.samples import Failed, failed_rows, picked
from attrcert.running.evaluating.subjects import Subject, explained_class
from attrcert.running.evaluating.work import Deltas, Rows, Scene, Work
from attrcert.settings.tasks import BoundConfig
from attrcert.types import Batch

B = TypeVar("B", bound=BoundConfig)
USUAL_STEPS = 60  # Krylov vectors that a sample needs at most, as a rule
NO_FLOAT64 = "not measured: the model does not run in float64"
UNMEASURED = Finding("rounding", Level.WARN, NO_FLOAT64, "a usual allowance is made for it instead")


@dataclass(frozen=True)
class Bounds(Work[B]):
    """Rows of bounds; a sample whose derivatives are not finite is set apart and the others go on."""

    prover: Proving | None = None
    other: Otherwise | None = None

    @classmethod
    def need(cls, config: B) -> Callable[[Classifier, Tensor], Finding] | None:
        own = differentiated_part(config)
        if own is not None:
            return partial(differentiable, own)
        return piecewise_linear if config.of_loss else curvature

    @classmethod
    def vectors(cls, config: B) -> int:
        return min(config.bounding.max_steps, USUAL_STEPS)

    @classmethod
    def ready(cls, config: B, scene: Scene) -> "Bounds[B]":
        config.largest.of(scene.entries)  # or it is refused
        other = otherwise(scene.f, scene.x)
        prover = proving(config, scene.f, scene.attribution, scene.x, scene.memory)
        return cls(config, scene.layout, prover, other, findings=() if other else (UNMEASURED,))

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        subject = self.explain(f, batch, logits)
        bad = ~subject.finite()
        if bad.any():
            return self.without(bad, f, batch, logits, save)
        try:
            return self.rows_of(subject, save)
        except MisreadError as error:
            if len(error.rows) == len(batch.indices) > 1:  # the network is to blame, not a sample
                raise
            bad[list(error.rows)] = True
            return self.without(bad, f, batch, logits, save, "misread", str(error))

    def without(
        self,
        bad: Bool[Tensor, " b"],
        f: Classifier,
        batch: Batch,
        logits: Tensor,
        save: Deltas | None,
        kind: str = "non-finite-derivative",
        message: str = "the attribution or its derivative is NaN or infinite",
    ) -> Rows:
        """The rows of the batch where some samples have no figure."""
        places, keep = bad.nonzero()[:, 0].tolist(), (~bad).nonzero()[:, 0].tolist()
        failed = [Failed(batch.indices[i], batch.labels[i], kind, message) for i in places]
        apart = {failure.index: failed_rows(failure, self.config) for failure in failed}
        return apart | (self.rows(f, picked(batch, keep), logits[keep], save) if keep else {})

    def explain(self, f: Classifier, batch: Batch, logits: Tensor) -> Subject:
        """The attribution of the class of every sample that is to be explained."""
        target = explained_class(logits, batch, self.config.explanation.target)
        draws = Draws(self.config.arithmetic.seed, batch.indices)
        explained = explainer(self.config, f.mean, self.layout).explain(f, batch.images, target, draws)
        return Subject(f, batch, self.config, self.layout, logits, target, explained, self.prover, self.other)

    def bounded(self, subject: Subject) -> Bounded:
        """The bounds of the samples; those who add one fill its cells there."""
        return bound_all(subject)

    def rows_of(self, subject: Subject, save: Deltas | None) -> Rows:
        """One per eps."""
        bounded = self.bounded(subject)
        by_eps = [bounded.rows(eps) for eps in self.config.perturbation.eps]
        return {index: [rows[i] for rows in by_eps] for i, index in enumerate(subject.batch.indices)}
