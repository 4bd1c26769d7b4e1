"""How attributions are averaged over noise, and what is certified of that."""

import math
from dataclasses import dataclass
from typing import Any

from attrcert.bounds.smoothed import RULES
from attrcert.errors import UsageError
from attrcert.settings.declared import METHOD, SMOOTHING, Settings, declared, default_of, setting
from attrcert.settings.explaining import Averaging
from attrcert.statistics import CONFIDENCES
from attrcert.vocabulary import CLT, NOISES, number_or, parse_bounding, parse_number

BEST = "best"
BEST_SPREADS = {"radius": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), "sigma": (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)}
GRID, RATIO = 12, 1.5  # radii that are tried, and each to the one before


def check_spread(spread: tuple[float, ...], name: str) -> None:
    """Radii or sigmas must be numbers that can be, each once."""
    given = ", ".join(map(str, spread)) or "none"
    if not spread or any(not 0 < value < math.inf for value in spread):
        raise UsageError(f"{name} must be positive and finite, got {given}")
    if len(set(spread)) < len(spread):
        raise UsageError(f"each {name} may be given once, got {given}")


@dataclass(frozen=True)
class Smoothing(Settings):
    """The noise, what bounds the attribution, and how its mean is bounded from below."""

    smooth: str = setting(
        "uniform",
        f"Certify the attribution averaged over noise: {' or '.join(NOISES)}, with --radius or --sigma. Confidence, not first-order; "
        "networks run as they are.", SMOOTHING, choices=tuple(NOISES), basic=True,
    )  # fmt: skip
    min_cosine: tuple[float, ...] = setting(
        (), "Least cosine that must be kept, e.g. 0.9; repeatable.", SMOOTHING, read=parse_number, many=True, basic=True,
    )  # fmt: skip
    bounded: str = setting(
        "unit", "What makes |g| <= M hold: unit (g/|g|), clip:Q (at the Q-quantile of a pilot), clip-at:M.", SMOOTHING,
    )  # fmt: skip
    rule: str = setting(
        "tight", "From length to cosine; published is false and for comparison only.", SMOOTHING, choices=lambda: tuple(RULES),
    )  # fmt: skip
    confidence: str = setting(
        "betting", f"How the length is bounded from below; {CLT} is the paper's, not a confidence bound.",
        SMOOTHING, choices=lambda: (*CONFIDENCES, CLT),
    )  # fmt: skip
    samples: int = setting(
        1000, "Draws of the noise, 50 at least.", SMOOTHING, flags=("--samples", "--samples-max"), least=50, basic=True
    )
    stop_when: str = setting(
        "never", "Stop drawing once --min-cosine is certified or out of reach.", SMOOTHING, choices=("never", "certified"),
    )  # fmt: skip
    simultaneous: bool = setting(
        False, "--failure for all samples and radii together (a union bound), not for each.", SMOOTHING
    )

    def check(self) -> None:
        parse_bounding(self.bounded)
        for T in self.min_cosine:
            if not 0 < T < 1:
                raise UsageError(f"--min-cosine must lie strictly between 0 and 1, got {T:g}")
        if self.stop_when == "certified" and self.confidence != "betting":
            raise UsageError(f"--stop-when certified goes with --confidence betting alone, got {self.confidence}")
        if self.bounded == "sample-max" and self.rule != "published":
            raise UsageError(
                f"the largest |g| of a sample is no bound: --bounded sample-max goes with --rule published, got {self.rule}"
            )


def _spread(name: str) -> Any:
    """The setting of an average, of which several may be given here, or the best asked for."""
    text, usual = declared(Averaging)[name].help, f"{default_of(Averaging, name):g}"
    return setting(None, text, METHOD, read=number_or(BEST, BEST), many=True, unsaid=usual, basic=True)


@dataclass(frozen=True)
class Spreads(Settings):
    """How far the noise reaches: given, or the best of a grid."""

    sigma: tuple[float | str, ...] | None = _spread("sigma")
    radius: tuple[float | str, ...] | None = _spread("radius")

    def of(self, noise: str) -> tuple[tuple[float, ...], bool]:
        """The radii of uniform noise, or the sigmas of Gaussian noise, and whether the best of them is wanted."""
        name = NOISES[noise]
        given: tuple[float | str, ...] | None = getattr(self, name)
        for other in NOISES.values():
            if other != name and getattr(self, other) is not None:
                raise UsageError(f"{noise} noise takes --{name}, not --{other}")
        if given == (BEST,):
            return BEST_SPREADS[name], True
        if given is not None and BEST in given:
            raise UsageError(f"--{name} takes numbers, or best alone, got {', '.join(map(str, given))}")
        spread = (default_of(Averaging, name),) if given is None else tuple(map(float, given))
        check_spread(spread, f"--{name}")
        return spread, False


@dataclass(frozen=True)
class Grid(Settings):
    """The radii of `min-radius`."""

    radii: tuple[float, ...] = setting(
        (), "The grid of radii, or of sigmas, e.g. 0.5,1,2,4.", SMOOTHING, read=parse_number, many=True, basic=True,
    )  # fmt: skip
    max_radius: float | None = setting(
        None, f"Without --radii: {GRID} radii or sigmas up to this one, each {RATIO:g} times the one before.",
        SMOOTHING, positive=True, unsaid=f"{BEST_SPREADS['radius'][-1]:g}; gaussian {BEST_SPREADS['sigma'][-1]:g}",
    )  # fmt: skip
    search: str = setting(
        "smallest", "smallest: test every radius at a share of the failure; descend: from the largest, until the first that fails.",
        SMOOTHING, choices=("smallest", "descend"),
    )  # fmt: skip

    def check(self) -> None:
        if self.radii and self.max_radius is not None:
            raise UsageError("--max-radius makes a grid where there are no --radii: give one of them")
        if self.radii:
            check_spread(self.radii, "--radii")

    def of(self, noise: str) -> tuple[float, ...]:
        """The radii of uniform noise, or the sigmas of Gaussian noise, from the smallest."""
        if self.radii:
            return tuple(sorted(self.radii))
        largest = self.max_radius or BEST_SPREADS[NOISES[noise]][-1]
        return tuple(largest / RATIO**k for k in reversed(range(GRID)))
