"""`score`: the metrics that are asked for, on the maps of each batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from attrcert.columns import Cell, Row, column_named
from attrcert.draws import Draws
from attrcert.linalg.maps import usual_chunk
from attrcert.loading.boxes import TrueBoxes, true_boxes
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.evaluating.bounding import Bounds
from attrcert.running.evaluating.cells import bound_all
from attrcert.running.evaluating.methods import explainer
from attrcert.running.evaluating.rounding import between
from attrcert.running.evaluating.samples import sample_cells
from attrcert.running.evaluating.subjects import Subject, explained_class
from attrcert.running.evaluating.work import Deltas, Rows, Scene
from attrcert.scores import SCORES
from attrcert.scores.insertion import filling
from attrcert.scores.sight import Cells, CurvedSight, Score, Sight
from attrcert.settings.scoring import ScoreConfig
from attrcert.types import Batch
from attrcert.vocabulary import Guarantee, Status

ON_THE_WAY = 8  # an input, its map and what is made of both


@dataclass(frozen=True)
class Scores(Bounds[ScoreConfig]):
    """Rows of metrics, one per metric and eps."""

    scores: Mapping[str, Score] = field(default_factory=dict, kw_only=True)

    @classmethod
    def need(cls, config: ScoreConfig) -> Callable[[Classifier, Tensor], Finding] | None:
        return super().need(config) if config.differentiates_twice else None

    @classmethod
    def vectors(cls, config: ScoreConfig) -> int:
        return max(ON_THE_WAY, super().vectors(config) if config.differentiates_twice else 0)

    @classmethod
    def ready(cls, config: ScoreConfig, scene: Scene) -> "Scores":
        """What metrics are to measure is measured on the first samples already: whether they are for such inputs."""
        boxes = _boxes(config, scene)
        given = {**vars(config.scoring), "fill": filling(config.scoring.fill, scene.f.mean), "boxes": boxes}
        scores = {name: SCORES.make(name, **given) for name in config.scoring.metric}
        for score in scores.values():
            score.check(scene.f.original(), scene.x, scene.map_shape)
        if not any(about.of_twin for about in config.scoring.about.values()):
            return cls(config, scene.layout, scores=scores, findings=_told(boxes))
        made = super().ready(config, scene)
        findings = (*made.findings, *_told(boxes))
        return cls(config, made.layout, made.prover, made.other, findings=findings, scores=scores)

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        twins = {about.of_twin for about in self.config.scoring.about.values()}
        plain = self._plain(f, batch) if False in twins else None
        subject = self.explain(f, batch, logits) if True in twins else None
        finite = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
        finite &= finite if plain is None else plain.g.isfinite().all(dim=1)
        finite &= finite if subject is None else subject.finite()
        if not finite.all():
            return self.without(~finite, f, batch, logits, save)
        return self._scored({False: plain, True: _curved(subject) if subject else None})

    def _plain(self, f: Classifier, batch: Batch) -> Sight:
        """The network as it is."""
        own, config, draws = f.original(), self.config, Draws(self.config.arithmetic.seed, batch.indices)
        with torch.no_grad():
            logits = own(batch.images)
        target = explained_class(logits, batch, config.explanation.target)
        attribution = explainer(config, f.mean, self.layout)
        return Sight(
            f=own,
            guide=f,
            attribution=attribution,
            batch=batch,
            target=target,
            predicted=logits.argmax(dim=1),
            g=attribution.value(own, batch.images, target, draws),
            draws=draws,
            norm=config.perturbation.delta_norm,
            eps=config.perturbation.eps,
            chunk=self.layout.chunk or usual_chunk(batch.images),
        )

    def _scored(self, views: Mapping[bool, Sight | None]) -> Rows:
        """Each metric sees the network as it is, or its softplus version."""
        about, found = self.config.scoring.about, list[tuple[Sight, Cells]]()
        for name, score in self.scores.items():
            seen = views[about[name].of_twin]
            assert seen is not None
            found += [(seen, cells) for cells in score(seen)]
        cases = [
            [{**common, **case, **_cells(cells, i)} for i, common in enumerate(self._common(seen))]
            for case, (seen, cells) in zip(self.config.cases, found, strict=True)
        ]
        indices = found[0][0].batch.indices
        return {index: list(rows) for index, rows in zip(indices, zip(*cases, strict=True), strict=True)}

    def _common(self, seen: Sight) -> Iterator[Row]:
        """What the rows of each sample have, whatever was measured."""
        of_samples = zip(
            seen.batch.indices, seen.batch.labels, seen.predicted.tolist(), seen.target.tolist(), strict=True
        )
        for sample, length in zip(of_samples, seen.g.double().norm(dim=1).tolist(), strict=True):
            yield {**sample_cells(self.config, *sample), "status": Status.OK.value, "g_norm": length}


def _curved(subject: Subject) -> CurvedSight:
    """Of the softplus version, with its bounds."""
    bounded, config = bound_all(subject), subject.config
    return CurvedSight(
        f=subject.f,
        guide=subject.f,
        attribution=subject.attribution,
        batch=subject.batch,
        target=subject.target,
        predicted=subject.predicted,
        g=subject.explained.value,
        draws=subject.draws,
        norm=config.perturbation.delta_norm,
        eps=config.perturbation.eps,
        chunk=subject.layout.chunk or usual_chunk(subject.batch.images),
        jacobian=subject.explained.jacobian,
        worst=bounded.worst,
        status=[bounded.status(i, vacuous=False).value for i in range(len(subject.batch.indices))],
        ball_wide=bounded.searched,
        proved=bounded.proved,
        noise=between(subject.explained.value, subject.rounding),
    )


def _boxes(config: ScoreConfig, scene: Scene) -> TrueBoxes | None:
    """Where the objects are, if that is asked for."""
    path, data = config.scoring.boxes, scene.data
    return true_boxes(Path(path), data.images, data.sources, data.selected, data.max_input) if path else None


def _told(boxes: TrueBoxes | None) -> tuple[Finding, ...]:
    """What of the boxes and the data does not match."""
    levels = {Level.NOTE: boxes.absent, Level.WARN: boxes.lacking} if boxes else {}
    return tuple(Finding("boxes", level, message) for level, message in levels.items() if message)


def _cells(cells: Cells, i: int) -> dict[str, Cell]:
    """The cells of a sample, and the strongest guarantee among them."""
    own = {name: of_all[i] for name, of_all in cells.items()}
    columns = (column_named(name, "score") for name, cell in own.items() if cell is not None)
    promised = {column.promised for column in columns if column is not None}
    strongest = next((guarantee.value for guarantee in Guarantee if guarantee in promised), None)
    return {**own, "guarantee": strongest}
