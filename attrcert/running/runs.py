"""A `bound` run from a model and data to rows: the one path that the command line and the library share."""

import platform
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from attrcert.certificates.linf_row_sums import check_size
from attrcert.errors import DataError, SampleError, UsageError
from attrcert.loading import bundled
from attrcert.loading.checkpoints import LoadedModel, ModelSpec, load_model
from attrcert.loading.classifier import Classifier
from attrcert.loading.datasets import DataSpec, LoadedData, chosen, load_data, wrap
from attrcert.records import COLUMNS, Cell, Row
from attrcert.running.checks import Fidelity, Finding, Level, before_run, diagnose
from attrcert.running.config import DEFAULT_MEMORY, DEFAULT_SOFTPLUS_BETA, BoundConfig
from attrcert.running.evaluate import bound_rows, read
from attrcert.running.memory import batch_size, parse_bytes
from attrcert.running.methods import configuration, explainer, torch_dtype
from attrcert.vocabulary import NormKind

PROBED = 64
USUAL_STEPS = 60  # Krylov vectors that a sample needs at most, as a rule
REPORTED_VERSIONS = ("attrcert", "torch", "torchvision", "numpy", "scipy")


@dataclass(frozen=True)
class RunOptions:
    """How to compute, which no result depends on."""

    device: str = "auto"
    batch_size: int | None = None
    memory: str = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        parse_bytes(self.memory)
        if self.batch_size is not None and self.batch_size < 1:
            raise UsageError(f"batch size must be at least 1, got {self.batch_size}")

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
class BoundRun:
    """A checked model, data and configuration, ready to give rows."""

    classifier: Classifier
    data: LoadedData
    config: BoundConfig
    device: torch.device
    shape: tuple[int, ...]
    batch_size: int
    fidelity: Fidelity | None
    findings: tuple[Finding, ...]
    model_facts: Mapping[str, Any]

    def rows(
        self, *, finished: Collection[Cell] = (), size: int | None = None, warn: Callable[[str], None]
    ) -> Iterator[list[Row]]:
        """Rows a batch at a time. Batches stay the same when some samples are finished, and so do their results."""
        size = size or self.batch_size
        batches = [self.data.indices[i : i + size] for i in range(0, len(self.data.indices), size)]
        open_ = [batch for batch in batches if not all(index in finished for index in batch)]
        found = bound_rows(
            self.classifier, self.data.images, open_, self.config, device=self.device, shape=self.shape, warn=warn
        )
        for rows in found:
            yield [row for row in rows if row["index"] not in finished]

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
        return {
            "model": self.model_facts.get("checkpoint"),
            "data": self.data.facts.get("dataset"),
            "bounded": f"{configuration(config)['attribution']} of {classes}, perturbations |delta|_{norm.p:g} <= eps in pixel units [0,1]",
            "activations": self._twin(),
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
        }


def open_run(model: ModelSpec, data: DataSpec, config: BoundConfig, options: RunOptions) -> BoundRun:
    """Load what the specifications name, and check it."""
    loaded, images, device = _load(model, data, config, options)
    return prepare(loaded, images, config, options, device)


def examine(model: ModelSpec, data: DataSpec, *, device: str = "auto", dtype: str = "float32") -> list[Finding]:
    """All checks of `attrcert doctor` on the first images."""
    config = BoundConfig(dtype=dtype)
    loaded, images, place = _load(model, data, config, RunOptions(device))
    x, labels = first_images(images, device=place, dtype=torch_dtype(config))
    with loaded.classifier.prepared() as classifier:
        return diagnose(classifier, x, labels)


def _load(
    model: ModelSpec, data: DataSpec, config: BoundConfig, options: RunOptions
) -> tuple[LoadedModel, LoadedData, torch.device]:
    device = options.torch_device()
    loaded = load_model(model, device=device, dtype=torch_dtype(config))
    return loaded, load_data(replace(data, channels=data.channels or _channels(loaded.classifier))), device


def prepare(
    model: LoadedModel, data: LoadedData, config: BoundConfig, options: RunOptions, device: torch.device
) -> BoundRun:
    """The checks before a run, on its first samples, and its batch size."""
    classifier = model.classifier.original() if config.loss_hessian else model.classifier
    attribution = explainer(config, classifier.mean)
    x, labels = first_images(data, device=device, dtype=torch_dtype(config))
    if config.delta_norm.kind is NormKind.LINF and "row-sums" in config.linf_method:
        check_size(x[0].numel(), x.element_size())
    with classifier.prepared():
        measured, findings = before_run(classifier, x, labels, needs_curvature=not config.loss_hessian)
        logits = classifier(x[:1])
        if config.target.isdecimal() and int(config.target) >= logits.shape[1]:
            raise UsageError(f"target must be below {logits.shape[1]}, the number of classes, got {config.target}")
        size = options.batch_size or batch_size(
            attribution,
            classifier,
            x[:1],
            logits.argmax(1),
            memory=parse_bytes(options.memory),
            basis=min(config.max_steps, USUAL_STEPS),
        )
    findings.append(perturbation_size(config, x[0].numel()))
    return BoundRun(classifier, data, config, device, tuple(x.shape[1:]), size, measured, tuple(findings), model.facts)


def perturbation_size(config: BoundConfig, d: int) -> Finding:
    """A perturbation longer than the pixel cube's diagonal is a mistaken unit."""
    norm, largest = config.delta_norm, max(config.eps)
    if largest <= d ** (1 / norm.p):
        return Finding("eps", Level.OK, "within the pixel range")
    message = f"eps {largest:g} is larger than any difference of two images in {norm}"
    return Finding("eps", Level.WARN, message, "eps is in pixel units (0 to 1): did you mean 8/255?")


def first_images(data: LoadedData, *, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, list[int | None]]:
    """Some of the run's first usable images; the shape of the first one is the run's."""
    reason = ""
    for place, index in enumerate(data.indices):
        try:
            shape = tuple(data.images[index][0].shape)
        except SampleError as error:
            reason = error.message
            continue
        batch, _ = read(data.images, data.indices[place : place + PROBED], shape, device=device, dtype=dtype)
        assert batch is not None
        return batch.images, list(batch.labels)
    raise DataError(f"none of the {len(data.indices)} images can be used: {reason}")


def bound(
    model: nn.Module | Classifier | ModelSpec | str,
    data: Any = None,
    *,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    output: str | None = None,
    softplus_beta: float | None = DEFAULT_SOFTPLUS_BETA,
    limit: int | None = None,
    options: RunOptions | None = None,
    **settings: Any,
) -> list[Row]:
    """The rows of `attrcert bound` as a list of mappings.

    `model` is a network, a Classifier, a ModelSpec or a bundled model's name; `data` is (images, labels) in [0, 1], a
    map-style dataset, a DataSpec, or a word that the command line takes. `settings` are the fields of BoundConfig. What
    the command line would print as a warning is a Python warning.
    """
    config = BoundConfig(**{key: _listed(key, value) for key, value in settings.items()})
    options = options or RunOptions(device=_home(model))
    device, dtype = options.torch_device(), torch_dtype(config)
    if isinstance(model, str):
        model = ModelSpec(model, mean=mean, std=std, output=output, beta=softplus_beta)
    if isinstance(model, ModelSpec):
        loaded = load_model(model, device=device, dtype=dtype)
    else:
        classifier = model if isinstance(model, Classifier) else Classifier(model, mean, std, output, softplus_beta)
        loaded = LoadedModel(classifier, {})
    run = prepare(loaded, _loaded(data, limit), config, options, device)
    for finding in run.findings:
        if finding.level is Level.WARN:
            warnings.warn(f"{finding.check}: {finding.message}", stacklevel=2)
    empty = {column.name: None for column in COLUMNS["bound"]}
    found = run.rows(warn=lambda message: warnings.warn(message, stacklevel=2))
    return [{**empty, **row} for rows in found for row in rows]


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
    return (value,) if key in ("eps", "linf_method") and not isinstance(value, tuple) else value


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
