"""The attacks on one batch at one eps: all that are asked for, from the same starts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Attack
from attrcert.ascent.balls import Ball
from attrcert.ascent.loop import Attacked, Problem, Reference, ascend, best_of, scored
from attrcert.attacks import ATTACKS
from attrcert.attacks.euclidean import EuclideanAttack
from attrcert.attacks.random_search import RandomSearch
from attrcert.attacks.scored import Scored
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.cells import Bounded
from attrcert.running.evaluating.subjects import Subject
from attrcert.running.evaluating.values import Unbounded
from attrcert.saved.arrays import delta_key, input_key, map_key, moved_map_key
from attrcert.scores.sight import Sight
from attrcert.settings.attacking import WORST
from attrcert.settings.tasks import AttackConfig
from attrcert.types import Logits
from attrcert.vocabulary import Aim

WANDERING_STEP = 0.25  # of eps; also where the guide changes, so that gains of different guides are not compared


def needs_images(name: str) -> bool:
    """Whether an attack is for inputs with a height and a width alone."""
    return bool(getattr(ATTACKS.member(name), "images_only", False))


def untargeted(shape: tuple[int, ...]) -> tuple[str, ...]:
    """All that `worst` tries on inputs of this shape, which has derivatives. The fixed step beside them wanders where an adapted one
    settles, which pays off on kinked maps.
    """
    return tuple(
        name
        for name, attack in ATTACKS.items()
        if not (attack.targeted or name in ("search", Aim.PREDICTION)) and (len(shape) == 3 or not needs_images(name))
    )


@dataclass(frozen=True)
class Campaign:
    """All attacks at one eps."""

    subject: Subject
    bounded: Bounded | Unbounded
    config: AttackConfig
    target_map: Tensor | None
    problem: Problem
    reference: Reference

    @staticmethod
    def at(
        eps: float, subject: Subject, bounded: Bounded | Unbounded, config: AttackConfig, target_map: Tensor | None
    ) -> "Campaign":
        x = subject.batch.images
        measured = measured_by(subject.f, config)
        problem = Problem(
            subject.attribution,
            measured,
            guide(subject.f, measured, config),
            x,
            subject.target,
            subject.draws,
            Ball.around(x, config.perturbation.delta_norm, eps, subject.batch.within),
            chunk=max(1, -(-len(x) // 2)),  # the graph of the bounds stays in memory meanwhile
            map_shape=subject.map_shape,
        )
        return Campaign(subject, bounded, config, target_map, problem, Reference.of(problem))

    @property
    def k(self) -> int:
        return self.config.largest.of(prod(self.problem.shape))

    @property
    def sight(self) -> Sight:
        """The samples as metrics of one map see them."""
        problem, norm = self.problem, self.problem.ball.norm
        return Sight(
            f=measured_by(self.subject.f, self.config),
            guide=self.subject.f,
            attribution=problem.attribution,
            batch=self.subject.batch,
            target=problem.target,
            predicted=self.reference.label,
            g=self.reference.map,
            draws=problem.draws,
            norm=norm,
            eps=(problem.ball.eps,),
            chunk=problem.chunk,
        )

    def run(self) -> dict[str, Attacked]:
        """The attacks on maps that were asked for, the random search, and what `worst` needs."""
        names = [name for name in self.config.attacking.on_maps if name not in ("random", WORST)]
        if WORST in self.config.attacking.attack:
            names += [name for name in untargeted(self.problem.shape) if name not in ("random", *names)]
        found = {name: self._attacked(self._made(name), self._starts(name)) for name in names}
        if self.config.attacking.random_draws and {"random", WORST} & set(self.config.attacking.attack):
            found["random"] = self._searched(self._made("random")) if self.config.attacking.keep else self.sampled
        if WORST in self.config.attacking.attack:
            found[WORST] = self.worst(found)
        return found

    def freed(self, found: dict[str, Attacked]) -> dict[str, Attacked]:
        """The same attacks where the label may change; what they found that keep it counts too."""
        free = replace(self, problem=replace(self.problem, keeps_label=False)).run()
        return {name: best_of([found[name], free[name]]) for name in self.config.attacking.attack}

    def _made(self, name: str) -> Attack:
        config, betas = self.config, self.config.attacking.betas()
        step_size = config.attacking.step_size
        if step_size is None and betas is not None and betas[0] != betas[1]:
            step_size = None if ATTACKS.member(name).targeted else WANDERING_STEP * self.problem.ball.eps
        own = {"step_size": step_size, "k": self.k, "target_map": self.target_map}
        return self._scored(ATTACKS.make(name, **{**vars(config.attacking), **own}))

    def _scored(self, attack: Attack) -> Attack:
        """The best iterate is chosen by --keep where that is given."""
        keep = self.config.attacking.keep
        return Scored(attack, keep, self.k) if keep else attack

    def _attacked(self, attack: Attack, starts: Float[Tensor, "s b n"]) -> Attacked:
        return ascend(attack, self.problem, self.reference, starts, steps=self.config.attacking.steps)

    @cached_property
    def sampled(self) -> Attacked:
        """The random draw with the largest deviation."""
        return self._searched(RandomSearch())

    def _searched(self, search: Attack) -> Attacked:
        """The best of the random draws by the search's score."""
        start = self.problem.ball.random(self.problem.draws, "random-search-0")[None]
        return ascend(search, self.problem, self.reference, start, steps=self.config.attacking.random_draws - 1)

    def _starts(self, name: str) -> Float[Tensor, "s b n"]:
        """Both signs of the bound's worst perturbation, random points and the best sampled one; a targeted attack begins at x."""
        ball, leading = self.problem.ball, self.bounded.leading
        if name in ATTACKS and ATTACKS.member(name).targeted:
            return torch.zeros_like(ball.low)[None]
        random = [ball.random(self.problem.draws, f"start-{i}") for i in range(self.config.attacking.restarts)]
        if self.config.attacking.random_draws:  # so that no deviation that sampling finds is missed
            random.append(self.sampled.delta)
        if not (leading or random):
            random.append(ball.random(self.problem.draws, "start-0"))
        return torch.stack([*(ball.eps * w for w in leading), *random])

    def worst(self, found: dict[str, Attacked]) -> Attacked:
        """The best of all attacks on each sample by the Euclidean deviation, or by --keep: all untargeted ones, one more with
        fixed steps, and the points that these found climbed once more.
        """
        judge = self._made("euclidean")
        tried = [self._rescored(judge, found[name]) for name in untargeted(self.problem.shape) if name in found]
        wandering = EuclideanAttack(step_size=WANDERING_STEP * self.problem.ball.eps)
        tried.append(self._attacked(self._scored(wandering), self._starts(WORST)))
        tried.append(self._attacked(judge, torch.stack([one.delta for one in tried])))
        return best_of(tried)

    def _rescored(self, judge: Attack, one: Attacked) -> Attacked:
        return replace(one, score=scored(judge, one.map, self.reference, self.problem.shape))

    def kept(self, found: dict[str, Attacked]) -> dict[str, Tensor]:
        """The perturbations by name, and what a picture of them needs: input and map, and the map that each attack made."""
        kept: dict[str, Tensor] = {}
        inputs, maps = tuple(self.problem.x.shape[1:]), self.problem.shape
        for i, index in enumerate(self.subject.batch.indices):
            for name in self.config.attacking.tried:
                case, one = (index, self.problem.ball.eps, name), found[name]
                kept |= {delta_key(*case): one.delta[i].view(inputs), moved_map_key(*case): one.map[i].view(maps)}
            kept |= {input_key(index): self.problem.x[i], map_key(index): self.reference.map[i].view(maps)}
        return {name: tensor.cpu() for name, tensor in kept.items()}


def measured_by(f: Classifier, config: AttackConfig) -> Classifier:
    """The model whose maps count: the twin, or the network as it is."""
    return f if config.attacking.measure_on == "twin" else f.original()


def guide(f: Classifier, measured: Classifier, config: AttackConfig) -> Callable[[float], Logits]:
    """The model that leads the way at a share t of the run: softplus betas grow geometrically [dombrowski2019explanations]."""
    betas = config.attacking.betas()
    if betas is None:
        return lambda t: f
    first, last = betas
    return lambda t: replace(f, beta=first * (last / first) ** t)
