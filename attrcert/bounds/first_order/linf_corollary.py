"""max |J s|_2 over |s|_inf <= 1 is at most sqrt(d) xi_max [wang2023practical, Corollary 1 with p = infinity].

The scaled bound with D = I: cheap, and the loosest of the three.
"""

from dataclasses import dataclass

from attrcert.bounds.first_order.enclosed import FirstOrder
from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.linalg.signs import sign_ascent
from attrcert.types import LinearMap


@dataclass(frozen=True)
class LinfCorollary:
    """The spectral bound in the cube's circumscribed ball; lower bound by sign iteration from the singular vector."""

    solver: TopSingularValue = TopSingularValue()

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder:
        solution = self.solver(J, draws, purpose="linf-corollary")
        lower, signs = sign_ascent(J, solution.vector[None])
        return FirstOrder(
            upper=solution.upper * J.shape[2] ** 0.5,
            lower=lower.cpu() * (1 - self.solver.allowance(J.dtype)),
            direction=signs,
            failure=solution.failure,
            method="corollary",
            solution=solution,
        )
