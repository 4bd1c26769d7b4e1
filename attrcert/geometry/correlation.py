"""From a deviation to a correlation: if |g' - g|_2 <= T < |g - mean(g)|_2, Pearson's correlation is at least sqrt(1 - T^2/|g - mean|^2).

Taking the mean away is a projection, so the centred maps are within T of each other too, and the rest is the angle between them. It is
attained. For a larger T nothing follows.
"""

from math import sqrt

OUTWARDS = 1e-12  # relative, towards the weaker claim


def least_correlation(T: float, centred_length: float) -> float | None:
    """From below; None where nothing follows."""
    if not centred_length > T:
        return None
    ratio = min(1.0, T / centred_length * (1 + OUTWARDS))
    return sqrt((1 - ratio) * (1 + ratio)) * (1 - OUTWARDS)
