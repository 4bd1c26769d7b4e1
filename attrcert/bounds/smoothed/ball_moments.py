"""How far an attribution smoothed over a ball can turn, from the variance of what is averaged.

Let tau be the total variation between the noise at x and at x + delta, lambda the largest variance of g in any direction, |g| <= M,
C <= |h(x)|. The angle is at most phi where M tau + sqrt(lambda tau (1 - tau)) <= C sin(phi) (1 - tau).

Proof. A is the part of the ball around x outside the ball around x + delta, P(A) = tau: h' = h - R1 + R3, |R3| <= M tau. For v with
<v, h> = -sin(phi) |h|, <v, R1> = tau <v, h> + Cov(<v, g>, 1_A), so <v, h' - h> <= M tau + tau sin(phi) |h| + sqrt(lambda tau (1 - tau)).
Were the angle larger than phi, some such v would have <v, h' - h> > sin(phi) |h|.

The likelihood ratio of two balls is unbounded, so there is nothing like K of `moments`: in many dimensions Gaussian noise of
sigma = r / sqrt(d) averages over nearly the same images and certifies more.
"""

from math import inf, sqrt

OUTWARDS = 1e-12  # relative, towards the weaker claim
BISECTIONS = 80


def largest_angle_sine(tau: float, C: float, variance: float, M: float) -> float | None:
    """From above; None where none below a right angle follows."""
    sine = _sine(tau, C, variance, M)
    return sine if sine < 1 else None


def largest_overlap(C: float, variance: float, M: float, sine: float) -> float:
    """The largest tau at which the angle's sine stays within `sine`, from below."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _sine(middle, C, variance, M) <= sine else (low, middle)
    return low


def _sine(tau: float, C: float, variance: float, M: float) -> float:
    if tau >= 1 or C <= 0:
        return inf
    return (M * tau + sqrt(variance * tau * (1 - tau))) / (C * (1 - tau)) * (1 + OUTWARDS)
