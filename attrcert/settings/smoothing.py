"""How attributions are averaged over noise, and what is certified of that."""

import math
from dataclasses import dataclass
from typing import Any

from attrcert.bounds.smoothed import RULES
from attrcert.errors import UsageError
from attrcert.settings.declared import METHOD, SMOOTHING, Settings, declared, default_of, setting
from attrcert.settings.explaining import Averaging
from attrcert.statistics import CONFIDENCES
from attrcert.vocabulary import CENTRE, CLT, NOISES, number_or, parse_bounding, parse_number, parse_share

BEST, AUTO = "best", "auto"
LEAST = 50
CHUNK = 25  # draws between two updates of the direction
FIRST_LOOK, MOST = 500, 16_000  # of auto, which looks after twice as many each time
EARLIEST = 200  # of --stop-when certified, which looks after about 1.4 times as many each time
WORTH = 0.02  # what twice as many draws must at least add to the eps that is certified
BEST_SPREADS = {"radius": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), "sigma": (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)}
GRID, RATIO = 12, 1.5  # radii that are tried, and each to the one before


def _draws(text: str, name: str) -> int | str:
    try:
        return AUTO if text == AUTO else int(text)
    except ValueError as error:
        raise UsageError(f"{name} must be a whole number or {AUTO}, got {text!r}") from error


def check_spread(spread: tuple[float, ...], name: str, each: str) -> None:
    """Radii or sigmas must be numbers that can be, each once."""
    given = ", ".join(map(str, spread)) or "none"
    if not spread or any(not 0 < value < math.inf for value in spread):
        raise UsageError(f"{name} must be positive and finite, got {given}")
    if len(set(spread)) < len(spread):
        raise UsageError(f"each {each} may be given once, got {given}")


@dataclass(frozen=True)
class Smoothing(Settings):
    """The noise, what bounds the attribution, and how its mean is bounded from below."""

    smooth: str = setting(
        "uniform",
        f"Certify the attribution averaged over noise: {' or '.join(NOISES)}, with --radius or --sigma. Confidence, not first-order; "
        f"networks run as they are. With bound also {CENTRE}, for comparison: the centre of half of the maps, with --sigma.",
        SMOOTHING, choices=(*NOISES, CENTRE), basic=True,
    )  # fmt: skip
    min_cosine: tuple[float, ...] = setting(
        (), "Least cosine that must be kept, e.g. 0.9; repeatable.", SMOOTHING, read=parse_number, many=True, basic=True,
    )  # fmt: skip
    bounded: str = setting(
        "unit", "What makes |g| <= M hold: unit (g/|g|), clip:Q (at the Q-quantile of a pilot), clip-at:M.", SMOOTHING,
    )  # fmt: skip
    rule: str = setting(
        "auto",
        "From what the draws show to a cosine: auto takes the better of moments (which knows their variance) and tight; published is "
        "false and for comparison only.",
        SMOOTHING, choices=lambda: tuple(RULES),
    )  # fmt: skip
    confidence: str = setting(
        "betting", f"How the length is bounded from below; {CLT} is the paper's, not a confidence bound.",
        SMOOTHING, choices=lambda: (*CONFIDENCES, CLT),
    )  # fmt: skip
    samples: int | str = setting(
        2000,
        f"Draws of the noise, {LEAST} at least; or auto: until twice as many reach less than {WORTH:.0%} farther, {MOST:,} at most.",
        SMOOTHING, read=_draws, flags=("--samples", "--samples-max"), least=LEAST, basic=True,
    )  # fmt: skip
    stop_when: str = setting(
        "never", "Stop drawing once --min-cosine is certified or out of reach.", SMOOTHING, choices=("never", "certified"),
    )  # fmt: skip
    simultaneous: bool = setting(
        False, "--failure for all samples and radii together (a union bound), not for each.", SMOOTHING
    )

    @property
    def noise(self) -> str:
        """What is drawn."""
        return "gaussian" if self.smooth == CENTRE else self.smooth

    @property
    def covariance(self) -> bool:
        """Whether the variance of the draws is bounded too."""
        return RULES.make(self.rule).covariance

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of draws at which a sample may stop, fixed before any is drawn; the last is the most."""
        if isinstance(self.samples, str):
            return tuple(FIRST_LOOK * 2**j for j in range(round(math.log2(MOST / FIRST_LOOK)) + 1))
        if self.stop_when == "never":
            return (self.samples,)
        steps = range(max(0, math.ceil(2 * math.log2(self.samples / EARLIEST))))
        return (*dict.fromkeys(CHUNK * round(EARLIEST * 2 ** (j / 2) / CHUNK) for j in steps), self.samples)

    def check(self) -> None:
        if not isinstance(self.samples, str | int):
            raise UsageError(f"--samples must be a whole number or {AUTO}, got {self.samples}")
        parse_bounding(self.bounded)
        for T in self.min_cosine:
            if not 0 < T < 1:
                raise UsageError(f"--min-cosine must lie strictly between 0 and 1, got {T:g}")
        if len(self.looks) > 1 and self.confidence != "betting":
            how = "--stop-when certified" if self.stop_when == "certified" else f"--samples {AUTO}"
            raise UsageError(f"{how} goes with --confidence betting alone, got {self.confidence}")
        if isinstance(self.samples, str) and self.smooth == CENTRE:
            raise UsageError(f"--smooth {CENTRE} needs a number of --samples, got {AUTO}")
        if isinstance(self.samples, str) and self.rule == "published":
            raise UsageError(f"--samples {AUTO} needs a rule that certifies, got --rule published")
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
        check_spread(spread, f"--{name}", name)
        return spread, False


@dataclass(frozen=True)
class Pixels(Settings):
    """Which pixels are certified."""

    certify_pixels: float | None = setting(
        None, "Certify pixel by pixel which stay among the largest, e.g. 10%, and which stay outside; gaussian noise.", SMOOTHING,
        read=parse_share, metavar="<share>", basic=True,
    )  # fmt: skip
    pixel_level: float = setting(
        0.75,
        "With --certify-pixels: a certified pixel is on its side in more than this share of the noise. A higher level certifies fewer "
        "pixels, within a larger radius.", SMOOTHING, least=0.5,
    )  # fmt: skip

    def check(self) -> None:
        if self.certify_pixels is not None and not 0 < self.certify_pixels < 1:
            raise UsageError(
                f"--certify-pixels must lie strictly between 0 and 1, got {self.certify_pixels:g}",
                hint="e.g. 10% or 0.1: the largest tenth of the pixels",
            )
        if not self.pixel_level < 1:
            raise UsageError(f"--pixel-level must be from 0.5 to below 1, got {self.pixel_level:g}")


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
            check_spread(self.radii, "--radii", "radius")

    def of(self, noise: str) -> tuple[float, ...]:
        """The radii of uniform noise, or the sigmas of Gaussian noise, from the smallest."""
        if self.radii:
            return tuple(sorted(self.radii))
        largest = self.max_radius or BEST_SPREADS[NOISES[noise]][-1]
        return tuple(largest / RATIO**k for k in reversed(range(GRID)))
