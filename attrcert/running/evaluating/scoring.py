"""`score`: the metrics that are asked for, on the maps of each batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attrcert.columns import Cell, Row, column_named
from attrcert.draws import Draws
from attrcert.linalg.maps import usual_chunk
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding
from attrcert.running.evaluating.bounding import Bounds
from attrcert.running.evaluating.methods import explainer
from attrcert.running.evaluating.samples import Failed, failed_rows, picked, sample_cells
from attrcert.running.evaluating.subjects import explained_class
from attrcert.running.evaluating.work import Deltas, Rows, Scene
from attrcert.scores import SCORES
from attrcert.scores.insertion import filling
from attrcert.scores.sight import Cells, Score, Sight
from attrcert.settings.scoring import ScoreConfig
from attrcert.types import Batch
from attrcert.vocabulary import Guarantee, Status


@dataclass(frozen=True)
class Scores(Bounds[ScoreConfig]):
    """Rows of metrics, one per metric and eps."""

    scores: Mapping[str, Score] = field(default_factory=dict, kw_only=True)

    @classmethod
    def need(cls, config: ScoreConfig) -> Callable[[Classifier, Tensor], Finding] | None:
        return super().need(config) if config.differentiates_twice else None

    @classmethod
    def ready(cls, config: ScoreConfig, scene: Scene) -> "Scores":
        given = {**vars(config.scoring), "fill": filling(config.scoring.fill, scene.f.mean)}
        scores = {name: SCORES.make(name, **given) for name in config.scoring.metric}
        for score in scores.values():
            score.check(scene.x, scene.map_shape)
        return cls(config, scene.layout, scores=scores)

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        seen = self._seen(f.original(), batch)
        finite = seen.g.isfinite().all(dim=1)
        if finite.all():
            return self._scored(seen)
        bad, keep = (~finite).nonzero()[:, 0].tolist(), finite.nonzero()[:, 0].tolist()
        failed = [
            Failed(batch.indices[i], batch.labels[i], "non-finite-derivative", "the attribution is NaN or infinite")
            for i in bad
        ]
        apart = {failure.index: failed_rows(failure, self.config) for failure in failed}
        return apart | (self.rows(f, picked(batch, keep), logits[keep], save) if keep else {})

    def _seen(self, f: Classifier, batch: Batch) -> Sight:
        with torch.no_grad():
            logits = f(batch.images)
        config, draws = self.config, Draws(self.config.arithmetic.seed, batch.indices)
        target = explained_class(logits, batch, config.explanation.target)
        attribution = explainer(config, f.mean, self.layout)
        return Sight(
            f,
            attribution,
            batch,
            target,
            logits.argmax(dim=1),
            attribution.value(f, batch.images, target, draws),
            draws,
            config.perturbation.delta_norm,
            config.perturbation.eps,
            self.layout.chunk or usual_chunk(batch.images),
        )

    def _scored(self, seen: Sight) -> Rows:
        found = [cells for score in self.scores.values() for cells in score(seen)]
        return {
            index: [{**common, **case, **_told(cells, i)} for case, cells in zip(self.config.cases, found, strict=True)]
            for i, (index, common) in enumerate(self._common(seen))
        }

    def _common(self, seen: Sight) -> Iterator[tuple[int, Row]]:
        """What all rows of a sample have."""
        of_samples = zip(
            seen.batch.indices, seen.batch.labels, seen.predicted.tolist(), seen.target.tolist(), strict=True
        )
        for sample, length in zip(of_samples, seen.g.double().norm(dim=1).tolist(), strict=True):
            yield sample[0], {**sample_cells(self.config, *sample), "status": Status.OK.value, "g_norm": length}


def _told(cells: Cells, i: int) -> dict[str, Cell]:
    """The cells of a sample, and the strongest guarantee among them."""
    own = {name: of_all[i] for name, of_all in cells.items()}
    columns = (column_named(name, "score") for name, cell in own.items() if cell is not None)
    promised = {column.promised for column in columns if column is not None}
    strongest = next((guarantee.value for guarantee in Guarantee if guarantee in promised), None)
    return {**own, "guarantee": strongest}
