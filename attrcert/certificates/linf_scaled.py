"""max |J s|_2 over |s|_inf <= 1 is at most sqrt(lambda_max(D^-1/2 P D^-1/2) sum_i D_i), P = J^T J, any diagonal D > 0.

At the best D it is at most sqrt(pi/2) above the maximum [nesterov1998semidefinite], and never above the row sums of
wang2023practical's Theorem 2, which is what Gershgorin's circles give for D_i = sum_j |P_ij|. It needs products with J
only. D is found by `linalg.scaling`, which also says below what no D can go: where the certified bound is further than `gap`
above that, the search goes on, more patiently.

Each lambda_max is enclosed with a fresh random start at failure / `attempts`, so that the best of them fails with
probability at most `failure`. First order: it bounds the linearised attribution.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.certificates.first_order import FirstOrder
from attrcert.linalg.draws import Draws
from attrcert.linalg.enclosure import ROUNDING, TopSingularValue
from attrcert.linalg.maps import ColumnScaled
from attrcert.linalg.scaling import DiagonalScaling, Scaling
from attrcert.linalg.signs import sign_ascent
from attrcert.types import Enclosure, LinearMap


@dataclass(frozen=True)
class LinfScaled:
    """Upper bound by the scaling, lower bound by sign iteration from the scaling's own rows."""

    solver: TopSingularValue = TopSingularValue()
    search: DiagonalScaling = DiagonalScaling()
    attempts: int = 3
    tolerance: float = 1.5e-3
    patience: float = 30.0
    gap: float = 0.03
    sign_starts: int = 4

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder:
        found = self._certified(J, draws, self.search.start(J, draws), attempt=0)
        z = draws.normal("rounding", self.sign_starts, self.search.columns, like=J)
        starts = torch.einsum("bsm,bmn->sbn", z, found.scaling.V)
        worst = found.solution.vector * found.scaling.D.rsqrt()
        lower, signs = sign_ascent(J, torch.cat([starts, worst[None]]))
        return FirstOrder(
            upper=found.upper,
            lower=lower.cpu() * (1 - ROUNDING[J.dtype]),
            direction=signs,
            failure=self.solver.failure,
            method=("scaled",) * J.shape[0],
            solution=found.solution,
            scaling=found.scaling.D,
        )

    def _certified(self, J: LinearMap, draws: Draws, V: Float[Tensor, "b m n"], *, attempt: int) -> "_Certified":
        scaling = self.search(J, V, tolerance=self.tolerance / self.patience**attempt)
        solver = replace(self.solver, failure=self.solver.failure / self.attempts)
        solution = solver(ColumnScaled(J, scaling.D.rsqrt()), draws, purpose=f"linf-scaled/{attempt}")
        found = _Certified(scaling, solution)
        loose = (found.upper > (1 + self.gap) * scaling.reached.cpu()).nonzero()[:, 0]
        if attempt + 1 == self.attempts or not len(loose):
            return found
        again = self._certified(
            J.select(loose.to(J.device)), draws.select(loose), scaling.V[loose.to(J.device)], attempt=attempt + 1
        )
        return _Certified(scaling.updated(loose, again.scaling), solution.updated(loose, again.solution))


@dataclass(frozen=True)
class _Certified:
    """A scaling and the enclosure of the scaled map's top singular value."""

    scaling: Scaling
    solution: Enclosure

    @property
    def upper(self) -> Float[Tensor, " b"]:
        return self.solution.upper * self.scaling.D.sum(dim=1, dtype=torch.float64).sqrt().cpu()
