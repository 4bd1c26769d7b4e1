"""What a run computes: every choice with its default. Torch-free, for the command line's help."""

import math
from collections.abc import Collection
from dataclasses import dataclass

from attrcert.attacks import ATTACKS
from attrcert.columns import COLUMNS, METRIC_NAMES, Cell, Column, attack_columns
from attrcert.errors import UsageError
from attrcert.registry import unknown
from attrcert.vocabulary import QUADRATURES, Norm, NormKind, parse_bounding, parse_eps, parse_number

LINF_METHODS = ("scaled", "row-sums", "corollary")
LABEL_CONSTRAINTS = ("check", "tighten", "off")
DEFAULT_SOFTPLUS_BETA = 20.0
LEAST_FAILURE = 1e-100  # quantiles of smaller ones have no digits
DEFAULT_MEMORY = "4GB"
DEFAULT_MAX_HOURS = 12.0
FILLED_IN = ("chunk", "held", "copies")  # of a configuration, by a run; no result depends on them
DEFAULT_SIGMA = 0.1
DEFAULT_RADIUS = 1.0
DTYPES = ("float32", "float64")
ATTACK_NAMES = (*ATTACKS, "worst")
MEASURED = ("twin", "relu")
NOISES = ("uniform", "gaussian")
SPREAD_NAMES = {"uniform": "radius", "gaussian": "sigma"}
BEST_SPREADS = {"uniform": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), "gaussian": (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)}
LARGEST_SPREADS = {"uniform": 8.0, "gaussian": 1.0}
RULE_NAMES = ("tight", "tangent", "published")
CONFIDENCE_NAMES = ("betting", "empirical-bernstein", "mcdiarmid", "clt")
SEARCHES = ("smallest", "descend")
STOPS = ("never", "certified")


@dataclass(frozen=True)
class RunConfig:
    """What every run has: an attribution of a class, perturbations, and the program's own draws."""

    attribution: str = "saliency"
    norm: str = "l2"
    p: float | None = None
    eps: tuple[float, ...] = (0.1,)
    target: str = "predicted"
    ig_steps: int = 20
    quadrature: str = "gauss-legendre"
    baseline: str = "0"
    chunk: int | None = None  # points differentiated together: filled in by a run, and no result depends on it
    held: int | None = None  # of how many the graphs are kept: likewise
    copies: int = 1  # vectors of a sample that are multiplied together where a run has few samples: likewise
    failure: float = 1e-3
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        Norm.parse(self.norm, self.p)
        _one_of("quadrature", self.quadrature, QUADRATURES)
        _one_of("dtype", self.dtype, DTYPES)
        if not self.eps:
            raise UsageError("at least one eps is needed")
        for eps in self.eps:
            parse_eps(eps)
        if len(set(self.eps)) < len(self.eps):
            raise UsageError(f"each eps may be given once, got {', '.join(map(str, self.eps))}")
        if not LEAST_FAILURE <= self.failure < 1:
            raise UsageError(f"failure must be a probability from {LEAST_FAILURE:g} to below 1, got {self.failure}")
        if self.target not in ("predicted", "label") and not self.target.isdecimal():
            raise UsageError(f"target must be predicted, label or a class number, got {self.target!r}")
        _at_least(1, self, "ig_steps")
        _at_least(0, self, "seed")

    @property
    def command(self) -> str:
        """The command that such a configuration belongs to."""
        return "bound"

    @property
    def delta_norm(self) -> Norm:
        return Norm.parse(self.norm, self.p)

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        """What the rows of one sample differ in."""
        return tuple({"eps": eps} for eps in self.eps)

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS[self.command]


@dataclass(frozen=True)
class BoundConfig(RunConfig):
    """The defaults of `attrcert bound`, and their one home."""

    sigma: float = DEFAULT_SIGMA
    radius: float = DEFAULT_RADIUS
    noise_draws: int = 50
    smooth_base: str = "saliency"
    smooth_unit: bool = False
    loss_hessian: bool = False
    linf_method: tuple[str, ...] = ("scaled",)
    label_constraint: str = "check"
    margin_classes: int = 20
    eta_draws: int = 2
    ball: bool = False
    proved: bool = False
    slack: float = 0.01
    max_steps: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("label constraint", self.label_constraint, LABEL_CONSTRAINTS)
        for method in self.linf_method:
            _one_of("linf method", method, LINF_METHODS)
        if not self.linf_method:
            raise UsageError("at least one linf method is needed")
        for name in ("slack", "sigma", "radius"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be positive and finite, got {getattr(self, name)}")
        _at_least(1, self, "max_steps", "margin_classes", "noise_draws")
        _at_least(0, self, "eta_draws")
        for asked, name in ((self.ball, "the ball-wide estimate is"), (self.proved, "proved bounds are")):
            if asked and self.delta_norm.kind is NormKind.LP:
                raise UsageError(f"{name} for l2 and linf, got norm lp")
        if self.proved and self.loss_hessian:
            raise UsageError(
                "proved bounds are of logits' attributions, not of the loss: --proved excludes --loss-hessian"
            )


@dataclass(frozen=True)
class AttackConfig(BoundConfig):
    """The defaults of `attrcert attack`, and their one home."""

    attack: tuple[str, ...] = ("euclidean",)
    steps: int = 30
    step_size: float | None = None
    restarts: int = 3
    random_draws: int = 100
    k: int | None = None
    keep: str | None = None
    target_map: str = "frame"
    map_weight: float = 1.0
    output_weight: float = 1.0
    measure_on: str = "twin"
    direction_beta: str | None = None
    metric: tuple[str, ...] = METRIC_NAMES
    transfer: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.attack:
            _one_of("attack", name, ATTACK_NAMES)
        for name in (*self.metric, *([self.keep] if self.keep else [])):
            _one_of("metric", name, METRIC_NAMES)
        _one_of("measure-on", self.measure_on, MEASURED)
        if not self.attack or len(set(self.attack)) < len(self.attack):
            raise UsageError(f"each attack may be named once, and one at least, got {', '.join(self.attack) or 'none'}")
        if self.delta_norm.kind is NormKind.LP:
            raise UsageError("attacks are for l2 and linf, got norm lp")
        for name in ("map_weight", "output_weight"):
            if not math.isfinite(getattr(self, name)):
                raise UsageError(f"{name.replace('_', ' ')} must be finite, got {getattr(self, name)}")
        _at_least(0, self, "steps", "restarts", "random_draws", "map_weight", "output_weight")
        if self.step_size is not None and not 0 < self.step_size < math.inf:
            raise UsageError(f"step size must be positive and finite, got {self.step_size}")
        if self.k is not None and self.k < 1:
            raise UsageError(f"k must be at least 1, got {self.k}")
        if "random" in self.attack and not self.random_draws:
            raise UsageError("the random attack needs random draws, got 0")
        self.betas()

    @property
    def command(self) -> str:
        return "attack"

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"eps": eps, "attack": attack} for eps in self.eps for attack in self.attack)

    @property
    def columns(self) -> tuple[Column, ...]:
        return attack_columns(self.transfer)

    def betas(self) -> tuple[float, float] | None:
        """The softplus betas at the first and last step, of the model that leads the way; None where it is the bound's own."""
        if self.direction_beta is None:
            return None
        first, colon, last = self.direction_beta.partition(":")
        pair = parse_number(first, "direction beta"), parse_number(last if colon else first, "direction beta")
        if not all(0 < beta < math.inf for beta in pair):
            raise UsageError(f"direction beta must be positive, e.g. 1 or 10:100, got {self.direction_beta}")
        return pair


@dataclass(frozen=True)
class MaxEpsConfig(BoundConfig):
    """First-order `attrcert max-eps`: thresholds on the deviation, the cosine distance and the angle (degrees)."""

    max_deviation: tuple[float, ...] = ()
    max_cosine_distance: tuple[float, ...] = ()
    max_angle: tuple[float, ...] = ()
    corrected: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.thresholds:
            raise UsageError(
                "max-eps needs a threshold",
                hint="e.g. --max-angle 30, --max-deviation 0.5, or --smooth with --min-cosine 0.9",
            )
        limits = {"deviation": math.inf, "cosine-distance": 1.0, "angle": 90.0}
        for kind, value in self.thresholds:
            if not 0 < value < limits[kind]:
                raise UsageError(f"a threshold on the {kind} must be above 0 and below {limits[kind]:g}, got {value:g}")
        if self.proved and self.corrected:
            raise UsageError("--corrected searches with an estimate and --proved with a bound: choose one")
        if self.loss_hessian and self.corrected:
            raise UsageError("the correction c is not searched for with --loss-hessian")

    @property
    def thresholds(self) -> tuple[tuple[str, float], ...]:
        return (
            *(("deviation", value) for value in self.max_deviation),
            *(("cosine-distance", value) for value in self.max_cosine_distance),
            *(("angle", value) for value in self.max_angle),
        )

    @property
    def command(self) -> str:
        return "max-eps"

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"threshold_kind": kind, "threshold": value} for kind, value in self.thresholds)


@dataclass(frozen=True)
class SmoothConfig(RunConfig):
    """Certificates of smoothed attributions, and their inversions: `task` is bound, max-eps or min-radius.

    `spread` are radii of uniform noise or sigmas of Gaussian noise.
    """

    task: str = "bound"
    smooth: str = "uniform"
    spread: tuple[float, ...] = (DEFAULT_RADIUS,)
    best: bool = False
    bounded: str = "unit"
    rule: str = "tight"
    confidence: str = "betting"
    samples: int = 1000
    min_cosine: tuple[float, ...] = ()
    simultaneous: bool = False
    stop_when: str = "never"
    search: str = "smallest"

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("--smooth, the noise,", self.smooth, NOISES)
        _one_of("--rule", self.rule, RULE_NAMES)
        _one_of("--confidence", self.confidence, CONFIDENCE_NAMES)
        _one_of("--search", self.search, SEARCHES)
        _one_of("--stop-when", self.stop_when, STOPS)
        parse_bounding(self.bounded)
        if self.delta_norm.kind is not NormKind.L2:
            raise UsageError(f"smoothing certificates are for l2, got norm {self.norm}")
        self._check_spread()
        if self.samples < 50:
            raise UsageError(f"--samples must be at least 50, got {self.samples}")
        for T in self.min_cosine:
            if not 0 < T < 1:
                raise UsageError(f"--min-cosine must lie strictly between 0 and 1, got {T:g}")
        if self.task in ("max-eps", "min-radius") and not self.min_cosine:
            raise UsageError(f"{self.task} with smoothing needs --min-cosine", hint="e.g. --min-cosine 0.9")
        if self.task == "bound" and len(self.min_cosine) > 1:
            raise UsageError(f"bound takes one --min-cosine, got {', '.join(map(str, self.min_cosine))}")
        if self.stop_when == "certified" and (self.task == "max-eps" or not self.min_cosine):
            raise UsageError(
                "--stop-when certified needs a threshold that is met or not: bound or min-radius with --min-cosine"
            )
        if self.stop_when == "certified" and self.confidence != "betting":
            raise UsageError(f"--stop-when certified goes with --confidence betting alone, got {self.confidence}")
        if self.bounded == "sample-max" and self.rule != "published":
            raise UsageError(
                f"the largest |g| of a sample is no bound: --bounded sample-max goes with --rule published, got {self.rule}"
            )

    def _check_spread(self) -> None:
        name = "--radii" if self.task == "min-radius" else f"--{SPREAD_NAMES[self.smooth]}"
        given = ", ".join(map(str, self.spread)) or "none"
        if not self.spread or any(not 0 < value < math.inf for value in self.spread):
            raise UsageError(f"{name} must be positive and finite, got {given}")
        if len(set(self.spread)) < len(self.spread):
            raise UsageError(f"each {name} may be given once, got {given}")

    @property
    def command(self) -> str:
        return "certify"

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        if self.task == "bound":
            return tuple({"eps": eps, "radius": r} for r in self.spread for eps in self.eps)
        thresholds: tuple[dict[str, Cell], ...] = tuple(
            {"threshold_kind": "cosine", "threshold": T} for T in self.min_cosine
        )
        if self.task == "min-radius":
            return tuple({"eps": eps, **threshold} for eps in self.eps for threshold in thresholds)
        if self.best:
            return thresholds
        return tuple({"radius": r, **threshold} for r in self.spread for threshold in thresholds)


def _at_least(least: int, config: RunConfig, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= least:
            raise UsageError(f"{name.replace('_', ' ')} must be at least {least}, got {getattr(config, name)}")


def _one_of(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise unknown(kind, name, known, where="")
