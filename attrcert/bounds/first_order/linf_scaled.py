"""max |J s|_2 over |s|_inf <= 1 is at most sqrt(lambda_max(D^-1/2 P D^-1/2) sum_i D_i), P = J^T J, any diagonal D > 0.

At the best D it is at most sqrt(pi/2) above the maximum [nesterov1998semidefinite], and never above the row sums of
wang2023practical's Theorem 2, which is what Gershgorin's circles give for D_i = sum_j |P_ij|. It needs products with J
only. D is found by `linalg.scaling`; lambda_max is then enclosed with a fresh random start, so that the failure
probability is that of one enclosure. First order: it bounds the linearised attribution.
"""

from dataclasses import dataclass, replace

import torch

from attrcert.bounds.first_order.enclosed import FirstOrder
from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.linalg.maps import ColumnScaled
from attrcert.linalg.scaling import DiagonalScaling
from attrcert.linalg.signs import ROUNDS, sign_ascent
from attrcert.types import LinearMap

SETTLED = 0.02  # the solution's lower end is not used
MOST = 64  # rounds or starts
RACE = 2  # rounds of sign iteration, which gain nearly all


@dataclass(frozen=True)
class LinfScaled:
    """Upper bound by the scaling, lower bound by sign iteration from the scaling's own rows.

    Where products are cheap, on inputs of fewer than `small` entries, the search gets as many more rounds and sign iteration, which has
    many fixed points, as many more starts, up to 64. `copies` vectors of a sample are multiplied together, where there is room for
    their graphs.
    """

    solver: TopSingularValue = TopSingularValue()
    search: DiagonalScaling = DiagonalScaling()
    sign_starts: int = 2
    small: int = 2048
    copies: int = 1

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder:
        cheap = self.small // J.shape[2]
        search = replace(self.search, rounds=max(self.search.rounds, min(MOST, cheap)), copies=self.copies)
        D, V = search(J, draws)
        solver = replace(self.solver, settled=SETTLED)
        solution = solver(ColumnScaled(J, D.rsqrt()), draws, purpose="linf-scaled")
        count = max(self.sign_starts, min(MOST, cheap))
        z = draws.normal("rounding", count, V.shape[1], like=J)
        starts = torch.einsum("bsm,bmn->sbn", z, V)
        worst = solution.vector * D.rsqrt()
        race = RACE if count == self.sign_starts else ROUNDS
        lower, signs = sign_ascent(J, torch.cat([starts, worst[None]]), race=race, copies=self.copies)
        return FirstOrder(
            upper=solution.upper * D.sum(dim=1, dtype=torch.float64).sqrt().cpu(),
            lower=lower.cpu() * (1 - self.solver.allowance(J.dtype)),
            direction=signs,
            failure=solution.failure,
            method="scaled",
            solution=solution,
            scaling=D,
        )
