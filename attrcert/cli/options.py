"""Options that several commands share, in groups, and how their texts become values. Nothing here imports torch."""

import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attrcert.errors import UsageError
from attrcert.loading.files import DEFAULT_MAX_INPUT
from attrcert.running.settings.config import (
    DEFAULT_MAX_HOURS,
    DEFAULT_MEMORY,
    DEFAULT_RADIUS,
    DEFAULT_SIGMA,
    DEFAULT_SOFTPLUS_BETA,
    BoundConfig,
)
from attrcert.vocabulary import parse_eps, parse_indices, parse_number, parse_shard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrcert.columns import Column, Row
    from attrcert.loading.checkpoints import ModelSpec
    from attrcert.loading.datasets import DataSpec
    from attrcert.reporting.gating.rules import Rule
    from attrcert.running.engines.engine import Engine
    from attrcert.running.opening.runs import RunOptions

METHOD, SOLVER, MODEL, DATA, RUN, OUTPUT = "Method", "Solver", "Model", "Data", "Run", "Output"
FORMATS = ("table", "json", "csv", "markdown")
ENGINES = ("local", "ray")
BUNDLED_LIMIT = 64
DEFAULTS = BoundConfig()

Checkpoint = Annotated[
    str | None,
    typer.Argument(
        help="A bundled model's name, a .safetensors file, or a .pt/.pth/.th state dict. Default: fashion-natural.",
        show_default=False,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Argument(
        help="A bundled sample's name, an .npz (images, labels), a folder of images, torchvision:NAME:SPLIT, or "
        "module:factory. Default: fashion-test.",
        show_default=False,
    ),
]

Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...", rich_help_panel=RUN)]
Dtype = Annotated[str, typer.Option(help="float32 or float64.", rich_help_panel=RUN)]


@dataclass(frozen=True)
class ModelGroup:
    """Where the model comes from."""

    arch: Annotated[
        str | None,
        typer.Option(
            help="bundled name, torchvision:NAME, package.module:factory or path/to/file.py:factory. The last two run that code.",
            rich_help_panel=MODEL,
        ),
    ] = None
    arch_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument of the architecture; repeatable.", rich_help_panel=MODEL),
    ] = None
    output: Annotated[
        str | None,
        typer.Option("--output", help="Which entry of a tuple or dict output holds the logits.", rich_help_panel=MODEL),
    ] = None
    mean: Annotated[
        str | None,
        typer.Option(
            help="Per-channel mean that the model's normalisation subtracts, e.g. 0.49,0.48,0.45.",
            rich_help_panel=MODEL,
        ),
    ] = None
    std: Annotated[
        str | None, typer.Option(help="Per-channel standard deviation, e.g. 0.25,0.24,0.26.", rich_help_panel=MODEL)
    ] = None
    softplus_beta: Annotated[
        str,
        typer.Option(
            help="Run ReLUs as softplus with this beta (their Hessian is zero otherwise); 'none' runs the network "
            "as it is. Smooth networks are not changed.",
            rich_help_panel=MODEL,
        ),
    ] = f"{DEFAULT_SOFTPLUS_BETA:g}"

    def spec(self, checkpoint: str | None, max_input: str) -> "ModelSpec":
        from attrcert.loading import bundled
        from attrcert.loading.architectures import parse_argument
        from attrcert.loading.checkpoints import ModelSpec

        return ModelSpec(
            checkpoint=checkpoint or bundled.DEFAULT_MODEL,
            arch=self.arch,
            arch_args=dict(parse_argument(argument) for argument in self.arch_arg or ()),
            mean=numbers(self.mean, "--mean"),
            std=numbers(self.std, "--std"),
            output=self.output,
            beta=beta(self.softplus_beta),
            max_input=max_input,
        )


@dataclass(frozen=True)
class DataGroup:
    """Which images."""

    data_root: Annotated[str, typer.Option(help="Folder of torchvision datasets.", rich_help_panel=DATA)] = "data"
    download: Annotated[
        bool, typer.Option("--download", help="Let torchvision download the dataset.", rich_help_panel=DATA)
    ] = False
    resize: Annotated[
        int | None, typer.Option(min=1, help="Resize the shorter side to this many pixels.", rich_help_panel=DATA)
    ] = None
    crop: Annotated[
        int | None, typer.Option(min=1, help="Crop the centre to this many pixels.", rich_help_panel=DATA)
    ] = None
    channels: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=3,
            help="1 decodes image files as grey, 3 as RGB. Default: what the model takes.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None
    skip: Annotated[int, typer.Option(min=0, help="Skip this many samples.", rich_help_panel=DATA)] = 0
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Use at most this many samples. Default: all; 64 where DATASET is omitted.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None
    indices: Annotated[str | None, typer.Option(help="Use these samples, e.g. 3,17,100-199.", rich_help_panel=DATA)] = (
        None
    )

    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Use every N-th of these samples, from the I-th: one of N runs, whose CSVs `attrcert merge` joins.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None

    max_input: Annotated[
        str,
        typer.Option(
            help="Refuse a compressed checkpoint or .npz, or a picture, that would fill more memory than this, e.g. 8GB.",
            rich_help_panel=DATA,
        ),
    ] = DEFAULT_MAX_INPUT

    def spec(self, dataset: str | None, *, bundled_limit: int | None = None) -> "DataSpec":
        """`bundled_limit` is what of the bundled sample is taken where nothing is said."""
        from attrcert.loading import bundled
        from attrcert.loading.datasets import DataSpec

        unsaid = dataset is None and self.limit is None and self.indices is None
        return DataSpec(
            dataset=dataset or bundled.DEFAULT_SAMPLE,
            data_root=self.data_root,
            download=self.download,
            resize=self.resize,
            crop=self.crop,
            channels=self.channels,
            skip=self.skip,
            limit=bundled_limit if unsaid else self.limit,
            indices=parse_indices(self.indices) if self.indices else None,
            shard=parse_shard(self.shard) if self.shard else None,
            max_input=self.max_input,
        )


@dataclass(frozen=True)
class MethodGroup:
    """What is bounded, and by which means: fields of the configuration."""

    attribution: Annotated[
        str,
        typer.Option(
            help="saliency (sm), input-x-gradient (ixg), integrated-gradients (ig), smooth-grad (sg) or "
            "uniform-smooth (us).",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.attribution
    norm: Annotated[
        str, typer.Option(help="Of the perturbation: l2, linf, or lp with --p.", rich_help_panel=METHOD)
    ] = DEFAULTS.norm
    p: Annotated[float | None, typer.Option(help="Exponent for --norm lp.", rich_help_panel=METHOD)] = DEFAULTS.p
    eps: Annotated[
        list[str],
        typer.Option(
            help="Size of the perturbation in pixel units [0,1], e.g. 0.1 or 8/255; repeatable.", rich_help_panel=METHOD
        ),
    ] = field(default_factory=lambda: [f"{eps:g}" for eps in DEFAULTS.eps])
    target: Annotated[
        str, typer.Option(help="Explained class: predicted, label, or a class number.", rich_help_panel=METHOD)
    ] = DEFAULTS.target
    ig_steps: Annotated[int, typer.Option(help="Nodes of integrated gradients.", rich_help_panel=METHOD)] = (
        DEFAULTS.ig_steps
    )
    quadrature: Annotated[
        str, typer.Option(help="gauss-legendre or riemann-right (the papers').", rich_help_panel=METHOD)
    ] = DEFAULTS.quadrature
    baseline: Annotated[
        str,
        typer.Option(
            help="Of integrated gradients: a pixel value, mean (what normalisation maps to 0), or blur.",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.baseline
    sigma: Annotated[
        list[str] | None,
        typer.Option(
            help="Standard deviation of Gaussian noise, in pixel units; with --smooth repeatable, with max-eps also best. "
            f"Default: {DEFAULT_SIGMA:g}.",
            show_default=False,
            rich_help_panel=METHOD,
        ),
    ] = None
    radius: Annotated[
        list[str] | None,
        typer.Option(
            help="Radius of uniform noise in the l2 ball, in pixel units; with --smooth repeatable, with max-eps also best. "
            f"Default: {DEFAULT_RADIUS:g}.",
            show_default=False,
            rich_help_panel=METHOD,
        ),
    ] = None
    noise_draws: Annotated[
        int, typer.Option(help="Noise draws of a smoothed attribution, fixed per sample.", rich_help_panel=METHOD)
    ] = DEFAULTS.noise_draws
    smooth_base: Annotated[str, typer.Option(help="The attribution that is smoothed.", rich_help_panel=METHOD)] = (
        DEFAULTS.smooth_base
    )
    smooth_unit: Annotated[
        bool,
        typer.Option(
            "--smooth-unit",
            help="Smooth the direction g/|g|: the map that --smooth with --bounded unit certifies, to attack it.",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.smooth_unit
    linf_method: Annotated[
        list[str],
        typer.Option(
            help="scaled, row-sums (forms d x d matrices), corollary; repeatable, the smallest wins.",
            rich_help_panel=METHOD,
        ),
    ] = field(default_factory=lambda: list(DEFAULTS.linf_method))
    label_constraint: Annotated[
        str,
        typer.Option(
            help="check whether the worst perturbations keep the label; tighten the bound where both signs lose it; off.",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.label_constraint
    margin_classes: Annotated[
        int, typer.Option(help="Nearest classes looked at for the label margin.", rich_help_panel=METHOD)
    ] = DEFAULTS.margin_classes
    eta_draws: Annotated[int, typer.Option(help="Random perturbations for eta_random.", rich_help_panel=METHOD)] = (
        DEFAULTS.eta_draws
    )
    ball: Annotated[
        bool,
        typer.Option(
            "--ball",
            help="Also estimate the bound over the whole ball: eps times the largest gain found in it (l2, linf).",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.ball
    proved: Annotated[
        bool,
        typer.Option(
            "--proved",
            help="Also bound the change for every perturbation in the ball, in float64, for networks of affine layers and smooth "
            "activations (l2, linf). Dearer: forms d x d matrices.",
            rich_help_panel=METHOD,
        ),
    ] = DEFAULTS.proved
    slack: Annotated[
        float,
        typer.Option(help="Stop when the upper end is within this of the lower one, relative.", rich_help_panel=SOLVER),
    ] = DEFAULTS.slack
    failure: Annotated[
        float,
        typer.Option(
            help="Probability, per sample, that an upper end is too small; with --smooth, that a row claims too much.",
            rich_help_panel=SOLVER,
        ),
    ] = DEFAULTS.failure
    max_steps: Annotated[
        int, typer.Option(help="Lanczos steps after which a sample is not-converged.", rich_help_panel=SOLVER)
    ] = DEFAULTS.max_steps

    def settings(self) -> dict[str, Any]:
        """The fields of a configuration, without the noise."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("sigma", "radius")}
        return {**given, "eps": tuple(parse_eps(e) for e in words(self.eps)), "linf_method": words(self.linf_method)}

    def single(self) -> dict[str, Any]:
        """The same with the one radius or sigma of a smoothed attribution."""
        noise = {"sigma": (self.sigma, DEFAULT_SIGMA), "radius": (self.radius, DEFAULT_RADIUS)}
        for name, (given, _) in noise.items():
            if given and len(words(given)) > 1:
                raise UsageError(f"several values of --{name} go with --smooth only, got {', '.join(given)}")
            if given == ["best"]:
                raise UsageError(
                    f"--{name} best is for max-eps --smooth, which takes the best of a grid for each sample"
                )
        values = {
            name: parse_number(given[0], f"--{name}") if given else default for name, (given, default) in noise.items()
        }
        return {**self.settings(), **values}


@dataclass(frozen=True)
class RunGroup:
    """How to compute."""

    device: Device = "auto"
    dtype: Dtype = DEFAULTS.dtype
    batch_size: Annotated[
        str, typer.Option(help="Samples at once, or auto: as many as fit into --memory.", rich_help_panel=RUN)
    ] = "auto"
    chunk: Annotated[
        str,
        typer.Option(
            "--chunk",
            "--ig-chunk",
            help="Points (samples times nodes or draws) differentiated together, or auto: the fastest of a few sizes, measured on "
            "the first samples where the run is long enough.",
            rich_help_panel=RUN,
        ),
    ] = "auto"
    memory: Annotated[
        str, typer.Option(help="What the graphs and bases of a batch may fill, e.g. 4GB.", rich_help_panel=RUN)
    ] = DEFAULT_MEMORY
    max_hours: Annotated[
        float, typer.Option(help="Refuse row sums that are estimated to take longer.", rich_help_panel=RUN)
    ] = DEFAULT_MAX_HOURS
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="CPU threads of each process. Default: all cores, which local workers share; a Ray worker has one.",
            show_default=False,
            rich_help_panel=RUN,
        ),
    ] = None
    seed: Annotated[
        int, typer.Option(min=0, help="Random draws depend on this and the sample's index alone.", rich_help_panel=RUN)
    ] = DEFAULTS.seed
    max_incomplete: Annotated[
        float,
        typer.Option(min=0, max=1, help="Exit 4 if a larger share of samples has no figure.", rich_help_panel=RUN),
    ] = 0.0
    engine: Annotated[
        str,
        typer.Option(help="Where batches are computed: local, or ray (needs attrcert\\[ray]).", rich_help_panel=RUN),
    ] = "local"
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="Processes (local) or actors (ray), each with a model of its own.", rich_help_panel=RUN
        ),
    ] = 1
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Of a Ray cluster, or auto for the one of this machine. Default: Ray is started here.",
            show_default=False,
            rich_help_panel=RUN,
        ),
    ] = None
    gpus_per_worker: Annotated[
        float, typer.Option(min=0, help="GPUs, or a share of one, that Ray gives to each worker.", rich_help_panel=RUN)
    ] = 0.0

    def settings(self) -> dict[str, Any]:
        """Those of them that results depend on."""
        return {"dtype": self.dtype, "seed": self.seed}

    def options(self) -> "RunOptions":
        from attrcert.running.opening.runs import RunOptions

        sharing = self.workers if self.engine == "local" else 1
        return RunOptions(
            device=self.device,
            batch_size=size(self.batch_size, "--batch-size"),
            memory=self.memory,
            sharing=sharing,
            chunk=size(self.chunk, "--chunk"),
            max_hours=self.max_hours,
            threads=self.threads,
        )

    def made_engine(self) -> "Engine":
        """Who computes."""
        from functools import partial

        from attrcert.running.engines.engine import Here, Spread

        if self.engine not in ENGINES:
            raise UsageError(f"--engine must be one of {', '.join(ENGINES)}, got {self.engine!r}")
        if self.engine == "local":
            if self.ray_address is not None or self.gpus_per_worker:
                raise UsageError("--ray-address and --gpus-per-worker go with --engine ray")
            if self.workers == 1:
                return Here()
            from attrcert.running.engines.local_workers import Processes

            return Spread(partial(Processes, workers=self.workers), self.workers)
        try:
            from attrcert.running.engines.apart import Apart
            from attrcert.running.engines.ray_workers import Actors
        except ModuleNotFoundError as error:
            raise UsageError("--engine ray needs Ray", hint="pip install 'attrcert[ray]'") from error
        return Apart(partial(Actors, address=self.ray_address, gpus=self.gpus_per_worker), self.workers)


@dataclass(frozen=True)
class OutputGroup:
    """Where results go."""

    out: Annotated[
        Path | None,
        typer.Option(help="CSV with one row per sample and case; the manifest goes beside it.", rich_help_panel=OUTPUT),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run that --out holds.", rich_help_panel=OUTPUT)
    ] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what --out holds.", rich_help_panel=OUTPUT)
    ] = False
    format_: Annotated[
        str, typer.Option("--format", help="Format of stdout: table, json, csv or markdown.", rich_help_panel=OUTPUT)
    ] = "table"
    json_: Annotated[bool, typer.Option("--json", help="The same as --format json.", rich_help_panel=OUTPUT)] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no warnings on stderr.", rich_help_panel=OUTPUT)
    ] = False
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help='Judge the rows and exit 1 if this does not hold, e.g. "p95(T_c_deg) <= 30"; repeatable. See `attrcert gate`.',
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f"--format must be one of {', '.join(FORMATS)}, got {self.format!r}")

    def needs_file(self, other: Path | None = None) -> None:
        """--resume continues a CSV; --overwrite replaces it, or another file that the command writes."""
        if self.out is None and (self.resume or (self.overwrite and other is None)):
            raise UsageError("--resume and --overwrite need --out")

    @property
    def format(self) -> str:
        return "json" if self.json_ else self.format_

    def rules(self, columns: "Sequence[Column]", cases: "Sequence[Row]") -> "tuple[Rule, ...]":
        """What is required of rows with these columns in these cases; read before anything is computed.

        A filter on what the cases do not tell is left to the judgement.
        """
        from attrcert.reporting.gating.rules import parse_rule
        from attrcert.reporting.gating.selections import applies, no_run_has
        from attrcert.saved.runfiles import table_of

        rules = tuple(parse_rule(text) for text in self.require or ())
        expected = table_of([{"index": 0, "status": "ok", **case} for case in cases], columns, "", "the run")
        told = {name for case in cases for name in case}
        for rule in rules:
            filters = tuple(
                term for term in rule.figure.filters if term.column in told or term.column not in expected.header
            )
            if not applies(replace(rule.figure, filters=filters), expected):
                raise no_run_has(rule.figure, [expected])
            if not set(rule.figure.columns) <= set(expected.header):
                raise no_run_has(rule.figure, [expected])
        return rules


def numbers(text: str | None, name: str) -> tuple[float, ...] | None:
    """Comma-separated numbers."""
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{name} must be numbers such as 0.49,0.48,0.45, got {text!r}") from error
    if not all(math.isfinite(value) for value in values):
        raise UsageError(f"{name} must be finite numbers, got {text}")
    return values


def beta(text: str) -> float | None:
    """A positive number, or none."""
    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError(f"--softplus-beta must be a number or none, got {text!r}") from error
    if not 0 < value < math.inf:
        raise UsageError(f"--softplus-beta must be positive and finite, got {text}")
    return value


def size(text: str, name: str) -> int | None:
    """A whole number, or auto."""
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name} must be auto or a whole number of at least 1, got {text!r}")
    return int(text)


def words(given: list[str]) -> tuple[str, ...]:
    """Repeated or comma-separated words."""
    return tuple(word.strip() for part in given for word in part.split(",") if word.strip())
