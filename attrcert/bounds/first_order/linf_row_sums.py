"""max |J s|_2 over |s|_inf <= 1 is at most sqrt(sum_ij |P_ij|), P = J^T J [wang2023practical, Theorem 2].

Deterministic for the linearised attribution, but it needs every column of J: d products and d^2 numbers a sample, or 2 d products
where these do not fit.

Departures: the paper's P is J J^T for attributions with a non-symmetric Jacobian; that is not a bound. Nor is the
bound attained in general, as the paper says: P = [[2,-1,-1],[-1,2,-1],[-1,-1,2]] gives 3.46 where the maximum is
2.83.
"""

from dataclasses import dataclass

from attrcert.bounds.first_order.enclosed import FirstOrder
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.linalg.enclosure import ROUNDING
from attrcert.linalg.row_sums import products_a_sample, root_of_absolute_gram
from attrcert.linalg.signs import sign_ascent
from attrcert.types import LinearMap

MATRIX_BYTES = 1 << 30


@dataclass(frozen=True)
class LinfRowSums:
    """Holds matrices of at most `memory` bytes at a time; `copies` columns of a sample are multiplied together."""

    memory: int = MATRIX_BYTES
    sign_starts: int = 3
    rounding: float | None = None
    copies: int = 1

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder:
        n = J.shape[2]
        upper = root_of_absolute_gram(J, memory=self.memory, copies=self.copies)
        lower, signs = sign_ascent(
            J, draws.normal("rounding", self.sign_starts, n, like=J).transpose(0, 1), copies=self.copies
        )
        allowance = ROUNDING[J.dtype] if self.rounding is None else self.rounding
        return FirstOrder(
            upper=upper.cpu() * (1 + allowance),
            lower=lower.cpu() * (1 - allowance),
            direction=signs,
            failure=0.0,
            method="row-sums",
        )


def check_hours(n: int, itemsize: int, *, seconds: float, points: int, samples: int, hours: float) -> None:
    """Refuse, with the numbers, what would take longer than `hours` at so many seconds a product and point."""
    products = products_a_sample(n, n, itemsize, memory=MATRIX_BYTES)
    needed = products * points * samples * seconds / 3600
    if needed > hours:
        raise UsageError(
            f"row sums take {products:,} products a sample, about {needed:.3g} hours for {samples} samples of d = {n}; "
            f"--max-hours allows {hours:g}",
            hint="use --linf-method scaled, which is tighter and takes a few hundred, or fewer samples",
        )
