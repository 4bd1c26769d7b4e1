"""How far a smoothed attribution can move, from the covariance of what is averaged, for Gaussian noise.

h(x) = E g(x + sigma n), |g| <= M, s = |delta|_2 / sigma, L = exp(s n - s^2/2) with n standard normal, lambda the largest eigenvalue of
Cov g(x + sigma n). For a unit vector v and Z = <v, g - h>, <v, h(x + delta) - h(x)> = E[Z (L - 1)]: at most

    K(s, lambda, B) = sup E[Z (L - 1)] over E Z = 0, E Z^2 <= lambda, |Z| <= B,

and no better bound follows from (lambda, B). Without the range it is sqrt(lambda) sqrt(e^(s^2) - 1), without the variance
B (2 Phi(s) - 1), as E[Z (L - 1)] = E[Z (L - m)] <= B E|L - m| for the median m of L.

If the angle between h(x) and h(x + delta) exceeds phi, some v with <v, h> = -sin(phi) |h| has <v, h(x + delta) - h(x)> > sin(phi) |h|, and
for it |Z| <= M (1 + sin phi). So the angle is at most phi where K(s, lambda, M (1 + sin phi)) <= C sin phi, C <= |h(x)|. K is concave in
B: from the first such phi on it holds.

K is computed from above, by its dual: for every a > 0 and b

    K <= E[huber(L - b)] + lambda / 2a,    huber(y) = a y^2 / 2 where a |y| <= B, and B |y| - B^2 / 2a beyond,

with equality where Z = clip(a (L - b), -B, B) has mean 0 and second moment lambda. What is found for a and b is as good as it is; the
bound holds whatever they are. All is computed for B = 1: K scales.

Departures: 2 B (2 Phi(s/2) - 1), the total variation's bound, is valid too and larger: it does not use E Z = 0.
"""

from collections.abc import Callable
from functools import cache
from math import erf, erfc, exp, expm1, inf, log, log1p, sqrt
from typing import NamedTuple

from scipy.optimize import brentq
from scipy.special import erfinv

ROUNDING = 2e-14  # relative, of what the dual adds and subtracts: an exponential and an erfc each
OUTWARDS = 1e-12  # relative, towards the weaker claim
NEAREST, FARTHEST = 3e-4, 20.0  # s between which the dual is worth its digits; beyond, the two simple forms are taken
SETTLED = 1e-6  # of log a and of b: the dual is flat at its minimum, so its value has twice as many digits
NEWTON = 40
LARGEST_STEP = 60.0  # in log a: as many halvings of the part that is not clipped


def most_moved(s: float, variance: float, B: float) -> float:
    """An upper bound of K(s, lambda, B) that no rounding puts below it."""
    if s <= 0 or variance <= 0 or B <= 0:
        return 0.0
    share = variance / B / B
    by_range, by_variance = erf(s / sqrt(2)), exp(min(1.0, (log(share) + _log_square(s)) / 2)) if share < 1 else inf
    bound = min(by_range, by_variance)
    if share < 1 and NEAREST < s < FARTHEST:
        bound = min(bound, _dual_minimum(s, share))
    return B * bound * (1 + OUTWARDS)


def _log_square(s: float) -> float:
    """ln(e^(s^2) - 1), whatever s is."""
    return s * s + log(-expm1(-s * s))


def largest_angle_sine(s: float, C: float, variance: float, M: float) -> float | None:
    """The sine of the largest angle, from above; None where none below a right angle follows."""
    if s <= 0 or variance <= 0:
        return 0.0 if C > 0 else None

    def excess(sine: float) -> float:
        return most_moved(s, variance, M * (1 + sine)) - C * sine

    if excess(1.0) >= 0:
        return None
    return _first_not_above(excess, brentq(excess, 0.0, 1.0, xtol=1e-15, rtol=1e-13))


def largest_shift(C: float, variance: float, M: float, sine: float) -> float:
    """The largest s at which the angle's sine stays within `sine`, from below."""
    B, allowed = M * (1 + sine), C * sine
    if allowed <= 0:
        return 0.0
    if variance <= 0:
        return inf

    def excess(s: float) -> float:
        return most_moved(s, variance, B) - allowed

    by_variance = sqrt(log1p(exp(min(700.0, 2 * log(allowed) - log(variance)))))
    reached = max(by_variance, sqrt(2) * float(erfinv(min(1 - 1e-15, allowed / B))))
    low = reached * (1 - 4 * OUTWARDS)  # K is below either of its simple forms
    high = low
    while excess(high) < 0:
        low, high = high, 1.1 * high
        if low > FARTHEST:
            return low
    if low == high:
        return low if excess(low) <= 0 else 0.0
    return -_first_not_above(lambda s: excess(-s), -brentq(excess, low, high, xtol=1e-15, rtol=1e-13))


def _first_not_above(excess: Callable[[float], float], root: float) -> float:
    """A number a little above a root at which nothing is in excess."""
    step = OUTWARDS * max(abs(root), 1e-3)
    while excess(root) > 0:
        root, step = root + step, 2 * step
    return root


def _dual_minimum(s: float, share: float) -> float:
    """Over a and b, as well as a search finds it, for B = 1 and lambda = `share`."""
    middle = exp(-s * s / 2)  # the median of L, which b comes to where the range is all; its mean is 1

    @cache
    def balanced(log_a: float) -> tuple[float, float]:
        """The b at which Z has mean 0, by Newton within the two, and what its second moment then lacks."""
        a, low, high, b = exp(log_a), middle, 1.0, 1.0
        for _ in range(NEWTON):
            mean, second, within = _clipped(_parts(s, a, b), a, b)
            low, high = (b, high) if mean > 0 else (low, b)
            step = mean / (a * within) if a * within > 0 else 0.0
            if abs(step) <= SETTLED * b:
                break
            b = b + step if low < b + step < high else (low + high) / 2
        return b, second - share

    low, step = (log(share) - _log_square(s)) / 2, 0.25  # of log a, from where it is without a range
    while balanced(low + step)[1] < 0 and step < LARGEST_STEP:
        low, step = low + step, 2 * step
    log_a = low if balanced(low)[1] >= 0 else low + step
    if balanced(low)[1] < 0 <= balanced(low + step)[1]:
        log_a = brentq(lambda x: balanced(x)[1], low, low + step, xtol=SETTLED)
    return _dual(s, exp(log_a), balanced(log_a)[0], share)


class _Parts(NamedTuple):
    """E[L^k] for k = 0, 1, 2 between the ends at which a (L - b) is clipped at 1, the sums of what is subtracted for them, and E[L^k] for
    k = 0, 1 below and above.
    """

    within: tuple[float, ...]
    sizes: tuple[float, ...]
    below: tuple[float, float]
    above: tuple[float, float]


def _parts(s: float, a: float, b: float) -> _Parts:
    floor, ceiling = b - 1 / a, b + 1 / a
    t1 = (log(floor) + s * s / 2) / s if floor > 0 else -inf
    t2 = (log(ceiling) + s * s / 2) / s
    growth = (1.0, 1.0, exp(s * s))
    ends = [_tails(t1 - k * s, t2 - k * s) for k in range(3)]
    within = tuple(g * (far - near) for g, (near, far) in zip(growth, ends, strict=True))
    sizes = tuple(g * (far + near) for g, (near, far) in zip(growth, ends, strict=True))
    return _Parts(within, sizes, (_below(t1), _below(t1 - s)), (_below(-t2), _below(s - t2)))


def _clipped(parts: _Parts, a: float, b: float) -> tuple[float, float, float]:
    """Mean and second moment of Z = clip(a (L - b), -1, 1), and how likely it is not clipped."""
    (one, first, second), _, below, above = parts
    mean = a * (first - b * one) + above[0] - below[0]
    return mean, a * a * (second - 2 * b * first + b * b * one) + above[0] + below[0], one


def _dual(s: float, a: float, b: float, share: float) -> float:
    """E[huber(L - b)] + lambda / 2a, and what rounding may take away from it."""
    (one, first, second), sizes, below, above = _parts(s, a, b)
    rest = (above[0] + below[0]) / (2 * a)
    value = a / 2 * (second - 2 * b * first + b * b * one) + above[1] - b * above[0] + b * below[0] - below[1] - rest
    size = (
        a / 2 * (sizes[2] + 2 * b * sizes[1] + b * b * sizes[0])
        + above[1]
        + b * above[0]
        + b * below[0]
        + below[1]
        + rest
    )
    return value + share / (2 * a) + ROUNDING * (1 + s * s) * (size + share / (2 * a))


def _below(x: float) -> float:
    """Phi, with all digits in its lower tail."""
    return erfc(-x / sqrt(2)) / 2


def _tails(x: float, y: float) -> tuple[float, float]:
    """Two numbers whose difference is Phi(y) - Phi(x): the tails that keep the digits."""
    return (_below(-y), _below(-x)) if x > 0 else (_below(x), _below(y))
