"""How far the attribution can move, estimated over the whole ball: eps times the largest gain found in it.

By the mean-value inequality |g(x + d) - g(x)|_2 <= eps sup |J(z) w|_2 over the z of the ball (of the segment from x to x + d)
and the unit w of the norm. The supremum over w at a given z is refined from a nearby z's w: by a short Lanczos run from it (l2) or
by sign iteration (linf). The z climb: the gradient of u^T J(z) w in z is the derivative of J(z)^T u along w, taken as a central
difference, which any attribution allows.

Guarantee: `corrected`. A search finds local maxima; what it finds is a lower bound of the supremum, scaled by the gap that the
enclosure at x left.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.ascent.steps import Adaptive, Climber, Iterate
from attrcert.bounds.first_order.enclosed import FirstOrder
from attrcert.linalg.signs import sign_ascent
from attrcert.linalg.warm import warm_singular_value
from attrcert.types import LinearMap
from attrcert.vocabulary import NormKind

JacobianAt = Callable[[Float[Tensor, "b n"]], LinearMap]


@dataclass(frozen=True)
class BallSearch:
    """`rounds` of ascent from x and from both signs of the worst perturbation at x; `refinements` products per refinement of w.

    The difference quotient spans `span` eps to either side: the bend that matters is the one across the ball.
    """

    rounds: int = 5
    refinements: int = 3
    span: float = 0.05

    def __call__(self, J: JacobianAt, ball: Ball, worst: FirstOrder) -> Float[Tensor, " b"]:
        """The largest gain |J(z) w|_2 found over the ball."""
        w = worst.direction
        starts = (torch.zeros_like(w), ball.eps * w, -ball.eps * w)
        return torch.stack([self._climb(J, ball, start, w) for start in starts]).amax(dim=0)

    def along(self, J: JacobianAt, ball: Ball, delta: Float[Tensor, "b n"], *, points: int = 8) -> Float[Tensor, " b"]:
        """The largest gain found on the segment from x to x + delta, with delta itself among the w."""
        size = delta.norm(p=ball.norm.p, dim=1, keepdim=True)
        w = delta / size.clamp_min(torch.finfo(delta.dtype).tiny)
        gains = [self._refined(J((i + 0.5) / points * delta), ball, w)[0] for i in range(points)]
        return torch.stack(gains).amax(dim=0)

    def _climb(self, J: JacobianAt, ball: Ball, z: Tensor, w: Tensor) -> Float[Tensor, " b"]:
        stepper = Climber(Adaptive(first=0.5, longest=2.0), ball)
        z = ball.project(z)
        best = torch.zeros_like(z[:, 0], dtype=torch.float64)
        for round_ in range(self.rounds):
            gain, w, u = self._refined(J(z), ball, w)
            best = torch.maximum(best, gain)
            if round_ == self.rounds - 1:
                break
            h = self.span * ball.eps
            gradient = J(z + h * w).rmatvec(u) - J(z - h * w).rmatvec(u)
            proposed, _ = stepper.next(Iterate(z, gain, gradient, torch.ones_like(gain, dtype=torch.bool)))
            z = ball.project(proposed)
        return best

    def _refined(self, J: LinearMap, ball: Ball, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """|J w|_2, w and the unit vector along J w, from a start for w."""
        if ball.norm.kind is NormKind.LINF:
            # w need not be a corner; the corner sign(P w) does at least as well
            gain, w = sign_ascent(J, J.rmatvec(J.matvec(w))[None], max_rounds=self.refinements)
            image = J.matvec(w)
            return gain, w, torch.nn.functional.normalize(image, dim=1)
        return warm_singular_value(J, w, products=self.refinements)
