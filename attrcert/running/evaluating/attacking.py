"""`attack`: how far attacks get, beside the bounds of the same samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from attrcert.ascent.loop import Attacked, scored
from attrcert.attacks import ATTACKS, BLIND
from attrcert.attacks.manipulate import Manipulate
from attrcert.bounds.first_order.ball import BallSearch
from attrcert.columns import METRIC_COLUMNS, ON_REQUEST, TRANSFERRED, Cell, Row, transfer_column, verdicts
from attrcert.errors import AttributionError, UsageError
from attrcert.metrics import METRICS
from attrcert.metrics.metric import cells_of, measurable
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.checks.own_maps import differentiable
from attrcert.running.evaluating.bounding import Bounds
from attrcert.running.evaluating.campaigns import Campaign, needs_images
from attrcert.running.evaluating.cells import Bounded
from attrcert.running.evaluating.methods import Layout, differentiated_part, explainer
from attrcert.running.evaluating.predicting import Predictions
from attrcert.running.evaluating.rounding import between
from attrcert.running.evaluating.subjects import Subject
from attrcert.running.evaluating.target_maps import target_map
from attrcert.running.evaluating.values import Unbounded, ValueSubject
from attrcert.running.evaluating.work import Deltas, Rows, Scene
from attrcert.scores.cosine_criterion import criterion
from attrcert.scores.insertion import Insertion, filling
from attrcert.settings.tasks import AttackConfig
from attrcert.types import Batch
from attrcert.vocabulary import Aim, Status

VECTORS_A_START = 12  # iterate, ball, anchor, gradient, best, and copies on the way


@dataclass(frozen=True)
class Attacks(Bounds[AttackConfig]):
    """Rows of bounds and attacks, one per eps and attack."""

    target_map: Tensor | None = field(default=None, kw_only=True)
    others: Mapping[str, Classifier] = field(default_factory=dict, kw_only=True)

    @classmethod
    def vectors(cls, config: AttackConfig) -> int:
        return max(
            super().vectors(config),
            VECTORS_A_START * max(2 + config.attacking.restarts, sum(Aim.of(name) is Aim.MAP for name in ATTACKS) + 1),
        )

    @classmethod
    def need(cls, config: AttackConfig) -> Callable[[Classifier, Tensor], Finding] | None:
        return None if _blind(config) else super().need(config)

    @classmethod
    def ready(cls, config: AttackConfig, scene: Scene) -> "Attacks":
        if cls is Attacks and not config.attacking.on_maps:
            return replace(ValueAttacks.ready(config.replacing(random_draws=0), scene), findings=())
        own = differentiated_part(config) if cls is Attacks and _blind(config) else None
        if own is not None and (seen := differentiable(own, scene.f, scene.x[:4])).level is Level.FAIL:
            return ValueAttacks.without_bounds(config, scene, seen)
        if not scene.replaced:  # the network is its own twin
            config = config.replacing(measure_on="twin")
        refused = [name for name in config.attacking.attack if name in ATTACKS and needs_images(name)]
        if refused and scene.x.ndim != 4:
            shape = tuple(scene.x.shape[1:])
            raise UsageError(f"{refused[0]} needs images with channels, height and width, got inputs of shape {shape}")
        config = config.replacing(k=config.largest.of(scene.entries))  # as manifests tell it
        if config.attacking.inserting:
            _insertion(config, scene.f).check(scene.f, scene.x, scene.map_shape)
        for name in config.attacking.transfer:
            explainer(config.replacing(attribution=name), scene.f.mean, Layout())
        made = super().ready(config, scene)
        aim, told = target_map(config, scene), made.findings
        return cls(config, made.layout, made.prover, made.other, findings=told, target_map=aim, others=scene.others)

    def explain(self, f: Classifier, batch: Batch, logits: Tensor) -> Subject:
        """The original network, where that is measured, is asked for the class."""
        if self.config.attacking.measure_on == "relu":
            with torch.no_grad():
                logits = f.original()(batch.images)
        return super().explain(f, batch, logits)

    def rows_of(self, subject: Subject, save: Deltas | None) -> Rows:
        bounded = self.bounded(subject)
        rows: Rows = {index: [] for index in subject.batch.indices}
        for eps in self.config.perturbation.eps:
            campaign = Campaign.at(eps, subject, bounded, self.config, self.target_map)
            predictions = Predictions(subject, campaign.problem, campaign.reference, self.others, self.config.attacking)
            reached = Reached(campaign, {**campaign.run(), **predictions.run()}, predictions)
            cells = {name: reached.cells(name) for name in self.config.attacking.tried}
            for i, (index, bound) in enumerate(zip(subject.batch.indices, bounded.rows(eps), strict=True)):
                for name, columns in cells.items():
                    row = reached.beside(i, bound, {key: column[i] for key, column in columns.items()})
                    rows[index].append(row if reached.kept[name][i] else _label_changed(row))
            if save:
                save(campaign.kept(reached.found))
        return rows


@dataclass(frozen=True)
class ValueAttacks(Attacks):
    """Rows of attacks that need values alone, on attributions that have no derivatives, and so no bounds."""

    @classmethod
    def without_bounds(cls, config: AttackConfig, scene: Scene, seen: Finding) -> "Attacks":
        """Refuses what would need them."""
        for asked, name in ((config.bounding.ball, "--ball"), (config.bounding.proved, "--proved")):
            if asked:
                raise AttributionError(f"{name} needs derivatives: {seen.message}", hint=seen.hint)
        made = cls.ready(config, scene)
        return replace(made, findings=(Finding("bounds", Level.WARN, f"there are none: {seen.message}"),))

    def explain(self, f: Classifier, batch: Batch, logits: Tensor) -> Subject:
        return ValueSubject.of(super().explain(f, batch, logits))

    def bounded(self, subject: Subject) -> Unbounded:  # type: ignore[override]
        return Unbounded(subject)


def _insertion(config: AttackConfig, f: Classifier) -> Insertion:
    """As the user has it."""
    return Insertion(fill=filling(config.attacking.fill, f.mean), shares=config.attacking.shares)


def _blind(config: AttackConfig) -> bool:
    """Whether nothing that is asked for needs derivatives of the user's own attribution."""
    attacking = config.attacking
    return not attacking.on_maps or (differentiated_part(config) is not None and set(attacking.on_maps) <= set(BLIND))


@dataclass(frozen=True)
class Reached:
    """What the attacks of a campaign reached, as cells."""

    campaign: Campaign
    found: dict[str, Attacked]
    predictions: Predictions

    @cached_property
    def kept(self) -> dict[str, list[bool]]:
        """Whether an attack's perturbation keeps the label of each sample."""
        return {name: one.found.tolist() for name, one in self.found.items()}

    def cells(self, name: str) -> dict[str, Sequence[Cell]]:
        """The columns of one attack."""
        one, config, b = self.found[name], self.campaign.config.attacking, len(self.found[name].delta)
        wanted = [metric for metric, column in METRIC_COLUMNS.items() if column.headline or metric in config.metric]
        return {
            "attack": [name] * b,
            "T_sampled": self._sampled,
            **{METRIC_COLUMNS[metric].name: self._measured(metric, one) for metric in wanted},
            **{ON_REQUEST[name].name: score for name, score in self._scored(one).items()},
            **self._free(name),
            "g_norm": self.campaign.reference.map.double().norm(dim=1).tolist(),
            "T_hat_floor": between(self.campaign.reference.map, self.campaign.subject.rounding).tolist(),
            "delta_norm": self.campaign.problem.ball.size(one.delta).tolist(),
            **self._target_cells(one),
            "attack_steps": one.steps.tolist(),
            **self._transferred(one),
            **(self.predictions.cells(one.delta) if Aim.of(name) is Aim.PREDICTION else {}),
        }

    @cached_property
    def _sampled(self) -> Sequence[Cell]:
        if not self.campaign.config.attacking.random_draws:
            return [None] * len(self.campaign.problem.x)
        return self._measured("euclidean", self.campaign.sampled)

    @cached_property
    def _freed(self) -> dict[str, Attacked]:
        return self.campaign.freed(self.found) if self.campaign.config.bounding.compares_labels else {}

    def _free(self, name: str) -> dict[str, Sequence[Cell]]:
        """What an attack reaches where the label may change, if that is asked for."""
        one, names = self._freed.get(name), {"euclidean": "T_hat_e_free", "degrees": "T_hat_c_free_deg"}
        return {} if one is None else {column: self._measured(metric, one) for metric, column in names.items()}

    def _measured(self, metric: str, one: Attacked) -> Sequence[Cell]:
        return self._apart(metric, one.map, self.campaign.reference.map, self.campaign.problem.shape)

    def _apart(self, metric: str, moved: Tensor, original: Tensor, shape: tuple[int, ...]) -> Sequence[Cell]:
        """How far maps of a shape are apart by a metric."""
        figures = METRICS.make(metric, k=self.campaign.k)(moved, original, shape)
        return cells_of(figures, len(moved))

    def _scored(self, one: Attacked) -> dict[str, Sequence[Cell]]:
        """What is asked for of the map, or of the attacked one: insertion of the clean input's pixels, and the cosine criterion."""
        seen, asked = self.campaign.sight, self.campaign.config.attacking.metric
        found: dict[str, Sequence[Cell]] = {}
        for name, g in (("insertion", seen.g), ("adv-insertion", one.map)):
            if name in asked:
                found[name] = _insertion(self.campaign.config, seen.f).along(seen, g, into=True).area
        if "crc" in asked:
            found["crc"] = cells_of(criterion(measurable(seen.g), measurable(one.map)), len(one.map))
        return found

    def _target_cells(self, one: Attacked) -> dict[str, Sequence[Cell]]:
        """How much of the way to the target map is left."""
        if self.campaign.target_map is None:
            return {}
        aim = Manipulate(self.campaign.target_map)
        left = scored(aim, one.map, self.campaign.reference, self.campaign.problem.shape)
        whole = scored(aim, self.campaign.reference.map, self.campaign.reference, self.campaign.problem.shape)
        return {"target_left": cells_of(torch.where(whole < 0, left / whole, 0.0), len(left))}

    def _transferred(self, one: Attacked) -> dict[str, Sequence[Cell]]:
        """The same perturbation seen by other attributions."""
        cells: dict[str, Sequence[Cell]] = {}
        metrics = {column.name: metric for metric, column in METRIC_COLUMNS.items()}
        for name in self.campaign.config.attacking.transfer:
            config, subject = self.campaign.config.replacing(attribution=name), self.campaign.subject
            attribution = explainer(config, subject.f.mean, subject.layout)
            other = replace(self.campaign.problem, attribution=attribution, map_shape=None)
            before, after = (other.maps(other.measured, delta) for delta in (torch.zeros_like(one.delta), one.delta))
            for figure in TRANSFERRED:
                cells[transfer_column(name, figure)] = self._apart(metrics[figure], after, before, other.shape)
        return cells

    @cached_property
    def segments(self) -> list[float] | None:
        """The ball-wide estimate from the segments to all attacked points, where it is asked for; it counts for every attack."""
        campaign, search = self.campaign, BallSearch()
        if not campaign.config.bounding.ball:
            return None
        assert isinstance(campaign.bounded, Bounded)
        points = [self.found[name].delta for name in campaign.config.attacking.on_maps]
        gains = [search.along(campaign.subject.jacobian_at, campaign.problem.ball, point) for point in points]
        return campaign.bounded.ball_wide(campaign.problem.ball.eps, torch.stack(gains).amax(dim=0))

    def beside(self, i: int, bound: Row, attack: Row) -> Row:
        """A bound's row and an attack's cells: what one says about the other."""
        cells: dict[str, Cell] = {**bound, **attack}
        if self.segments is not None:
            cells["T_e_ball"] = max(_number(cells["T_e_ball"]), self.segments[i])
        reached, rounding = cells["T_hat_e"], _number(cells["T_hat_floor"])
        comparable = self.campaign.config.attacking.measure_on == "twin" and Aim.of(cells["attack"]) is Aim.MAP
        if not comparable or reached is None or cells.get("T_e") is None or 0 < _number(reached) <= rounding:
            return cells
        T_e = _number(cells["T_e"])
        cells["tightness"] = _number(reached) / T_e if T_e > 0 else None
        for flag, judged in verdicts():
            limit = cells.get(judged.name)
            cells[flag.name] = None if limit is None else _number(reached) > _number(limit) + rounding
        return cells


def _label_changed(row: Row) -> Row:
    """Of a sample whose label no iterate kept."""
    return {**row, "status": Status.LABEL_CHANGED.value} if row["status"] in (Status.OK, Status.VACUOUS) else row


def _number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)
