"""The largest eigenvalue of S = mean of (X_i - m)(X_i - m)^T from above, in memory that does not grow with the number of vectors.

While they fit, the vectors are kept and S is enclosed by Lanczos, whose upper end fails with a stated probability. Where they do not, they
are sketched by Frequent Directions [ghashami2016frequent]: of 2 l rows the l largest singular values are kept, their squares less delta,
the largest square that goes. Then sum of X X^T <= sketch + delta I, and what was taken away is added to the upper end.
"""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.linalg.maps import Dense

SKETCH = 512  # rows of a sketch, half of which stay when it is full
SLACK = 0.002  # of the singular value: a tenth of a percent of eps
SETTLED = 0.01  # the lower end is not used
ROUNDING = 1e-5  # relative: what single precision may do to products and the sketch
WRITTEN = 4e-7  # to a vector, where a unit vector less another is written in single precision


class Scatter:
    """Rows of several samples, kept in single precision or sketched; `size` of them fit."""

    def __init__(self, samples: int, n: int, size: int, *, device: torch.device) -> None:
        self._rows = torch.empty(samples, size, n, device=device)
        self._taken = torch.zeros(samples, dtype=torch.float64, device=device)
        self._filled = 0
        self._most = max(1, size - size // 2)  # vectors for which there is room after halving
        self.count = 0

    def add(self, rows: Float[Tensor, "b m n"]) -> None:
        """m more vectors of each sample, of entries that single precision can hold."""
        while rows.shape[1]:
            m = min(rows.shape[1], (self._rows.shape[1] - self._filled) or self._most)
            self.room(m)[:], rows = rows[:, :m], rows[:, m:]

    def room(self, m: int) -> Float[Tensor, "b m n"]:
        """Where the next m vectors of each sample, of length 2 at most, are to be written; each may be off by WRITTEN."""
        if self._filled + m > self._rows.shape[1]:
            assert m <= self._most, "no more than half of what fits at once"
            self._shrink()
        self._filled, self.count = self._filled + m, self.count + m
        return self._rows[:, self._filled - m : self._filled]

    def top(self, draws: Draws, failure: float) -> Float64[Tensor, " b"]:
        """lambda_max(S), from above but for `failure`."""
        if not self.count:
            return torch.zeros(len(self._rows), dtype=torch.float64)
        solver = TopSingularValue(slack=SLACK, failure=failure, settled=SETTLED)
        upper = [  # one after the other: together they would leave the cache
            solver(Dense(rows[None, : self._filled]), Draws(draws.seed, (index,)), purpose="covariance").upper
            for index, rows in zip(draws.indices, self._rows, strict=True)
        ]
        square = (torch.cat(upper).double().square() + self._taken.cpu()) / self.count * (1 + ROUNDING)
        return (square.sqrt() + WRITTEN).square()

    @property
    def kept(self) -> Float[Tensor, "b m n"] | None:
        """The vectors themselves, unless they were sketched."""
        return self._rows[:, : self._filled] if self._filled == self.count else None

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        self._rows, self._taken = self._rows[keep], self._taken[keep]

    def _shrink(self) -> None:
        """Half of the rows, which span the largest directions of all."""
        kept, rows = self._rows.shape[1] // 2, self._rows[:, : self._filled]
        squares, directions = torch.linalg.eigh((rows @ rows.mT).double())
        largest, delta = squares[:, -kept:].clamp_min(0), squares[:, -kept - 1].clamp_min(0)
        scale = ((largest - delta[:, None]).clamp_min(0) / largest.clamp_min(1e-300)).sqrt()
        mixed = (directions[:, :, -kept:] * scale[:, None]).mT.to(self._rows.dtype)
        self._rows[:, :kept] = mixed @ rows
        self._taken += delta
        self._filled = kept
