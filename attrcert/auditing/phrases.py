"""Figures and lists as a verdict says them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrcert.columns import Row


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def degrees(angle: float, rounded: Callable[[float, int], str]) -> str:
    return f"{rounded(angle, 3)} degrees"


def parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def counted(rows: Sequence[Row]) -> str:
    return "1 sample" if len(rows) == 1 else f"{len(rows)} samples"


def listed(cases: Iterable[str]) -> str:
    *first, last = cases
    return f"{', '.join(first)} and {last}" if first else last
