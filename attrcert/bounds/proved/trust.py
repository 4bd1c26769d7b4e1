"""How far z moves over a ball: the tangent and what curves have beyond it, maximised together [conn2000trust].

With the slopes at x and rem(t) = s(z+t) - s(z) - s'(z) t (`remainders`), t_l = D z_l obeys

    t_l = B_l delta + sum_{m<l} N_lm rem(t_m),                                                                               (2)

N_lm = dz_l/da_m. Row j of N_lm takes rem from above where it is positive and from below where it is negative; with any theta

    t_lj <= sum |N| A(theta) + max over the ball of b delta + theta delta^T Q delta / 2,   Q = sum_m B_m^T diag(|N_j| psi) B_m,

b row j of B_l. What t_m has beyond B_m delta, e, goes into the weights of earlier layers: t^2 <= (1 + eta) (B delta)^2 + (1 + 1/eta) e^2
and e_i^2 <= |e_i| sum_k |N_ik| psi_k t_k^2 / 2. For delta = alpha b/|b| + s w, w orthogonal to b, the maximum is at most that over
alpha^2 + s^2 = eps^2 of

    alpha |b| + (alpha^2 q0 + 2 alpha s q1 + s^2 lam) / 2,   q0 = b Q b / |b|^2,  q0^2 + q1^2 = |Q b|^2 / |b|^2,  lam >= lambda_max(Q),

which by duality is at most mu eps^2 / 2 + |b|^2 (mu - lam) / (2 ((mu - q0)(mu - lam) - q1^2)) for every mu above both eigenvalues. While
lam < |b| / eps, Q counts along b alone: that is why ranges of z are nearly linear. lam is that of Schur's test on the moduli
of sqrt(omega) B B^T sqrt(omega). In linf theta is 0: the tangent and the largest remainders.

Not claimed: anything of curves whose s' is not Lipschitz. Rounding: B and N are off by a share of their paths, z and s' by `Doubt`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import largest_bend, steepest
from attrcert.bounds.proved.network import Carried
from attrcert.bounds.proved.point import Point, rows, unit_rows
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.remainders import OneSided, Remainder, remainder
from attrcert.linalg.proofs import times

THETAS = (1.0, 0.5, 0.25, 0.1, 0.03)
SLACK = 1e-9  # of sums and products in float64
SINGLE = 1e-3  # of sums of at most 2^13 moduli in float32, twice
ROUNDS = 2  # of Schur's test
NEARLY = 0.3  # of |b| / eps: a lam below it plays no part
WIDEST = 6000  # neurons of an activation whose products B B^T are held
WIDE = 4  # of the neurons: those that see more than such a share of them are taken together
SEARCH = 40  # steps of the search for mu: any mu is a bound

Matrix = Float[Tensor, "_ _ _"]
Each = Float[Tensor, "b _"]  # a number for each neuron


@dataclass(frozen=True)
class Beyond:
    """What is known of an activation: its remainders, and |D z - B delta| <= apart."""

    remainder: Remainder
    apart: Each
    lost: Each  # what the errors of z and of s' add to the remainder, and rounding before z


class Trust:
    """Takes the activations of a network one after the other."""

    def __init__(self, point: Point, reach: Reach) -> None:
        self.point, self.reach = point, reach
        self.known: dict[int, Beyond] = {}

    def moved(self, i: int) -> tuple[Each, Each]:
        """At least |D z| and |D z - B delta| of activation i, from all before it."""
        parts: list[tuple[Tensor, Tensor]] = []
        z = self.point.z[i]
        for units in unit_rows(self.point.network, i, len(z), like=z):
            parts.append(self._rows(i, units))
        each, apart = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
        off = self._rounding(i)
        return each * (1 + SLACK) + off, apart * (1 + SLACK) + off

    def learn(self, i: int, each: Each, apart: Each) -> None:
        """What holds of activation i."""
        point = self.point
        curve, z, off = point.network.curve(i), point.z[i], point.doubt.z[i]
        found = remainder(curve, z, each)
        bend = largest_bend(curve, z, each + off)
        rounded = steepest(curve, z, each + off) * self._rounding(i)
        self.known[i] = Beyond(found, apart, each * (2 * point.doubt.slope[i] + bend * off) + rounded)

    def _rounding(self, i: int) -> Each:
        """What products between activation i and those before it take of rows with B and N (`paths`)."""
        return self.point.doubt.unit * self.point.doubt.near[i]

    def _rows(self, i: int, units: Float[Tensor, "k n"]) -> tuple[Each, Each]:
        """Of some neurons of activation i."""
        N: dict[int, Matrix] = {}

        def straight(m: int, carried: Carried | None) -> Carried | None:
            if carried is None:
                return None
            N[m] = carried.centre
            return Carried(self.point.slope[m][:, None] * carried.centre)

        b = rows(self.point.network, i, units, straight)
        linear = self.reach.each_row(b)
        if not N:
            return linear.expand(len(self.point.z[i]), -1), torch.zeros_like(linear).expand(len(self.point.z[i]), -1)
        sides = self._sides(i, b, N, linear)
        each, apart = (torch.maximum(*part.chunk(2, dim=1)) for part in sides)
        return torch.minimum(each, linear + apart), apart

    def _sides(self, i: int, b: Matrix, N: dict[int, Matrix], linear: Tensor) -> tuple[Each, Each]:
        """The largest t and t - B delta of some neurons, and then the largest -t and B delta - t."""
        ups = {m: torch.cat([part, -part], dim=1).clamp_min(0) for m, part in N.items()}
        downs = {m: torch.cat([-part, part], dim=1).clamp_min(0) for m, part in N.items()}
        linear = linear.repeat(1, 2)

        def constant(theta: float) -> Each:
            total = torch.zeros_like(linear)
            for m in N:
                known = self.known[m]
                for part, side in ((ups[m], known.remainder.up), (downs[m], known.remainder.down)):
                    total = total + times(part, side.excess(theta) + known.lost)
            return total

        apart = constant(0.0)
        each = linear + apart
        if not self.reach.is_l2:
            return each, apart
        weights = {m: ups[m] * self._rise(m, "up") + downs[m] * self._rise(m, "down") for m in N}
        weights, beyond = self._pushed(weights)
        length, along, across, whole = self._quadratic(i, b, weights)
        for theta in THETAS:
            fixed = constant(theta) + theta * beyond
            radius = self.reach.radius[:, None]
            each = torch.minimum(each, fixed + joint(length, theta * along, theta * across, theta * whole, radius))
            apart = torch.minimum(apart, fixed + theta * whole * radius.square() / 2)
        return each, apart

    def _rise(self, m: int, side: str) -> Matrix:
        found: OneSided = getattr(self.known[m].remainder, side)
        return found.rise[:, None]

    def _pushed(self, weights: dict[int, Matrix]) -> tuple[dict[int, Matrix], Tensor | float]:
        """sum omega t^2 as weights of (B delta)^2, and a constant."""
        weights = dict(weights)
        fixed: Tensor | float = 0.0
        for m in self.known:
            weights.setdefault(m, torch.zeros_like(self.point.z[m])[:, None])
        for m in sorted(weights, reverse=True):
            known, omega = self.known[m], weights[m]
            if not bool((known.apart > 0).any()):
                continue
            share = known.apart.square().sum(dim=1) / self.reach.each_row(self.point.B[m]).square().sum(dim=1)
            eta = share.sqrt().nan_to_num(1.0).clamp(0.02, 1.0)[:, None, None]
            beyond = (1 + 1 / eta) / 2 * omega * known.apart[:, None]
            fixed = fixed + times(beyond, self._rounding(m))
            for p, moved in self._magnitudes(m, beyond).items():
                weights[p] = weights[p] + moved * self.known[p].remainder.rise[:, None]
                fixed = fixed + times(moved, self.known[p].lost)
            weights[m] = (1 + eta) * omega
        return weights, fixed

    def _magnitudes(self, m: int, given: Matrix) -> dict[int, Matrix]:
        """given |N_mp| for all p before m, N with the moduli of its paths."""
        found: dict[int, Matrix] = {}

        def straight(p: int, carried: Carried | None) -> Carried | None:
            if carried is None:
                return None
            found[p] = carried.centre
            steepest = self.point.slope[p].abs() + self.point.doubt.slope[p]
            return Carried(steepest[:, None] * carried.centre)

        network = self.point.network
        network.magnitude.pull(network.before(m), Carried(given), straight)
        return found

    def _quadratic(self, i: int, b: Matrix, weights: dict[int, Matrix]) -> tuple[Each, Each, Each, Each]:
        """|b|, q0, q1 and lam, for both signs."""
        point, length = self.point, torch.linalg.vector_norm(b, dim=2)
        T: dict[int, Matrix] = {}

        def forwards(m: int, moved: Tensor) -> Tensor | None:
            T[m] = moved.repeat(1, 2, 1)
            return point.slope[m][:, None] * moved if m < max(weights) else None

        def backwards(m: int, carried: Carried | None) -> Carried:
            here = weights[m] * T[m]
            return Carried(here if carried is None else here + point.slope[m][:, None] * carried.centre)

        unit = b / torch.where(length > 0, length, 1.0)[..., None]
        point.network.push(unit, forwards, end=max(weights))
        pulled = point.network.pull(max(weights), None, backwards)
        assert pulled is not None
        length, unit = length.repeat(1, 2), unit.repeat(1, 2, 1)
        spilt = (
            4 * point.doubt.unit * _total(times(omega, point.doubt.paths[m].square()) for m, omega in weights.items())
        )
        along = _total((omega * T[m].square()).sum(dim=2) for m, omega in weights.items())
        # the difference of squares would cancel
        across = torch.linalg.vector_norm(pulled.centre - along[..., None] * unit, dim=2)
        enough = NEARLY * length.amin(dim=0) / self.reach.radius.amax()
        whole = _total(self._largest_eigenvalue(m, omega, enough) for m, omega in weights.items())
        return length.expand_as(along), along + spilt, across + spilt, whole + spilt

    def _largest_eigenvalue(self, m: int, omega: Matrix, enough: Float[Tensor, " k"]) -> Each:
        """At least lambda_max(B^T diag(omega) B) of every row of omega; closely, where it is more than enough."""
        found = times(omega, torch.linalg.vector_norm(self.point.B[m], dim=2).square().expand(len(omega), -1))
        rows = (found > enough).any(dim=0).view(2, -1).any(dim=0).repeat(2)
        if omega.shape[2] > WIDEST or not bool(rows.any()):
            return found
        if m not in self.point.overlaps:
            self.point.overlaps[m] = _overlap(self.point.B[m])
        K, scale = self.point.overlaps[m]
        found[:, rows] = torch.minimum(found[:, rows], _tested(K, omega[:, rows]) * scale)
        return found


def _overlap(B: Matrix) -> tuple[Float[Tensor, "c n n"], float]:
    """At least |B B^T|, in float32 and as multiples of a number: rows whose entries are mostly zero lose little."""
    size = float(B.abs().max().clamp_min(torch.finfo(B.dtype).tiny))
    B = B / size
    single = B.float()
    length = torch.linalg.vector_norm(B, dim=2).float() * (1 + SINGLE)
    lost = (int((single != 0).sum(dim=2).max()) + 4) * torch.finfo(torch.float32).eps
    K = torch.matmul(single, single.mT).abs_()
    return K.add_(lost * length[:, :, None] * length[:, None, :]).add_(torch.finfo(torch.float32).tiny), size**2


def _tested(K: Float[Tensor, "c n n"], omega: Matrix) -> Each:
    """At least lambda_max(sqrt(omega) K sqrt(omega)) of every row of omega; rows that are zero almost everywhere take little of K.

    The second half of the rows are the same neurons with the other sign.
    """
    size = omega.amax(dim=2, keepdim=True).clamp_min(torch.finfo(omega.dtype).tiny)
    small = (omega / size).float()
    seen = (small > 0).any(dim=0).view(2, -1, omega.shape[2]).any(dim=0)  # by either sign
    place = seen.double() @ torch.arange(1.0, seen.shape[1] + 1).to(size)  # exact: a sum of integers
    place = torch.where(seen.sum(dim=1) > seen.shape[1] / WIDE, 0.0, place)
    found = torch.zeros_like(small[..., 0])
    for same in place.unique():  # neurons that look at the same place, with few others
        alike = (place == same).nonzero()[:, 0]
        near = seen[alike].any(dim=0).nonzero()[:, 0]
        alike = torch.cat([alike, alike + len(place)])
        if len(near):
            theirs = small.index_select(1, alike).index_select(2, near)
            found[:, alike] = _schur(K[:, near[:, None], near], theirs)
    return found.double() * (1 + SINGLE) * size[..., 0]


def _schur(K: Float[Tensor, "c n n"], omega: Matrix) -> Each:
    """Schur's test."""
    best = torch.full_like(omega[..., 0], torch.inf)
    v = torch.ones_like(omega)
    for _ in range(ROUNDS):
        moved = torch.matmul(omega * v, K)
        best = torch.minimum(best, torch.where(omega > 0, moved / v, 0.0).amax(dim=2))
        v = (moved / moved.amax(dim=2, keepdim=True).clamp_min(1e-30)).clamp_min(1e-3)
    return best


def _total(parts: Iterable[Tensor]) -> Tensor:
    first, *others = parts
    return sum(others, first)


def joint(length: Each, along: Each, across: Each, whole: Each, radius: Each) -> Each:
    """At least the largest alpha |b| + (alpha^2 q0 + 2 alpha s q1 + s^2 lam) / 2 with alpha^2 + s^2 = radius^2."""
    mean, half = (along + whole) / 2, (along - whole) / 2
    highest = mean + torch.hypot(half, across)
    width = length / radius  # the best mu is at most so far above the highest eigenvalue

    def value(share: Tensor) -> Tensor:
        mu = highest + share * width
        determinant = (mu - along) * (mu - whole) - across.square()
        bent = torch.where(determinant > 0, (mu - whole) / determinant, torch.inf)
        return mu * radius.square() / 2 + torch.where(length > 0, length.square() * bent / 2, 0.0)

    golden = (5**0.5 - 1) / 2
    low, high = torch.zeros_like(highest), torch.ones_like(highest)
    best = value(high)
    for _ in range(SEARCH):
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = value(left), value(right)
        best = torch.minimum(best, torch.minimum(at_left, at_right))
        lower = at_left < at_right
        low, high = torch.where(lower, low, left), torch.where(lower, right, high)
    return best
