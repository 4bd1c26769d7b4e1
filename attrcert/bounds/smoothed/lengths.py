"""|h(x)| from below, h(x) = E g(x + eta) with |g| <= M, by draws of the noise eta [wang2024certified].

The draws of a sample come in chunks. The first ones, a tenth and a chunk at least, are a pilot that only fixes a first
direction and the bettor's first opinion; every later chunk is projected on the direction of the sum of all *earlier*
draws, so that each projection's mean is at most |h|. From the projections `statistics.confidence` gives a lower bound of
|h| at a stated failure, and `cosine_bounds` the cosine that h keeps within eps. Unit draws are shared by all
radii and scaled: the union bound over radii needs no more.

Only the attribution itself is evaluated, nothing is differentiated twice: ReLU networks are certified as they are.

Departures: the paper plugs |mean| in for |h| and a maximum over samples for M; neither is a bound. Both hold by construction here.
"""

from collections.abc import Callable, Sequence
from math import sqrt

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from attrcert.attributions.bounded import Bounding, unit, weighed
from attrcert.bounds.smoothed.scatter import Scatter
from attrcert.draws import Draws
from attrcert.statistics.confidence import Projections, bets_planned, pilot_size
from attrcert.statistics.generalised_chi_square import quantile

PROJECTION_ROUNDING = {
    torch.float64: 1e-12,
    torch.float32: 1e-6,
}  # of M: what rounding may do to a projection, or storing g
LARGE = 1e30  # weights that single precision holds without trouble


def unit_noise(
    kind: str, draws: Draws, purpose: str, m: int, *, like: Float[Tensor, "b n"], part: int | None = None
) -> Float[Tensor, "b m n"]:
    """Noise of radius or standard deviation 1: uniform in the l2 ball (a direction, and U^(1/d) as its length), or normal."""
    d = like.shape[1]
    normals = draws.normal(purpose, m, d, like=like, part=part)
    if kind == "gaussian":
        return normals
    uniform = torch.erf(draws.normal(f"{purpose}-length", m, 1, like=like, part=part).abs() / sqrt(2))
    return uniform ** (1 / d) * torch.nn.functional.normalize(normals, dim=2)


class Estimate:
    """What the draws of some samples at one radius have shown so far, summed and projected in double precision.

    With `rows` it also keeps, or sketches, that many draws less the pilot's mean, for the variance; with `errors` it knows the standard
    error of each entry.
    """

    def __init__(
        self,
        bounding: Bounding,
        M: Float[Tensor, " b"],
        looks: Sequence[int],
        *,
        fixed_direction: bool,
        like: Float[Tensor, "b n"],
        rows: int = 0,
        errors: bool = False,
    ) -> None:
        self._bounding, self._looks, self._fixed, self._errors = bounding, tuple(looks), fixed_direction, errors
        self._pilot = pilot_size(looks[0])
        self.M = M
        self.total = torch.zeros_like(like, dtype=torch.float64)
        self.squares = torch.zeros_like(like, dtype=torch.float64)
        self.direction = torch.zeros_like(like, dtype=torch.float64)
        self.centre = torch.zeros_like(like, dtype=torch.float64)
        self.largest = torch.zeros_like(M, dtype=torch.float64)
        self.count = 0
        # in one piece from the start: small tensors that stay between large ones that go would fragment the memory
        self._projected = self.total.new_zeros(len(like), looks[-1])
        self._room: Float64[Tensor, "b m n"] | None = (
            None  # of the newest draws, used again: new memory costs more than what is done in it
        )
        self._first = self.piloted = 0  # draws before there was a direction, and before the bets
        self.scatter = Scatter(like.shape[0], like.shape[1], rows, device=like.device) if rows else None

    def add(self, g: Float[Tensor, "b m n"]) -> None:
        """The attributions at m more draws; those that are not finite count as 0, which is bounded like any other."""
        if self._room is None or self._room.shape != g.shape:
            self._room = torch.empty_like(g, dtype=torch.float64)
        X, weights, sizes = weighed(g, self._bounding, self.M, self._room)
        limit, piloting = self.M.double()[:, None], self.count < self._pilot
        self.largest = torch.maximum(self.largest, (weights * sizes).amax(dim=1))
        projected = torch.bmm(self.direction[:, None], X.mT)[:, 0] * weights
        self._projected[:, self.count : self.count + X.shape[1]] = projected.clamp(-limit, limit)
        self.count += X.shape[1]
        self._first = self._first or self.count
        self.total += torch.bmm(weights[:, None], X)[:, 0]
        if self._errors:
            self.squares += torch.bmm(weights[:, None].square(), X.square())[:, 0]
        if piloting:
            self.piloted, self.centre = self.count, self.mean
        elif self.scatter is not None:
            self._write(self.scatter.room(X.shape[1]), g, X, weights / limit)
        if piloting or not self._fixed:
            self.direction = unit(self.total)

    def _write(
        self,
        kept: Float[Tensor, "b m n"],
        g: Float[Tensor, "b m n"],
        X: Float64[Tensor, "b m n"],
        scale: Float64[Tensor, "b m"],
    ) -> None:
        """Bounded vectors less the centre, in units of M; those in single precision need not go through double precision."""
        centre = (self.centre / self.M.double()[:, None])[:, None]
        if g.dtype == torch.float32 and bool(((scale > 0) & (scale < LARGE)).all()):
            torch.mul(g, scale.float()[:, :, None], out=kept).sub_(centre.float())
        else:
            kept.copy_(X * scale[:, :, None] - centre)

    def projections(self) -> list[Projections]:
        """Of each sample, for a confidence bound."""
        b = len(self.M)
        projected = self._projected.cpu().numpy()
        pilot, later = projected[:, self._first : self.piloted], projected[:, self.piloted : self.count]
        norms = self.mean.norm(dim=1).tolist()
        limits = self.M.double().tolist()
        horizons = bets_planned(self._looks, self._pilot, self.piloted)
        return [Projections(pilot[i], later[i], norms[i], limits[i], horizons, self.count) for i in range(b)]

    @property
    def mean(self) -> Float[Tensor, "b n"]:
        """The smoothed attribution as estimated."""
        return self.total / max(self.count, 1)

    @property
    def standard_error(self) -> Float[Tensor, "b n"]:
        """Of each entry of the mean."""
        variance = (self.squares / max(self.count, 1) - self.mean**2).clamp_min(0)
        return (variance / max(self.count - 1, 1)).sqrt()

    def select(self, keep: Int64[Tensor, " kept"]) -> None:
        """Go on with some of the samples."""
        self.M, self.total, self.squares = self.M[keep], self.total[keep], self.squares[keep]
        self.direction, self.largest, self.centre = self.direction[keep], self.largest[keep], self.centre[keep]
        self._projected = self._projected[keep]
        if self.scatter is not None:
            self.scatter.select(keep)


def lower_length(
    bound: Callable[[Projections, float], float], seen: Projections, q: float, dtype: torch.dtype
) -> float:
    """A lower bound of |h| at failure q, less what rounding may have added."""
    return max(0.0, bound(seen, q) - PROJECTION_ROUNDING[dtype] * seen.M)


def clt_length(mean: Float[Tensor, " n"], error: Float[Tensor, " n"], q: float) -> float:
    """The paper's interval for |h|: the q-quantile of |mean + error z|, z normal. For comparison only.

    Not a confidence bound: it is centred at the mean, whose length is biased upwards, as if that were h, and ignores covariances.
    """
    moved = error > 0
    weights = error[moved].double().cpu().numpy() ** 2
    if not len(weights):
        return float(mean.norm())
    shifts = mean[moved].double().cpu().numpy() / np.sqrt(weights)
    return sqrt(quantile(q, weights, shifts) + float(mean[~moved].double().square().sum()))
