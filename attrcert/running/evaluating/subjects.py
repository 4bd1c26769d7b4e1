"""Samples with the class that is explained, their attribution and its derivatives."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.bounds.first_order import l2_spectral
from attrcert.draws import Draws
from attrcert.linalg.maps import usual_chunk
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import Layout, explainer, network_rounding
from attrcert.running.evaluating.proving import Proving
from attrcert.running.evaluating.rounding import Measured, Otherwise, Rounding
from attrcert.settings.tasks import BoundConfig
from attrcert.types import Attribution, Batch, Explained, LinearMap


@dataclass(frozen=True)
class Subject:
    """Samples with the class that is explained and their attribution."""

    f: Classifier
    batch: Batch
    config: BoundConfig
    layout: Layout
    logits: Float[Tensor, "b k"]
    target: Int64[Tensor, " b"]
    explained: Explained
    prover: Proving | None = None
    other: Otherwise | None = None

    @property
    def draws(self) -> Draws:
        return Draws(self.config.arithmetic.seed, self.batch.indices)

    @property
    def allowance(self) -> float | None:
        """For rounding, where it is not measured."""
        return network_rounding(self.config, self.f.beta) if self.other is None else None

    @property
    def farthest(self) -> float:
        """The largest distance of two inputs."""
        return self.batch.within.distance(self.config.perturbation.delta_norm, self.batch.images[0].numel())

    @cached_property
    def predicted(self) -> Int64[Tensor, " b"]:
        return self.logits.argmax(dim=1)

    @cached_property
    def lengths(self) -> list[float]:
        """|g(x)|_2 of each sample."""
        return self.explained.value.double().norm(dim=1).tolist()

    @property
    def attribution(self) -> Attribution:
        return explainer(self.config, self.f.mean, self.layout)

    @cached_property
    def map_shape(self) -> tuple[int, ...]:
        """Of one map, channels first."""
        return self.attribution.map_shape(self.f, self.batch.images)

    def change(self, delta: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]:
        """g(x + delta) - g(x)."""
        x = self.batch.images
        return self.attribution.value(self.f, x + delta.view_as(x), self.target, self.draws) - self.explained.value

    def jacobian_at(self, delta: Float[Tensor, "b n"]) -> LinearMap:
        """J at x + delta."""
        x = self.batch.images
        return self.attribution.explain(self.f, x + delta.view_as(x), self.target, self.draws).jacobian

    @cached_property
    def probe(self) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b m"]]:
        """The normal vector that the solver starts from, and its product with the Jacobian."""
        J = self.explained.jacobian
        w = self.draws.normal(l2_spectral.PURPOSE, J.shape[2], like=J)
        return w, J.matvec(w)

    def finite(self) -> Bool[Tensor, " b"]:
        """Which samples have a finite attribution and a finite Jacobian, by one product."""
        return (self.explained.value.isfinite() & self.probe[1].isfinite()).all(dim=1)

    @cached_property
    def rounding(self) -> Rounding | None:
        """What rounding takes of the attribution and its Jacobian; None where the network does not run in float64."""
        if self.other is None:
            return None
        points = max(1, (self.layout.chunk or usual_chunk(self.batch.images)) // 2)  # of twice as many bytes each
        attribution = explainer(self.config, self.f.mean, replace(self.layout, chunk=points, held=points))
        measured = Measured(self.explained.value, self.explained.jacobian, *self.probe)
        at_once = max(1, points // attribution.points)
        x = self.batch.images
        return measured.against(self.other, attribution, x, self.target, self.draws, at_once=at_once)


def explained_class(logits: Float[Tensor, "b k"], batch: Batch, target: str) -> Int64[Tensor, " b"]:
    """The class to explain: the predicted one, the label, or a fixed one."""
    predicted = logits.argmax(dim=1)
    if target == "predicted":
        return predicted
    if target == "label":
        return torch.tensor(batch.labels, device=predicted.device)
    return torch.full_like(predicted, int(target))
