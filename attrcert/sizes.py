"""Bytes and seconds as people write them."""

import re

from attrcert.errors import UsageError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_bytes(text: str, name: str = "--memory") -> int:
    """Sizes such as 4GB or 800M; a number without a unit is refused, since nobody means 4 bytes by it."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(?:([KMGT])i?B?|B)\s*", text, re.IGNORECASE)
    if not match or not 0 < float(match[1]) < 1e6:
        raise UsageError(f"{name} must be a size such as 4GB or 800MB, got {text!r}")
    return int(float(match[1]) * _UNITS[(match[2] or "").upper()])


def readable_bytes(count: int) -> str:
    """Three digits, in a form that `parse_bytes` reads."""
    unit = next(
        unit for unit in reversed(_UNITS) if count >= 0.9995 * _UNITS[unit] or not unit
    )  # 999.5 has four digits
    return f"{count / _UNITS[unit]:.3g} {unit}B"


def readable_seconds(seconds: float) -> str:
    """As people say it."""
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
