"""The cosine criterion of robustness, CRC(delta) = (1 - cos(g(x), g(x + delta))) / 2, beside its bounds [joo2023towards, Theorem 6].

The criterion is the largest over random points of the ball and both ends of the worst direction of the linearised map. There, with
D = g(x + delta) - g(x):

    published: |J delta| / |g(x + delta)|, which is the paper's Figure 3b. The theorem adds a remainder of second order, and so is CRC:
        without it this bounds nothing (x_1 + 100 x_2^3 at 0 along x_2: the figure is 0, CRC is .1 at eps .05);
    bound: (1 - sqrt(1 - r^2)) / 2, r = |D| / max(|g(x)|, |g(x + delta)|) < 1, which holds: two vectors whose difference is the share r of
        the longer one are at most asin(r) apart.

Over the whole ball the second form holds with r = T / |g(x)| for any bound T of |D|: T_e gives a first-order figure, T_proved a proved one.

delta may leave the input range, as bounds allow. What rounding alone may make of the criterion is taken off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float64
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.metrics.metric import cells_of, measurable
from attrcert.scores.local_robustness import length
from attrcert.scores.sight import Cells, CurvedSight, Score, Sight
from attrcert.types import Figures


@dataclass(frozen=True)
class CosineCriterion(Score):
    """(1 - cosine) / 2 at the worst perturbation found, and what bounds it: the paper's first-order form and the one that holds."""

    random_draws: int = 10

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        assert isinstance(seen, CurvedSight)
        return [self._within(eps, seen) for eps in seen.eps]

    def _within(self, eps: float, seen: CurvedSight) -> Cells:
        ball, b = Ball.whole(seen.x, seen.norm, eps), len(seen.x)
        worst = eps * seen.worst.direction
        random = (ball.random(seen.draws, f"crc-{j}") for j in range(self.random_draws))
        found = torch.stack([_figures(delta, seen) for delta in chain((worst, -worst), random)])
        largest = found[:, :, 0].nan_to_num(nan=-1.0).argmax(dim=0)
        reached, published, bound = found[largest, torch.arange(b)].unbind(dim=1)
        proved = seen.proved.get(eps)
        return {
            "crc": cells_of(reached, b),
            "crc_published": cells_of(published, b),
            "crc_bound": cells_of(bound, b),
            "crc_first_order": cells_of(most(eps * seen.worst.upper.cpu() / length(seen.g)), b),
            "crc_proved": cells_of(None if proved is None else most((proved.upper / proved.length).cpu()), b),
            "status": seen.status,
        }


def most(share: Figures) -> Figures:
    """The largest criterion of two vectors whose difference is that share of the longer one; NaN where that is all of it."""
    # (1 - sqrt(1 - r^2)) / 2 without cancellation
    return torch.where(share < 1, share**2 / (2 * (1 + (1 - share**2).clamp_min(0).sqrt())), torch.nan)


def criterion(g: Float64[Tensor, "b m"], moved: Float64[Tensor, "b m"]) -> Figures:
    """(1 - cos) / 2 by the distance of the two directions, which is exact for small angles too; NaN for a zero map."""
    return (g / length(g)[:, None] - moved / length(moved)[:, None]).square().sum(dim=1) / 4


def _figures(delta: Tensor, seen: CurvedSight) -> Float64[Tensor, "b figures"]:
    """The criterion at delta, without what rounding may add to it, the published figure and the bound."""
    g, moved = measurable(seen.g), measurable(seen.maps(delta))
    apart = 2 * criterion(g, moved).sqrt() - seen.noise / torch.minimum(length(g), length(moved))
    linear = length(seen.jacobian.matvec(delta)) / length(moved)
    share = length(moved - g) / torch.maximum(length(g), length(moved))
    return torch.stack([apart.clamp_min(0.0).square() / 4, linear, most(share)], dim=1)
