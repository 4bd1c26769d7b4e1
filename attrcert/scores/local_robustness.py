"""How steep the map is near x: local robustness, lambda = max |g(x') - g(x)|_2 / |x' - x| over the ball [wang2020smoothed].

From below, by what is found: random points of the ball, the points that an ascent of |g(x') - g(x)| reaches, and the gain |J w|_2 of the
Jacobian at x in a unit direction, which is the quotient's limit at x. From above: the gain that is possible at x (first-order: elsewhere
in the ball it may be larger), the largest gain that a search of the ball finds (corrected), and a bound that holds (proved).

|x' - x| is in the norm of the ball. x' may leave the input range, as bounds allow. An ascent counts only iterates that keep the label.
What rounding alone may make of the difference of two maps is taken off first: a tiny perturbation would seem to move the map far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float

from attrcert.ascent.balls import Ball
from attrcert.ascent.loop import Reference, ascend
from attrcert.attacks.euclidean import EuclideanAttack
from attrcert.metrics.metric import cells_of
from attrcert.scores.sight import Cells, CurvedSight, Score, Sight
from attrcert.types import Figures, Flat


@dataclass(frozen=True)
class LocalRobustness(Score):
    """The largest change of the map for each unit of perturbation in the ball, from below and above."""

    random_draws: int = 10
    steps: int = 100

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        assert isinstance(seen, CurvedSight)
        return [self._within(eps, seen) for eps in seen.eps]

    def _within(self, eps: float, seen: CurvedSight) -> Cells:
        ball = Ball.whole(seen.x, seen.norm, eps)
        proved = seen.proved.get(eps)
        return {
            "robustness_lower": cells_of(self._found(ball, seen), len(seen.x)),
            "robustness_first_order": seen.worst.upper.tolist(),
            "robustness_ball": [limit / eps for limit in seen.ball_wide(eps)],
            "robustness_proved": cells_of(None if proved is None else proved.rate(eps), len(seen.x)),
            "status": seen.status,
        }

    def _found(self, ball: Ball, seen: CurvedSight) -> Figures:
        worst = ball.eps * seen.worst.direction
        random = (ball.random(seen.draws, f"robustness-{j}") for j in range(self.random_draws))
        problem, first = seen.problem(ball), next(random)
        starts = torch.stack([worst, -worst, first])
        reached = ascend(EuclideanAttack(), problem, Reference.of(problem), starts, steps=self.steps)
        quotients = [_quotient(delta, ball, seen) for delta in chain((*starts, reached.delta), random)]
        return torch.stack([seen.worst.lower.cpu(), *quotients]).amax(dim=0)


def _quotient(delta: Float[torch.Tensor, "b n"], ball: Ball, seen: CurvedSight) -> Figures:
    """Without what rounding may add to it: of the maps, and of x + delta, which lies elsewhere where delta is tiny."""
    there = (seen.x + delta.view_as(seen.x) - seen.x).flatten(1)
    size = torch.maximum(ball.size(delta), ball.size(there))
    moved = (length(seen.maps(delta) - seen.g) - seen.noise).clamp_min(0.0)
    return torch.where(size > 0, moved / size, 0.0)


def length(g: Flat) -> Figures:
    """|g|_2, in double precision."""
    return g.norm(dim=1, dtype=torch.float64).cpu()
