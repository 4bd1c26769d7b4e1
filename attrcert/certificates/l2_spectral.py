"""|J delta|_2 <= xi_max |delta|_2, and d^(1/2-1/p) xi_max |delta|_p for p > 2 [wang2023practical, Theorem 1 and
Corollary 1].

First order: it bounds the linearised attribution. The true attribution can move further, and under attack it does.

Departures: xi_max is reported as an enclosure. A Ritz value, which is what iterative solvers return, lies below
xi_max, and a small residual does not bound it from above; `linalg.enclosure` does, with a stated probability.
"""

from dataclasses import dataclass

from attrcert.certificates.first_order import FirstOrder
from attrcert.linalg.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.types import LinearMap
from attrcert.vocabulary import Norm


@dataclass(frozen=True)
class L2Spectral:
    """The bound for l2, and through l2 for any lp."""

    norm: Norm
    solver: TopSingularValue = TopSingularValue()

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder:
        solution = self.solver(J, draws, purpose="l2")
        v = solution.vector
        reach = v.norm(p=self.norm.p, dim=1).clamp_min(1e-30)  # v / reach lies on the unit sphere of the norm
        return FirstOrder(
            upper=solution.upper * self.norm.l2_factor(J.shape[2]),
            lower=solution.lower / reach.cpu().double(),
            direction=v / reach[:, None],
            failure=solution.failure,
            method=("spectral",) * J.shape[0],
            solution=solution,
        )
