"""Insertion in the order of an attacked map: does a map that an attack has turned into a frame still find what matters? [joo2023towards]

The map at x + delta ranks the pixels, and pixels of x itself are put in. delta comes from `attacks.manipulate`, aimed at a frame, by Adam,
within the ball and the input range, and keeps the label.

Departures: published code keeps the last iterate, whatever label it has; here it is the best that keeps the label. The attack holds
probabilities, not logits. ReLUs run as softplus where derivatives lead the way, and as they are where maps are measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attrcert.ascent.balls import Ball
from attrcert.ascent.loop import Reference, ascend
from attrcert.attacks.manipulate import Manipulate, frame
from attrcert.errors import UsageError
from attrcert.networks.classifier import Classifier
from attrcert.scores.insertion import Exchange
from attrcert.scores.sight import Cells, Sight
from attrcert.types import Inputs
from attrcert.vocabulary import Status


@dataclass(frozen=True)
class AdversarialInsertion(Exchange):
    """Insertion in the order of the map at an attacked input: the area with pixels of the clean one."""

    steps: int = 100
    map_weight: float = 0.5
    output_weight: float = 0.5

    def check(self, f: Classifier, x: Inputs, maps: tuple[int, ...]) -> None:
        super().check(f, x, maps)
        if len(maps) != 3:
            raise UsageError(f"adv-insertion needs maps with channels, height and width, got maps of shape {maps}")

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        return [self._within(ball, seen) for ball in seen.balls]

    def _within(self, ball: Ball, seen: Sight) -> Cells:
        attack = Manipulate(frame(seen.shape, like=seen.x), self.map_weight, self.output_weight)
        problem = seen.problem(ball)
        still = torch.zeros_like(ball.low)[None]
        reached = ascend(attack, problem, Reference.of(problem), still, steps=self.steps)
        kept = [(Status.OK if found else Status.LABEL_CHANGED).value for found in reached.found.tolist()]
        return {**self.along(seen, reached.map, into=True).cells("adv_insertion"), "status": kept}
