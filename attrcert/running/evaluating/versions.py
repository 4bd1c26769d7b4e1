"""The rows of one of several softplus versions of a network, and how close that version is to the network at each sample."""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from attrcert.columns import Cell
from attrcert.draws import Draws
from attrcert.metrics import METRICS
from attrcert.metrics.metric import cells_of
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import explainer
from attrcert.running.evaluating.samples import picked
from attrcert.running.evaluating.work import Deltas, Rowing, Rows
from attrcert.settings.tasks import Task
from attrcert.types import Batch


@dataclass(frozen=True)
class Version(Rowing[Task]):
    """What another work gives of this version, told beside how close it is."""

    work: Rowing[Any]

    def with_chunk(self, chunk: int | None) -> Self:
        return replace(super().with_chunk(chunk), work=self.work.with_chunk(chunk))

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        version = replace(f, beta=self.config.twin.beta)
        with torch.no_grad():
            own = version(batch.images)
        found = self.work.rows(version, batch, own, save)
        explained = [i for i, index in enumerate(batch.indices) if found[index][0].get("target") is not None]
        if not explained:
            return found
        target = torch.tensor([found[batch.indices[i]][0]["target"] for i in explained], device=logits.device)
        cells = self._fidelity(f, version, picked(batch, explained), target) | {
            "same_label": (own.argmax(1) == logits.argmax(1))[explained].tolist(),
            "logit_gap": (own - logits).abs().amax(1)[explained].tolist(),
        }
        beside = {batch.indices[i]: {name: cells[name][j] for name in cells} for j, i in enumerate(explained)}
        return {index: [{**row, **beside.get(index, {})} for row in rows] for index, rows in found.items()}

    def _fidelity(self, f: Classifier, version: Classifier, batch: Batch, target: Tensor) -> dict[str, list[Cell]]:
        """The cosine of the two maps of the explained class."""
        attribution = explainer(self.config, f.mean, self.layout)
        draws = Draws(self.config.arithmetic.seed, batch.indices)
        moved, original = (attribution.value(one, batch.images, target, draws) for one in (version, f))
        cosine = METRICS.make("cosine")(moved, original, attribution.map_shape(f, batch.images))
        return {"map_cosine": cells_of(cosine, len(batch.indices))}
