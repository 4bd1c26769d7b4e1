"""What the bounds have in common: an enclosure of max |J delta|_2 over the unit ball of a norm."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.types import Enclosure, LinearMap
from attrcert.vocabulary import Norm, SolverStatus


@dataclass(frozen=True)
class FirstOrder:
    """lower <= max |J delta|_2 over the unit ball <= upper; `direction` is in the unit ball and attains lower.

    The upper end fails with probability at most `failure`; `method` names the theorem; `solution` is the
    solver's enclosure and `scaling` the diagonal D (linf), where there are any.
    """

    upper: Float[Tensor, " b"]
    lower: Float[Tensor, " b"]
    direction: Float[Tensor, "b n"]
    failure: float
    method: str
    solution: Enclosure | None = None
    scaling: Float[Tensor, "b n"] | None = None

    def off_by(self, product: Float[Tensor, " b"], norm: Norm, slack: float) -> "FirstOrder":
        """The same where J is off by at most `product` in spectral norm; a solution that is then wider than `slack` says so."""
        most = product * norm.l2_factor(self.direction.shape[1])  # of |E delta|_2 over the unit ball
        solution = self.solution
        if solution is not None:
            status = tuple(
                SolverStatus.ROUNDING if lost and one is not SolverStatus.STEP_LIMIT else one
                for one, lost in zip(solution.status, (most > slack * self.lower).tolist(), strict=True)
            )
            lower, upper = (solution.lower - product).clamp_min(0.0), solution.upper + product
            solution = replace(solution, lower=lower, upper=upper, status=status)
        lower, upper = (self.lower - most).clamp_min(0.0), self.upper + most
        return replace(self, lower=lower, upper=upper, solution=solution)

    def select(self, keep: Int64[Tensor, " kept"]) -> "FirstOrder":
        """Some of the samples, without the solver's own account of them."""
        host = keep.cpu()
        return FirstOrder(
            upper=self.upper[host],
            lower=self.lower[host],
            direction=self.direction[keep],
            failure=self.failure,
            method=self.method,
            scaling=None if self.scaling is None else self.scaling[keep],
        )


class Certifier(Protocol):
    """A theorem that bounds the linearised attribution over a norm's unit ball."""

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder: ...


def spectral(solution: Enclosure, norm: Norm, method: str) -> FirstOrder:
    """From xi_max to the unit ball of an lp norm: d^(1/2-1/p) xi_max, attained only where p = 2."""
    v = solution.vector
    reach = v.norm(p=norm.p, dim=1).clamp_min(torch.finfo(v.dtype).tiny)  # v / reach is on the norm's unit sphere
    return FirstOrder(
        upper=solution.upper * norm.l2_factor(v.shape[1]),
        lower=solution.lower / reach.double().cpu(),
        direction=v / reach[:, None],
        failure=solution.failure,
        method=method,
        solution=solution,
    )


def best_of(found: Sequence[FirstOrder]) -> FirstOrder:
    """Each sample's smallest upper and largest lower bound; the failure probabilities add up."""
    best = found[0]
    for other in found[1:]:
        larger = (other.lower > best.lower).to(best.direction.device)
        best = FirstOrder(
            upper=torch.minimum(best.upper, other.upper),
            lower=torch.maximum(best.lower, other.lower),
            direction=torch.where(larger[:, None], other.direction, best.direction),
            failure=best.failure + other.failure,
            method="best",
            scaling=best.scaling if best.scaling is not None else other.scaling,
        )
    return best
