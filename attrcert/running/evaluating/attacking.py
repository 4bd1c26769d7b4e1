"""The attacks on one batch, and the cells that they fill beside those of its bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.ascent.loop import Attack, Attacked, Problem, Reference, ascend, best_of, scored
from attrcert.attacks import ATTACKS
from attrcert.attacks.euclidean import Euclidean
from attrcert.attacks.manipulate import Manipulate
from attrcert.attacks.random_search import RandomSearch
from attrcert.attacks.scored import Scored
from attrcert.bounds.first_order.ball import BallSearch
from attrcert.columns import METRICS as METRIC_COLUMNS
from attrcert.columns import TRANSFERRED, Cell, Row, transfer_column, verdicts
from attrcert.metrics import METRICS
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.cells import Bounded, Subject, bound_all
from attrcert.running.evaluating.methods import explainer
from attrcert.running.settings.config import AttackConfig
from attrcert.saved.arrays import delta_key, input_key, map_key, moved_map_key
from attrcert.types import Logits
from attrcert.vocabulary import Status

# `worst` tries all of these: the fixed step wanders where an adapted one settles, which pays off on kinked maps
WORST = tuple(name for name, attack in ATTACKS.items() if not attack.targeted)
WANDERING_STEP = 0.25  # of eps; also where the guide changes, so that gains of different guides are not compared
# What rounding alone may make of the difference of two maps: so many times what it takes of one, or, where that is not known, this share
# of their length. A deviation that is not above it is noise.
TWICE_BOTH = 4.0
USUAL = {torch.float32: 8e-6, torch.float64: 4e-13}
Deltas = Callable[[dict[str, Tensor]], None]


@dataclass(frozen=True)
class Setting:
    """What an attack needs beyond its batch: the target map, and where perturbations go that are to be kept."""

    target_map: Tensor | None = None
    save: Deltas | None = None


def attack_subject(subject: Subject, setting: Setting) -> dict[int, list[Row]]:
    """Each sample's rows, one per eps and attack, by its index."""
    config = subject.config
    assert isinstance(config, AttackConfig)
    bounded = bound_all(subject)
    rows: dict[int, list[Row]] = {index: [] for index in subject.batch.indices}
    for eps in config.eps:
        campaign = Campaign.at(eps, subject, bounded, setting)
        found = campaign.run()
        cells = campaign.cells(found)
        for i, (index, bound) in enumerate(zip(subject.batch.indices, bounded.rows(eps), strict=True)):
            rows[index] += [_joined(bound, {key: column[i] for key, column in cells[name].items()}) for name in cells]
        if setting.save:
            setting.save(campaign.kept(found))
    return rows


def default_k(n: int) -> int:
    """The papers' choices by the size of the input: 100 for small images, 1000 for large ones; at most an eighth."""
    return max(1, min(100 if n < 10_000 else 1000, -(-n // 8)))


@dataclass(frozen=True)
class Campaign:
    """All attacks at one eps."""

    subject: Subject
    bounded: Bounded
    config: AttackConfig
    setting: Setting
    problem: Problem
    reference: Reference

    @staticmethod
    def at(eps: float, subject: Subject, bounded: Bounded, setting: Setting) -> "Campaign":
        config = subject.config
        assert isinstance(config, AttackConfig)
        x = subject.batch.images
        measured = subject.f if config.measure_on == "twin" else subject.f.original()
        problem = Problem(
            subject.attribution,
            measured,
            guide(subject.f, measured, config),
            x,
            subject.target,
            subject.draws,
            Ball.around(x, config.delta_norm, eps),
            chunk=max(1, -(-len(x) // 2)),  # the graph of the bounds stays in memory meanwhile
        )
        return Campaign(subject, bounded, config, setting, problem, Reference.of(problem))

    @property
    def k(self) -> int:
        assert self.config.k is not None  # a run fills it in
        return self.config.k

    def run(self) -> dict[str, Attacked]:
        """The attacks that were asked for, the random search, and what `worst` needs."""
        names = [name for name in self.config.attack if name not in ("random", "worst")]
        if "worst" in self.config.attack:
            names += [name for name in WORST if name not in ("random", *names)]
        found = {name: self._attacked(self._made(name), self._starts(name)) for name in names}
        if self.config.random_draws and {"random", "worst"} & set(self.config.attack):
            found["random"] = self._searched(self._made("random")) if self.config.keep else self.sampled
        if "worst" in self.config.attack:
            found["worst"] = self.worst(found)
        return found

    def _made(self, name: str) -> Attack:
        config, betas = self.config, self.config.betas()
        step_size = config.step_size
        if step_size is None and betas is not None and betas[0] != betas[1]:
            step_size = None if ATTACKS.member(name).targeted else WANDERING_STEP * self.problem.ball.eps
        attack = ATTACKS.make(
            name,
            step_size=step_size,
            k=self.k,
            target_map=self.setting.target_map,
            map_weight=config.map_weight,
            output_weight=config.output_weight,
        )
        return Scored(attack, config.keep, self.k) if config.keep else attack

    def _attacked(self, attack: Attack, starts: Float[Tensor, "s b n"]) -> Attacked:
        return ascend(attack, self.problem, self.reference, starts, steps=self.config.steps)

    @cached_property
    def sampled(self) -> Attacked:
        """The random draw with the largest deviation."""
        return self._searched(RandomSearch())

    def _searched(self, search: Attack) -> Attacked:
        """The best of the random draws by the search's score."""
        start = self.problem.ball.random(self.problem.draws, "random-search-0")[None]
        return ascend(search, self.problem, self.reference, start, steps=self.config.random_draws - 1)

    def _starts(self, name: str) -> Float[Tensor, "s b n"]:
        """Both signs of the bound's worst perturbation, random points and the best sampled one; a targeted attack begins at x."""
        ball, w = self.problem.ball, self.bounded.worst.direction
        if name in ATTACKS and ATTACKS.member(name).targeted:
            return torch.zeros_like(w)[None]
        random = [ball.random(self.problem.draws, f"start-{i}") for i in range(self.config.restarts)]
        if self.config.random_draws:  # so that no deviation that sampling finds is missed
            random.append(self.sampled.delta)
        return torch.stack([ball.eps * w, -ball.eps * w, *random])

    def worst(self, found: dict[str, Attacked]) -> Attacked:
        """The best of all attacks on each sample by the Euclidean deviation, or by --keep: all untargeted ones, one more with
        fixed steps, and the points that these found climbed once more.
        """
        judge = self._made("euclidean")
        tried = [self._rescored(judge, found[name]) for name in WORST if name in found]
        wandering = replace(Euclidean(), step_size=WANDERING_STEP * self.problem.ball.eps)
        wander: Attack = Scored(wandering, self.config.keep, self.k) if self.config.keep else wandering
        tried.append(self._attacked(wander, self._starts("worst")))
        tried.append(self._attacked(judge, torch.stack([one.delta for one in tried])))
        return best_of(tried)

    def _rescored(self, judge: Attack, one: Attacked) -> Attacked:
        return replace(one, score=scored(judge, one.map, self.reference, self.problem.shape))

    def cells(self, found: dict[str, Attacked]) -> dict[str, dict[str, Sequence[Cell]]]:
        """The columns of each attack that was asked for."""
        sampled = self._measured("euclidean", self.sampled) if self.config.random_draws else None
        ball = self._ball_wide(found) if self.config.ball else {}
        return {name: self._cells(name, found[name], sampled, ball) for name in self.config.attack}

    def _cells(
        self, name: str, one: Attacked, sampled: Sequence[Cell] | None, ball: dict[str, Sequence[Cell]]
    ) -> dict[str, Sequence[Cell]]:
        wanted = [name for name, column in METRIC_COLUMNS.items() if column.headline or name in self.config.metric]
        comparable = self.config.measure_on == "twin"
        b = len(one.delta)
        return {
            "attack": [name] * b,
            "T_sampled": sampled or [None] * b,
            **{METRIC_COLUMNS[metric].name: self._measured(metric, one) for metric in wanted},
            "comparable": [comparable] * b,
            "g_norm": self.reference.map.double().norm(dim=1).tolist(),
            "T_hat_floor": self._floor(one),
            "found": one.found.tolist(),
            "delta_norm": self.problem.ball.size(one.delta).tolist(),
            **self._target_cells(one),
            "attack_steps": one.steps.tolist(),
            **ball,
            **self._transferred(one),
        }

    def _floor(self, one: Attacked) -> list[Cell]:
        """What rounding alone may make of the deviation."""
        rounding = self.subject.rounding
        if rounding is not None:
            return (TWICE_BOTH * rounding.value).tolist()
        return (USUAL[one.map.dtype] * self.reference.map.double().norm(dim=1)).tolist()

    def _measured(self, metric: str, one: Attacked) -> Sequence[Cell]:
        figures = METRICS.make(metric, k=self.k)(one.map, self.reference.map, self.problem.shape)
        return _cells_of(figures, len(one.delta))

    def _target_cells(self, one: Attacked) -> dict[str, Sequence[Cell]]:
        """How much of the way to the target map is left."""
        if self.setting.target_map is None:
            return {}
        aim = Manipulate(self.setting.target_map)
        left = scored(aim, one.map, self.reference, self.problem.shape)
        whole = scored(aim, self.reference.map, self.reference, self.problem.shape)
        return {"target_left": _cells_of(torch.where(whole < 0, left / whole, 0.0), len(left))}

    def _transferred(self, one: Attacked) -> dict[str, Sequence[Cell]]:
        """The same perturbation seen by other attributions."""
        cells: dict[str, Sequence[Cell]] = {}
        metrics = {column.name: metric for metric, column in METRIC_COLUMNS.items()}
        for name in self.config.transfer:
            other = replace(
                self.problem, attribution=explainer(replace(self.config, attribution=name), self.subject.f.mean)
            )
            before, after = (other.maps(other.measured, delta) for delta in (torch.zeros_like(one.delta), one.delta))
            for figure in TRANSFERRED:
                values = METRICS.make(metrics[figure], k=self.k)(after, before, self.problem.shape)
                cells[transfer_column(name, figure)] = _cells_of(values, len(one.delta))
        return cells

    def kept(self, found: dict[str, Attacked]) -> dict[str, Tensor]:
        """The perturbations by name, and what a picture of them needs: input and map, and the map that each attack made."""
        kept: dict[str, Tensor] = {}
        shape = self.problem.shape
        for i, index in enumerate(self.subject.batch.indices):
            for name in self.config.attack:
                case = (index, self.problem.ball.eps, name)
                kept |= {delta_key(*case): found[name].delta[i], moved_map_key(*case): found[name].map[i]}
            kept |= {input_key(index): self.problem.x[i], map_key(index): self.reference.map[i]}
        return {name: tensor.view(shape).cpu() for name, tensor in kept.items()}

    def _ball_wide(self, found: dict[str, Attacked]) -> dict[str, Sequence[Cell]]:
        """The gain along the segments to all attacked points counts for every attack on the sample."""
        search = BallSearch()
        gains = [
            search.along(self.subject.jacobian_at, self.problem.ball, found[name].delta) for name in self.config.attack
        ]
        return {"segments": self.bounded.ball_wide(self.problem.ball.eps, torch.stack(gains).amax(dim=0))}


def _cells_of(figures: Tensor | None, b: int) -> list[Cell]:
    if figures is None:
        return [None] * b
    return [value if np.isfinite(value) else None for value in figures.tolist()]


def _joined(bound: Row, attack: dict[str, Cell]) -> Row:
    """A bound's row and an attack's cells: what one says about the other."""
    cells = {**bound, **attack}
    found, comparable, segments = cells.pop("found"), cells.pop("comparable"), cells.pop("segments", None)
    if segments is not None:
        cells["T_e_ball"] = max(_number(cells["T_e_ball"]), _number(segments))
    if not found and cells["status"] in (Status.OK, Status.VACUOUS):
        cells["status"] = Status.LABEL_CHANGED.value
    reached, rounding = cells["T_hat_e"], _number(cells["T_hat_floor"])
    if not comparable or reached is None or 0 < _number(reached) <= rounding:
        return cells
    T_e = _number(cells["T_e"])
    cells["tightness"] = _number(reached) / T_e if T_e > 0 else None
    for flag, judged in verdicts():
        limit = cells.get(judged.name)
        cells[flag.name] = None if limit is None else _number(reached) > _number(limit) + rounding
    return cells


def _number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)


def guide(f: Classifier, measured: Classifier, config: AttackConfig) -> Callable[[float], Logits]:
    """The model that leads the way at a share t of the run: softplus betas grow geometrically [dombrowski2019explanations]."""
    betas = config.betas()
    if betas is None:
        return lambda t: f
    first, last = betas
    return lambda t: replace(f, beta=first * (last / first) ** t)
