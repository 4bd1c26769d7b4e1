"""How alike the map stays when the input is perturbed at random: random-perturbation similarity (RPS) [joo2023towards].

The mean similarity of h(x) and h(x + z) over draws of z, uniform in the ball (linf: each pixel uniform in +-eps), with x + z clipped to the
input range; h is |g| summed over channels, divided by its maximum. Similarities: cosine, Pearson's correlation, and the structural one,
with windows of 7 x 7 pixels weighted by a Gaussian of sigma 1.5.

Departures: published code takes the pixels' standard deviation of CIFAR-10 for all data sets, and divides h(x) by its sum before each
further draw, which changes the structural similarity; there maps are padded by zeros, and here windows lie inside.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attrcert.ascent.balls import Ball
from attrcert.metrics.cosine import Cosine
from attrcert.metrics.metric import Metric, cells_of
from attrcert.metrics.pearson import Pearson
from attrcert.metrics.ssim import SSIM
from attrcert.scores.sight import Cells, Score, Sight, mass
from attrcert.types import Figures

SIMILARITIES: dict[str, Metric] = {"rps_cosine": Cosine(), "rps_pearson": Pearson(), "rps_ssim": SSIM(sigma=1.5)}


@dataclass(frozen=True)
class PerturbationSimilarity(Score):
    """The mean similarity of the maps at x and at random points of the ball: cosine, Pearson, SSIM."""

    random_draws: int = 10

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        return [self._within(ball, seen) for ball in seen.balls]

    def _within(self, ball: Ball, seen: Sight) -> Cells:
        still = mass(seen.g, seen.shape)
        shape, found = (1, *still.shape[1:]), dict[str, list[Figures | None]]()
        for j in range(self.random_draws):
            moved = mass(seen.maps(ball.random(seen.draws, f"rps-{j}")), seen.shape)
            for name, similarity in SIMILARITIES.items():
                found.setdefault(name, []).append(similarity(moved.flatten(1), still.flatten(1), shape))
        return {name: cells_of(_mean(figures), len(still)) for name, figures in found.items()}


def _mean(figures: Sequence[Figures | None]) -> Figures | None:
    """Over the draws, where the similarity applies to such maps."""
    applying = [one for one in figures if one is not None]
    return torch.stack(applying).mean(dim=0) if applying else None
