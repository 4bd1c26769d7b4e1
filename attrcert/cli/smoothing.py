"""Options of the smoothing certificates, and the configurations that they make."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from attrcert.cli.groups import said
from attrcert.cli.options import MethodGroup, RunGroup, words
from attrcert.errors import UsageError
from attrcert.running.settings.config import (
    BEST_SPREADS,
    CONFIDENCE_NAMES,
    DEFAULT_RADIUS,
    DEFAULT_SIGMA,
    LARGEST_SPREADS,
    NOISES,
    RULE_NAMES,
    SPREAD_NAMES,
    STOPS,
    SmoothConfig,
)
from attrcert.vocabulary import parse_number

SMOOTHING = "Smoothing"
DEFAULTS = SmoothConfig()
SHARED = ("attribution", "norm", "p", "eps", "target", "ig_steps", "quadrature", "baseline", "failure")


@dataclass(frozen=True)
class SmoothGroup:
    """How the attribution is smoothed and its length bounded from below."""

    smooth: Annotated[
        str | None,
        typer.Option(
            help=f"Certify the attribution averaged over noise: {' or '.join(NOISES)}, with --radius or --sigma. "
            "Confidence, not first-order; networks run as they are.",
            show_default=False,
            rich_help_panel=SMOOTHING,
        ),
    ] = None
    min_cosine: Annotated[
        list[str] | None,
        typer.Option(
            help="Least cosine that must be kept, e.g. 0.9; repeatable.", show_default=False, rich_help_panel=SMOOTHING
        ),
    ] = None
    bounded: Annotated[
        str,
        typer.Option(
            help="What makes |g| <= M hold: unit (g/|g|), clip:Q (at the Q-quantile of a pilot), clip-at:M.",
            rich_help_panel=SMOOTHING,
        ),
    ] = DEFAULTS.bounded
    rule: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(RULE_NAMES)}; the last is false and for comparison only.",
            rich_help_panel=SMOOTHING,
        ),
    ] = DEFAULTS.rule
    confidence: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(CONFIDENCE_NAMES)}; the last is the paper's, not a confidence bound.",
            rich_help_panel=SMOOTHING,
        ),
    ] = DEFAULTS.confidence
    samples: Annotated[
        int,
        typer.Option("--samples", "--samples-max", help="Draws of the noise, 50 at least.", rich_help_panel=SMOOTHING),
    ] = DEFAULTS.samples
    stop_when: Annotated[
        str,
        typer.Option(
            help=f"{' or '.join(STOPS)}: stop drawing once --min-cosine is certified or out of reach.",
            rich_help_panel=SMOOTHING,
        ),
    ] = DEFAULTS.stop_when
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            help="--failure for all samples and radii together (a union bound), not for each.",
            rich_help_panel=SMOOTHING,
        ),
    ] = DEFAULTS.simultaneous

    def config(self, task: str, method: MethodGroup, run: RunGroup, **others: Any) -> SmoothConfig:
        """What a task computes; `others` are its own fields."""
        if method.proved:
            raise UsageError(
                "--proved bounds attributions as they are, and --smooth certifies smoothed ones: choose one"
            )
        noise = self.smooth or DEFAULTS.smooth
        shared = {name: value for name, value in method.settings().items() if name in SHARED}
        given: dict[str, Any] = {
            **({} if "spread" in others else spreads(noise, task, method)),
            "bounded": self.bounded,
            "rule": self.rule,
            "confidence": self.confidence,
            "samples": self.samples,
            "stop_when": self.stop_when,
            "simultaneous": self.simultaneous,
            "min_cosine": tuple(parse_number(word, "--min-cosine") for word in words(self.min_cosine or [])),
        }
        return SmoothConfig(task=task, smooth=noise, **shared, **run.settings(), **{**given, **others})

    def unused(self, context: Any) -> None:
        """Without --smooth its options mean nothing."""
        for name in ("min_cosine", "rule", "bounded", "confidence", "samples", "stop_when", "simultaneous"):
            if said(context, name):
                raise UsageError(
                    f"--{name.replace('_', '-')} is for smoothed attributions", hint="add --smooth uniform --radius R"
                )


@dataclass(frozen=True)
class ThresholdGroup:
    """First-order thresholds of `max-eps`."""

    max_deviation: Annotated[
        list[str] | None,
        typer.Option(help="Largest |g(x+delta) - g(x)|_2; repeatable.", rich_help_panel="Threshold"),
    ] = None
    max_cosine_distance: Annotated[
        list[str] | None,
        typer.Option(help="Largest 1 - cosine, below 1; repeatable.", rich_help_panel="Threshold"),
    ] = None
    max_angle: Annotated[
        list[str] | None,
        typer.Option(help="Largest angle in degrees, below 90; repeatable.", rich_help_panel="Threshold"),
    ] = None
    corrected: Annotated[
        bool,
        typer.Option(
            "--corrected",
            help="Search with the measured correction c(eps): an eps at which the corrected bound meets the threshold (below it may not).",
            rich_help_panel="Threshold",
        ),
    ] = False

    def settings(self) -> dict[str, Any]:
        """The fields of a configuration."""
        lists = {name: getattr(self, name) for name in ("max_deviation", "max_cosine_distance", "max_angle")}
        return {
            "corrected": self.corrected,
            **{
                name: tuple(parse_number(word, f"--{name.replace('_', '-')}") for word in words(given or []))
                for name, given in lists.items()
            },
        }


@dataclass(frozen=True)
class GridGroup:
    """The radii of `min-radius`."""

    radii: Annotated[
        list[str] | None,
        typer.Option(help="The grid of radii, or of sigmas, e.g. 0.5,1,2,4.", rich_help_panel=SMOOTHING),
    ] = None
    max_radius: Annotated[
        float | None,
        typer.Option(
            help="Without --radii: 12 radii or sigmas up to this one, each 1.5 times the one before. "
            f"Default: {LARGEST_SPREADS['uniform']:g}; gaussian {LARGEST_SPREADS['gaussian']:g}.",
            show_default=False,
            rich_help_panel=SMOOTHING,
        ),
    ] = None
    search: Annotated[
        str,
        typer.Option(
            help="smallest: test every radius at a share of the failure; descend: from the largest, until the first that fails.",
            rich_help_panel=SMOOTHING,
        ),
    ] = DEFAULTS.search

    def grid(self, noise: str) -> tuple[float, ...]:
        if self.radii and self.max_radius is not None:
            raise UsageError("--max-radius makes a grid where there are no --radii: give one of them")
        if self.radii:
            return tuple(sorted(parse_number(word, "--radii") for word in words(self.radii)))
        largest = LARGEST_SPREADS.get(noise, 1.0) if self.max_radius is None else self.max_radius
        if not 0 < largest < math.inf:
            raise UsageError(f"--max-radius must be positive and finite, got {largest:g}")
        return tuple(largest / 1.5**k for k in reversed(range(12)))


def spreads(noise: str, task: str, method: MethodGroup) -> dict[str, Any]:
    """The radii of uniform noise, or the sigmas of Gaussian noise: given, the default, or the grid that `best` chooses from."""
    uniform = noise == "uniform"
    name, given, other = (
        ("--radius", method.radius, method.sigma) if uniform else ("--sigma", method.sigma, method.radius)
    )
    if other:
        raise UsageError(f"{noise} noise takes {name}, not --{SPREAD_NAMES['gaussian' if uniform else 'uniform']}")
    if given != ["best"]:
        default = DEFAULT_RADIUS if uniform else DEFAULT_SIGMA
        return {"spread": tuple(parse_number(word, name) for word in words(given)) if given else (default,)}
    if task != "max-eps":
        raise UsageError(
            f"{name} best is for max-eps, which takes the best of a grid for each sample; {task} needs numbers"
        )
    return {"spread": BEST_SPREADS.get(noise, ()), "best": True}
