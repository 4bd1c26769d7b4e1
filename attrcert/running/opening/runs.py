"""A run from a model and data to rows: the one path that the command line and the library share."""

import math
import platform
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attrcert.bounds.first_order.linf_row_sums import check_hours
from attrcert.columns import Cell, Row, filled
from attrcert.errors import DataError, SampleError, UsageError
from attrcert.linalg.maps import usual_chunk
from attrcert.loading import bundled
from attrcert.loading.checkpoints import LoadedModel, ModelSpec, load_model
from attrcert.loading.datasets import DataSpec, LoadedData, chosen, load_data, look_for, wrap
from attrcert.networks.classifier import Classifier
from attrcert.registry import unknown
from attrcert.running.checks.findings import Fidelity, Finding, Level, before_run, curvature, diagnose, piecewise_linear
from attrcert.running.evaluating.attacking import WORST, Deltas, Setting, attack_subject, default_k
from attrcert.running.evaluating.cells import bound_subject
from attrcert.running.evaluating.evaluate import Limit, RowsOf, evaluate, read, with_derivatives
from attrcert.running.evaluating.inverting import invert_subject
from attrcert.running.evaluating.methods import canonical, configuration, explainer, torch_dtype
from attrcert.running.evaluating.proving import Proving, proving
from attrcert.running.evaluating.rounding import Otherwise, otherwise
from attrcert.running.evaluating.smoothing import smooth_rows
from attrcert.running.opening.memory import Plan, noisy_samples, plan
from attrcert.running.opening.target_maps import target_map
from attrcert.running.opening.tuning import fastest_chunk, product_seconds
from attrcert.running.settings.config import (
    DEFAULT_MAX_HOURS,
    DEFAULT_MEMORY,
    DEFAULT_SOFTPLUS_BETA,
    FILLED_IN,
    SPREAD_NAMES,
    AttackConfig,
    BoundConfig,
    MaxEpsConfig,
    RunConfig,
    SmoothConfig,
)
from attrcert.saved.rowfiles import RowFile
from attrcert.vocabulary import NormKind, indices_text, parse_bytes, readable_bytes

PROBED = 64
USUAL_STEPS = 60  # Krylov vectors that a sample needs at most, as a rule
VECTORS_A_START = 12  # iterate, ball, anchor, gradient, best, and copies on the way
Model = nn.Module | Classifier | ModelSpec | str
OUTER = ("mean", "std", "output", "softplus_beta", "limit", "options")  # settings that are not a configuration's
LISTS = (
    "eps",
    "linf_method",
    "attack",
    "metric",
    "transfer",
    "spread",
    "min_cosine",
    "max_deviation",
    "max_cosine_distance",
    "max_angle",
)
UNMEASURED = Finding(
    "rounding",
    Level.WARN,
    "not measured: the model does not run in float64",
    "a usual allowance is made for it instead",
)
REPORTED_VERSIONS = ("attrcert", "torch", "torchvision", "numpy", "scipy")


@dataclass(frozen=True)
class RunOptions:
    """How to compute, which no result depends on."""

    device: str = "auto"
    batch_size: int | None = None
    memory: str = DEFAULT_MEMORY
    sharing: int = 1  # workers that share the memory
    chunk: int | None = None  # points differentiated together; None: the fastest
    max_hours: float = DEFAULT_MAX_HOURS
    threads: int | None = None  # of each process, as long as it lives; None: all cores, which local workers share

    def __post_init__(self) -> None:
        parse_bytes(self.memory)
        for name, value in (("batch size", self.batch_size), ("chunk", self.chunk), ("threads", self.threads)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        if not self.max_hours > 0:
            raise UsageError(f"max hours must be positive, got {self.max_hours}")

    def take_threads(self) -> None:
        """From now on this process has as many as were asked for, which torch does not know by run."""
        if self.threads:
            torch.set_num_threads(self.threads)

    def torch_device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"device {self.device!r} cannot be used: {str(error).splitlines()[0]}") from error
        return device


@dataclass(frozen=True)
class Source:
    """What a run was opened from: another process can open it again."""

    model: ModelSpec
    data: DataSpec
    config: RunConfig
    options: RunOptions


@dataclass(frozen=True)
class Run:
    """A checked model, data and configuration, ready to give rows."""

    classifier: Classifier
    data: LoadedData
    config: RunConfig
    device: torch.device
    shape: tuple[int, ...]
    batch_size: int
    fidelity: Fidelity | None
    findings: tuple[Finding, ...]
    model_facts: Mapping[str, Any]
    points: int
    target: Tensor | None = None
    prover: Proving | None = None
    other: Otherwise | None = None
    source: Source | None = None
    limit: Limit = field(default_factory=Limit)

    def rows(
        self,
        *,
        finished: Collection[Cell] = (),
        size: int | None = None,
        save: Deltas | None = None,
        warn: Callable[[str], None],
    ) -> Iterator[list[Row]]:
        """Rows a batch at a time. Batches stay the same when some samples are finished, and so do their results.

        An attack's perturbations are given to `save` before their rows.
        """
        for rows in self._evaluated(self.open_batches(finished, size or self.batch_size), save, warn):
            yield [row for row in rows if row["index"] not in finished]

    def open_batches(self, finished: Collection[Cell], size: int) -> list[tuple[int, ...]]:
        """The batches with a sample that is not finished."""
        batches = [self.data.indices[i : i + size] for i in range(0, len(self.data.indices), size)]
        return [batch for batch in batches if not all(index in finished for index in batch)]

    def batch(self, indices: tuple[int, ...], *, save: Deltas | None, warn: Callable[[str], None]) -> list[Row]:
        """The rows of one batch."""
        return next(self._evaluated([indices], save, warn))

    def _evaluated(
        self, batches: list[tuple[int, ...]], save: Deltas | None, warn: Callable[[str], None]
    ) -> Iterator[list[Row]]:
        return evaluate(
            self.classifier,
            self.data.images,
            batches,
            self.config,
            self._rows_of(save),
            device=self.device,
            shape=self.shape,
            limit=self.limit,
            warn=warn,
        )

    def _rows_of(self, save: Deltas | None) -> RowsOf:
        config = self.config
        if isinstance(config, SmoothConfig):
            return partial(smooth_rows, config=config, points=self.points, samples=len(self.data.selected))
        assert isinstance(config, BoundConfig)
        if isinstance(config, AttackConfig):
            attacked = partial(attack_subject, setting=Setting(self.target, save))
            return with_derivatives(config, attacked, self.prover, self.other)
        rows_of = invert_subject if isinstance(config, MaxEpsConfig) else bound_subject
        return with_derivatives(config, rows_of, self.prover, self.other)

    def with_chunk(self, chunk: int | None) -> "Run":
        """The same with another number of points differentiated together."""
        source = self.source and replace(self.source, options=replace(self.source.options, chunk=chunk))
        return replace(self, config=replace(self.config, chunk=chunk), source=source)

    def file(
        self, path: str | Path, *, resume: bool = False, overwrite: bool = False, save_deltas: bool = False
    ) -> RowFile:
        """A CSV for the rows and a manifest beside it, as --out writes them; `save_deltas` where the perturbations are kept too."""
        config = self.config
        return RowFile(
            Path(path),
            config.command,
            {**self.identity(), **({"save_deltas": True} if save_deltas else {})},
            columns=config.columns,
            cases=config.cases,
            samples=frozenset(self.data.indices),
            resume=resume,
            overwrite=overwrite,
        )

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run."""
        beta = self.classifier.beta if self.fidelity else None
        return {**configuration(self.config), **self.model_facts, **self.data.facts, "softplus_beta": beta}

    def facts(self) -> dict[str, Any]:
        """What a reader of the summary must know."""
        config, norm = self.config, self.config.delta_norm
        classes = {"predicted": "the predicted class", "label": "the labelled class"}.get(
            config.target, f"class {config.target}"
        )
        smoothed = ""
        if isinstance(config, SmoothConfig):
            smoothed = (
                f", made {config.bounded} and averaged over {config.smooth} noise ({SPREAD_NAMES[config.smooth]} below)"
            )
        return {
            "model": self.model_facts.get("checkpoint"),
            "data": self.data.facts.get("dataset"),
            "bounded": f"{configuration(config)['attribution']} of {classes}{smoothed}, "
            f"perturbations |delta|_{norm.p:g} <= eps in pixel units [0,1]",
            "activations": self._twin(),
            "failure": _sharing(config, len(self.data.selected)) if isinstance(config, SmoothConfig) else None,
            "measured": "attacks on the original network, whose prediction is explained; T_e and its kin speak of the twin"
            if isinstance(config, AttackConfig) and config.measure_on == "relu"
            else None,
        }

    def _twin(self) -> str | None:
        if self.fidelity is None:
            return None
        return (
            f"ReLUs run as softplus, beta {self.classifier.beta:g}, and the figures speak of that twin: same label on "
            f"{self.fidelity.agreement:.0%}, mean cosine of the gradients {self.fidelity.cosine:.2f} "
            f"on {self.fidelity.samples} samples"
        )

    def environment(self) -> dict[str, Any]:
        """Where it ran and what was seen of the model; told in the manifest, not compared."""
        return {
            "versions": {"python": platform.python_version(), **{name: version(name) for name in REPORTED_VERSIONS}},
            "device": str(self.device),
            "fidelity": asdict(self.fidelity) if self.fidelity else None,
            "findings": [asdict(finding) for finding in self.findings],
            "facts": self.facts(),
            "samples": indices_text(self.data.selected),
        }


def open_run(model: ModelSpec, data: DataSpec, config: RunConfig, options: RunOptions) -> Run:
    """Load what the specifications name, and check it."""
    options.take_threads()
    loaded, images, device = _load(model, data, config, options)
    run = prepare(loaded, images, config, options, device)
    # what was found out here need not be found out again by every worker
    known = replace(options, chunk=run.config.chunk, max_hours=math.inf)
    return replace(run, source=Source(model, data, config, known))


def examine(model: ModelSpec, data: DataSpec, *, device: str = "auto", dtype: str = "float32") -> list[Finding]:
    """All checks of `attrcert doctor` on the first images."""
    config = BoundConfig(dtype=dtype)
    loaded, images, place = _load(model, data, config, RunOptions(device))
    x, labels = first_images(images, device=place, dtype=torch_dtype(config))
    with loaded.classifier.prepared() as classifier:
        return diagnose(classifier, x, labels)


def _load(
    model: ModelSpec, data: DataSpec, config: RunConfig, options: RunOptions
) -> tuple[LoadedModel, LoadedData, torch.device]:
    device = options.torch_device()
    look_for(data)  # before a model's code runs
    loaded = load_model(model, device=device, dtype=torch_dtype(config))
    return loaded, load_data(replace(data, channels=data.channels or _channels(loaded.classifier))), device


def prepare(model: LoadedModel, data: LoadedData, config: RunConfig, options: RunOptions, device: torch.device) -> Run:
    """The checks before a run, on its first samples, and its batch size."""
    config = canonical(config)
    classifier = model.classifier if _differentiates_twice(config) else model.classifier.original()
    attribution = explainer(config, classifier.mean)
    x, labels = first_images(data, device=device, dtype=torch_dtype(config))
    memory = parse_bytes(options.memory) // options.sharing
    with classifier.prepared():
        measured, findings = before_run(classifier, x, labels, needs=_need(config))
        logits = classifier(x[:1])
        if config.target.isdecimal() and int(config.target) >= logits.shape[1]:
            raise UsageError(f"target must be below {logits.shape[1]}, the number of classes, got {config.target}")
        fits = plan(attribution, classifier, x[:1], logits.argmax(1), memory=memory, vectors=vectors(config))
        together = _Together(classifier, x, getattr(attribution, "points", 1), fits, len(data.indices), options)
        together.check_row_sums(config)
        config = replace(config, chunk=together.chunk(config), held=fits.held, copies=together.copies)
        points = fits.samples
        size = noisy_samples(x, memory) if isinstance(config, SmoothConfig) else points
        target, prover, other = None, None, None
        if isinstance(config, BoundConfig):
            other = otherwise(classifier, x)
            findings += [] if other else [UNMEASURED]
            prover = proving(config, classifier, attribution, x, memory)
        if isinstance(config, AttackConfig):
            if measured is None:  # nothing was replaced: the network is its own twin
                config = replace(config, measure_on="twin")
            check_attack(config, classifier, x[0].numel())
            config = replace(config, k=config.k or default_k(x[0].numel()))
            target = target_map(config, classifier, data.images, tuple(x.shape[1:]), x, data.max_input)
    findings += memory_findings(fits, config.chunk, options)
    if not isinstance(config, MaxEpsConfig):
        findings.append(perturbation_size(config, x[0].numel()))
    return Run(
        classifier=classifier,
        data=data,
        config=config,
        device=device,
        shape=tuple(x.shape[1:]),
        batch_size=options.batch_size or size,
        fidelity=measured,
        findings=tuple(findings),
        model_facts=model.facts,
        points=options.batch_size or points,
        target=target,
        prover=prover,
        other=other,
    )


@dataclass(frozen=True)
class _Together:
    """What is computed together in a run of `samples` samples, each of `each` points."""

    f: Classifier
    x: Tensor
    each: int
    fits: Plan
    samples: int
    options: RunOptions

    @property
    def batch(self) -> int:
        """Samples at once."""
        return min(self.samples, self.options.batch_size or self.fits.samples)

    @property
    def most(self) -> int:
        """Points that fit together."""
        return self.fits.chunk or self.copies * self.batch * self.each

    @property
    def copies(self) -> int:
        """Vectors of a sample to multiply together where there are few samples, and room for their graphs or none to lose."""
        return max(self.fits.copies, min(self.fits.samples, usual_chunk(self.x) // self.each) // self.batch)

    def chunk(self, config: RunConfig) -> int:
        """How many points to differentiate together: as asked for, or the fastest."""
        usual = usual_chunk(self.x)
        if self.options.chunk or not _differentiates_twice(config):
            return min(self.options.chunk or usual, self.fits.chunk or self.options.chunk or usual)
        return fastest_chunk(self._seconds, usual, points=self.samples * self.each, most=self.most)

    def check_row_sums(self, config: RunConfig) -> None:
        """Refuse those that would take too long."""
        hours = self.options.max_hours
        if hours == math.inf or not _differentiates_twice(config) or config.delta_norm.kind is not NormKind.LINF:
            return
        if isinstance(config, BoundConfig) and "row-sums" in config.linf_method:
            n, itemsize = self.x[0].numel(), self.x.element_size()
            seconds = self._seconds(min(usual_chunk(self.x), self.most))
            check_hours(n, itemsize, seconds=seconds, points=self.each, samples=self.samples, hours=hours)

    def _seconds(self, size: int) -> float:
        return product_seconds(self.f, self.x, self.f(self.x).argmax(1), size)


def _sharing(config: SmoothConfig, samples: int) -> str:
    """What the failure of a smoothing certificate is the failure of."""
    spread = SPREAD_NAMES[config.smooth]
    if config.simultaneous:
        return f"for all {samples} samples and every {spread} together"
    if config.task == "min-radius" and config.search == "descend":
        return "for each sample and case"
    chosen = config.best or config.task == "min-radius"
    return "for each sample, all of the grid together" if chosen else f"for each sample and {spread}"


def _differentiates_twice(config: RunConfig) -> bool:
    """Whether ReLUs must run as softplus."""
    return isinstance(config, BoundConfig) and not config.loss_hessian


def _need(config: RunConfig) -> Callable[[Classifier, Tensor], Finding] | None:
    """What the model must have for this configuration."""
    if isinstance(config, BoundConfig):
        return piecewise_linear if config.loss_hessian else curvature
    return None


def vectors(config: RunConfig) -> int:
    """Vectors of the input's size that a sample needs beside its graph: the Krylov basis, or what the attack's rows hold."""
    if not isinstance(config, BoundConfig):
        return 1
    basis = min(config.max_steps, USUAL_STEPS)
    if not isinstance(config, AttackConfig):
        return basis
    return max(basis, VECTORS_A_START * max(2 + config.restarts, len(WORST) + 1))


def check_attack(config: AttackConfig, classifier: Classifier, n: int) -> None:
    """What an attack's configuration must fit in the model and the data."""
    if config.k is not None and config.k > n:
        raise UsageError(
            f"k must be at most {n}, the number of features, got {config.k}",
            hint=f"e.g. --k {default_k(n)} for such inputs",
        )
    for name in config.transfer:
        explainer(replace(config, attribution=name), classifier.mean)


def perturbation_size(config: RunConfig, d: int) -> Finding:
    """A perturbation longer than the pixel cube's diagonal is a mistaken unit."""
    norm, largest = config.delta_norm, max(config.eps)
    if largest <= norm.pixel_range(d):
        return Finding("eps", Level.OK, "within the pixel range")
    message = f"eps {largest:g} is larger than any difference of two images in {norm}"
    return Finding("eps", Level.WARN, message, "eps is in pixel units (0 to 1): did you mean 8/255?")


def memory_findings(fits: Plan, chunk: int | None, options: RunOptions) -> list[Finding]:
    """What of the run does not fit into its memory."""
    findings, room = [], parse_bytes(options.memory) // options.sharing
    if fits.least > room:
        has = (
            f"a worker's share of --memory, {readable_bytes(room)}"
            if options.sharing > 1
            else f"--memory {options.memory}"
        )
        message = f"one sample takes about {readable_bytes(fits.least)}, more than {has}; it is taken all the same"
        hint = "fewer --workers or a larger --memory help" if options.sharing > 1 else "a larger --memory helps"
        findings.append(Finding("memory", Level.WARN, message, hint))
    elif fits.held is not None:
        message = f"the graphs of {fits.held} points fit into --memory; the others are built again for every product"
        findings.append(
            Finding("memory", Level.WARN, message, "that takes up to three times as long; a larger --memory helps")
        )
    if options.chunk and chunk and chunk < options.chunk:
        message = f"--chunk {options.chunk} does not fit into --memory: {chunk} points go together"
        findings.append(Finding("memory", Level.WARN, message, "a larger --memory helps"))
    return findings


def input_size(data: DataSpec) -> int:
    """The number of features of the first usable image."""
    return first_images(load_data(data), device=torch.device("cpu"), dtype=torch.float32)[0][0].numel()


def first_images(data: LoadedData, *, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, list[int | None]]:
    """Some of the first usable images, the same for every shard; the shape of the first one is the run's."""
    reason = ""
    for place, index in enumerate(data.selected):
        try:
            shape = tuple(data.images[index][0].shape)
        except SampleError as error:
            reason = error.message
            continue
        batch, _ = read(data.images, data.selected[place : place + PROBED], shape, device=device, dtype=dtype)
        assert batch is not None
        return batch.images, list(batch.labels)
    raise DataError(f"none of the {len(data.selected)} images can be used: {reason}")


def bound(model: Model, data: Any = None, **settings: Any) -> list[Row]:
    """The rows of `attrcert bound` as a list of mappings.

    `model` is a network, a Classifier, a ModelSpec or a bundled model's name; `data` is (images, labels) in [0, 1], a
    map-style dataset, a DataSpec, or a word that the command line takes. `settings` are the fields of BoundConfig, and
    `mean`, `std`, `output`, `softplus_beta`, `limit` and `options` (RunOptions). What the command line would print as a
    warning is a Python warning.
    """
    return _rows(BoundConfig, model, data, settings)


def attack(model: Model, data: Any = None, *, save: Deltas | None = None, **settings: Any) -> list[Row]:
    """The rows of `attrcert attack`, called like `bound`; `settings` are the fields of AttackConfig.

    `save` is called with the perturbations of each batch: tensors by names like index=3/eps=0.1/attack=euclidean.
    """
    return _rows(AttackConfig, model, data, settings, save=save)


def _rows(
    kind: type[RunConfig], model: Model, data: Any, settings: dict[str, Any], *, save: Deltas | None = None
) -> list[Row]:
    outer = {name: settings.pop(name) for name in ("mean", "std", "output", "softplus_beta") if name in settings}
    limit, options = settings.pop("limit", None), settings.pop("options", None)
    known = {one.name for one in fields(kind)} - set(FILLED_IN)
    if unexpected := [name for name in settings if name not in known]:
        raise unknown("setting", unexpected[0], [*known, *OUTER])
    config = kind(**{key: _listed(key, value) for key, value in settings.items()})
    options = options or RunOptions(device=_home(model))
    options.take_threads()
    device, dtype = options.torch_device(), torch_dtype(config)
    beta = outer.pop("softplus_beta", DEFAULT_SOFTPLUS_BETA)
    if isinstance(model, str):
        model = ModelSpec(model, **outer, beta=beta)
    if isinstance(model, ModelSpec):
        loaded = load_model(model, device=device, dtype=dtype)
    else:
        loaded = LoadedModel(model if isinstance(model, Classifier) else Classifier(model, **outer, beta=beta), {})
    run = prepare(loaded, _loaded(data, limit), config, options, device)
    for finding in run.findings:
        if finding.level is Level.WARN:
            warnings.warn(f"{finding.check}: {finding.message}", stacklevel=3)
    found = run.rows(save=save, warn=lambda message: warnings.warn(message, stacklevel=3))
    return [row for rows in found for row in filled(rows, run.config.columns)]


def _home(model: Any) -> str:
    """The device that a network is on already."""
    network = model.network if isinstance(model, Classifier) else model
    if not isinstance(network, nn.Module):
        return "auto"
    first = next(network.parameters(), None)
    return "auto" if first is None else str(first.device)


def _listed(key: str, value: Any) -> Any:
    """Lists become tuples, and one value stands for a tuple of one where the field holds several."""
    if isinstance(value, list):
        return tuple(value)
    return (value,) if key in LISTS and not isinstance(value, tuple) else value


def _loaded(data: Any, limit: int | None) -> LoadedData:
    if data is None or isinstance(data, str):
        data = DataSpec(data or bundled.DEFAULT_SAMPLE)
    if isinstance(data, DataSpec):
        return load_data(data if limit is None else replace(data, limit=limit))
    images = wrap(data)
    return LoadedData(images, chosen(DataSpec(limit=limit), len(images)), {})


def _channels(classifier: Classifier) -> int | None:
    """What the first convolution takes, which tells how a folder's images are to be decoded."""
    convolutions = (module for module in classifier.network.modules() if isinstance(module, nn.Conv2d))
    first = next(convolutions, None)
    return first.in_channels if first is not None else len(classifier.mean) if classifier.mean else None
