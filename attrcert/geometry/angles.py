"""From a deviation to an angle [wang2023practical, Corollary 2].

If |g' - g|_2 <= T < |g|_2, the angle between g and g' is at most asin(T / |g|), and this is sharp. For T >= |g| the
vector g' may be 0 or point anywhere: no angle follows.
"""

import math


def largest_angle(deviation: float, length: float) -> float | None:
    """Degrees, rounded outwards in the last place; None where no angle follows."""
    if not deviation < length:
        return None
    return math.nextafter(math.degrees(math.asin(deviation / length)), math.inf) if deviation else 0.0
