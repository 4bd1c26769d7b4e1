"""The largest variance of bounded vectors in any direction, from above, at failure q.

Claim. Let m be fixed, |X_i - m|^2 <= R, X_i independent and alike, i = 1..N, S the mean of (X_i - m)(X_i - m)^T. Then with probability
1 - q, lambda_max(Cov X) <= R sup{p : kl(lambda_max(S)/R, p) <= ln(1/q) / N}, kl the relative entropy of two coins.

Proof. A = E (X - m)(X - m)^T is Cov X plus a positive semi-definite matrix. For its top eigenvector v, which is fixed though unknown,
Y_i = <v, X_i - m>^2 lies in [0, R] and has mean lambda_max(A). By Chernoff, P(mean Y <= a) <= exp(-N kl(a/R, lambda_max(A)/R)) for a below
the mean; and lambda_max(S) >= mean Y. Only one direction is tested, so no dimension enters.

Nothing does without the floor of about R ln(1/q) / N: a share of far values whose absence from N draws has probability q goes unseen.
"""

from math import log, log1p

BISECTIONS = 100


def largest_variance(top: float, R: float, draws: int, q: float) -> float:
    """An upper bound of lambda_max(Cov X) from `top` >= lambda_max(S)."""
    if draws < 1 or top >= R:
        return R
    share, room = max(0.0, top / R), log(1 / q) / draws
    low, high = share, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _entropy(share, middle) <= room else (low, middle)
    return R * high


def _entropy(a: float, p: float) -> float:
    """kl(a, p) for a <= p."""
    if p >= 1:
        return float("inf")
    near = a * log(a / p) if a > 0 else 0.0
    return near + (1 - a) * (log1p(-a) - log1p(-p))


def mean_error(variance: float, total: float, most: float, draws: int, q: float) -> float:
    """How far the mean of N draws may be from its expectation, in length [bousquet2002bennett], at failure q.

    With lambda <= `variance`, E|X - EX|^2 <= `total` and |<v, X - EX>| <= b = `most` for unit v: E = sqrt(total / N) bounds the expected
    length, and the length exceeds E + sqrt(2 t (lambda + 2 b E) / N) + b t / 3N, t = ln(1/q), with probability at most q.
    """
    if draws < 1:
        return most
    t, expected = log(1 / q), (total / draws) ** 0.5
    return min(most, expected + (2 * t * (variance + 2 * most * expected) / draws) ** 0.5 + most * t / (3 * draws))
