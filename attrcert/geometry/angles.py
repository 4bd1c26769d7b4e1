"""From a deviation to an angle [wang2023practical, Corollary 2].

If |g' - g|_2 <= T < |g|_2, the angle between g and g' is at most asin(T / |g|), and this is sharp. For T >= |g| the
vector g' may be 0 or point anywhere: no angle follows.
"""

import math


def largest_angle(deviation: float, length: float) -> float | None:
    """Degrees, rounded outwards in the last place; None where no angle follows."""
    if not deviation < length:
        return None
    # two units in the last place of the ratio and some of the result: more than the three roundings can take away
    ratio = min(1.0, deviation / length * (1 + 2**-51))
    return min(90.0, math.degrees(math.asin(ratio)) * (1 + 2**-50)) if deviation else 0.0
