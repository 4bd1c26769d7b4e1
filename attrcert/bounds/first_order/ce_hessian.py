"""xi_max of the cross-entropy Hessian of a ReLU network, exactly, from a k x k matrix [wang2020smoothed, Proposition
3].

F F^T (d x d) and F^T F (k x k) have the same top eigenvalue; with u the eigenvector of the latter, F u / |F u| is
that of the former. No iteration and no random start: exact up to rounding, for the linearised attribution inside one
linear region.
"""

from dataclasses import dataclass

import torch

from attrcert.bounds.first_order.enclosed import FirstOrder, spectral
from attrcert.draws import Draws
from attrcert.linalg.enclosure import ROUNDING
from attrcert.linalg.maps import LowRank
from attrcert.types import Enclosure, LinearMap
from attrcert.vocabulary import Norm, SolverStatus


@dataclass(frozen=True)
class CrossEntropyHessian:
    """The spectral bound of a map that is known as F F^T."""

    norm: Norm

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder:
        assert isinstance(J, LowRank)
        factor = J.factor.double()
        values, vectors = torch.linalg.eigh(factor.mT @ factor)
        top = values[:, -1].clamp_min(0)
        v = torch.nn.functional.normalize((factor @ vectors[:, :, -1:])[:, :, 0], dim=1).to(J.dtype)
        allowance, b = ROUNDING[J.dtype], J.shape[0]
        solution = Enclosure(
            lower=(top * (1 - allowance)).cpu(),
            upper=(top * (1 + allowance)).cpu(),
            failure=0.0,
            status=(SolverStatus.EXHAUSTED,) * b,
            vector=v,
            steps=torch.zeros(b, dtype=torch.int64),
            residual=torch.zeros(b, dtype=torch.float64),
        )
        return spectral(solution, self.norm, "gram")
