"""|J delta|_2 <= xi_max |delta|_2, and d^(1/2-1/p) xi_max |delta|_p for p > 2 [wang2023practical, Theorem 1 and
Corollary 1].

First order: it bounds the linearised attribution. The true attribution can move further, and under attack it does.

Departures: xi_max is reported as an enclosure. A Ritz value, which is what iterative solvers return, lies below
xi_max, and a small residual does not bound it from above; `linalg.enclosure` does, with a stated probability.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.first_order.enclosed import FirstOrder, spectral
from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.types import LinearMap
from attrcert.vocabulary import Norm

PURPOSE = "l2"  # of the draws that the solver starts from


@dataclass(frozen=True)
class L2Spectral:
    """The bound for l2, and through l2 for any lp; `first` is J times the normal vector of PURPOSE, where that is known already."""

    norm: Norm
    solver: TopSingularValue = TopSingularValue()
    first: Float[Tensor, "b m"] | None = None

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder:
        return spectral(self.solver(J, draws, purpose=PURPOSE, first=self.first), self.norm, "spectral")
