"""A `bound` run from a model and data to rows: the one path that the command line and the library share."""

import platform
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from attrcert.errors import DataError, SampleError, UsageError
from attrcert.loading.checkpoints import LoadedModel, ModelSpec, load_model
from attrcert.loading.classifier import Classifier
from attrcert.loading.datasets import DataSpec, LoadedData, chosen, load_data, wrap
from attrcert.records import Cell, Row
from attrcert.running.checks import Fidelity, Finding, before_run, diagnose
from attrcert.running.config import DEFAULT_MEMORY, DEFAULT_SOFTPLUS_BETA, BoundConfig
from attrcert.running.evaluate import bound_rows, read
from attrcert.running.memory import batch_size, parse_bytes
from attrcert.running.methods import configuration, explainer, torch_dtype

PROBED = 64
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
        config, norm = self.config, self.config.ball
        classes = {"predicted": "the predicted class", "label": "the labelled class"}.get(
            config.target, f"class {config.target}"
        )
        return {
            "model": self.model_facts.get("checkpoint"),
            "data": self.data.facts.get("dataset"),
            "bounded": f"{configuration(config)['attribution']} of {classes}, perturbations |delta|_{norm.p:g} <= eps in pixel units [0,1]",
            "activations": f"ReLUs run as softplus, beta {self.classifier.beta:g}" if self.fidelity else None,
        }

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
    device = options.torch_device()
    loaded = load_model(model, device=device, dtype=torch_dtype(config))
    channels = data.channels or _channels(loaded.classifier)
    images = load_data(replace(data, channels=channels))
    return prepare(loaded, images, config, options, device)


def examine(model: ModelSpec, data: DataSpec, *, device: str, dtype: str) -> list[Finding]:
    """All checks of `attrcert doctor` on the first images."""
    config, options = BoundConfig(dtype=dtype), RunOptions(device)
    place = options.torch_device()
    loaded = load_model(model, device=place, dtype=torch_dtype(config))
    images = load_data(replace(data, channels=data.channels or _channels(loaded.classifier)))
    x, labels = first_images(images, device=place, dtype=torch_dtype(config))
    with loaded.classifier.prepared() as classifier:
        return diagnose(classifier, x, labels)


def prepare(
    model: LoadedModel, data: LoadedData, config: BoundConfig, options: RunOptions, device: torch.device
) -> BoundRun:
    """The checks before a run, on its first samples, and its batch size."""
    classifier = model.classifier.original() if config.loss_hessian else model.classifier
    x, labels = first_images(data, device=device, dtype=torch_dtype(config))
    with classifier.prepared():
        measured, findings = before_run(classifier, x, labels, needs_curvature=not config.loss_hessian)
        if config.target.isdecimal() and int(config.target) >= classifier(x[:1]).shape[1]:
            raise UsageError(
                f"target must be below {classifier(x[:1]).shape[1]}, the number of classes, got {config.target}"
            )
        size = options.batch_size or batch_size(
            explainer(config, classifier.mean),
            classifier,
            x[:1],
            classifier(x[:1]).argmax(1),
            memory=parse_bytes(options.memory),
            basis=min(config.max_steps, 60),
        )
    return BoundRun(classifier, data, config, device, tuple(x.shape[1:]), size, measured, tuple(findings), model.facts)


def first_images(data: LoadedData, *, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, list[int | None]]:
    """Up to 64 of the run's first usable images; their shape is the run's."""
    probed = data.indices[:PROBED]
    shape, reason = None, ""
    for index in probed:
        try:
            shape = tuple(data.images[index][0].shape)
            break
        except SampleError as error:
            reason = error.message
    if shape is None:
        raise DataError(f"none of the first {len(probed)} images can be used: {reason}")
    batch, _ = read(data.images, probed, shape, device=device, dtype=dtype)
    assert batch is not None
    return batch.images, list(batch.labels)


def bound(
    model: nn.Module | Classifier | str,
    data: Any = None,
    *,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    output: str | None = None,
    softplus_beta: float | None = DEFAULT_SOFTPLUS_BETA,
    limit: int | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    memory: str = DEFAULT_MEMORY,
    **settings: Any,
) -> list[Row]:
    """The rows of `attrcert bound` as a list of mappings.

    `model` is a network, a Classifier or a bundled model's name; `data` is (images, labels) in [0, 1], a map-style
    dataset, or what the command line takes. `settings` are the fields of BoundConfig.
    """
    config = BoundConfig(**{key: _listed(key, value) for key, value in settings.items()})
    options = RunOptions(device, batch_size, memory)
    place, dtype = options.torch_device(), torch_dtype(config)
    if isinstance(model, str):
        loaded = load_model(
            ModelSpec(model, mean=mean, std=std, output=output, beta=softplus_beta), device=place, dtype=dtype
        )
    else:
        classifier = model if isinstance(model, Classifier) else Classifier(model, mean, std, output, softplus_beta)
        loaded = LoadedModel(classifier, {})
    images = load_data(DataSpec(data, limit=limit)) if isinstance(data, str) else _wrapped(data, limit)
    run = prepare(loaded, images, config, options, place)
    return [row for rows in run.rows(warn=lambda message: None) for row in rows]


def _listed(key: str, value: Any) -> Any:
    """Lists become tuples, and one value stands for a tuple of one where the field holds several."""
    if isinstance(value, list):
        return tuple(value)
    return (value,) if key in ("eps", "linf_method") and not isinstance(value, tuple) else value


def _wrapped(data: Any, limit: int | None) -> LoadedData:
    if data is None:
        return load_data(DataSpec(limit=limit))
    images = wrap(data)
    return LoadedData(images, chosen(DataSpec(limit=limit), len(images)), {})


def _channels(classifier: Classifier) -> int | None:
    """What the first convolution takes, which tells how a folder's images are to be decoded."""
    convolutions = (module for module in classifier.network.modules() if isinstance(module, nn.Conv2d))
    first = next(convolutions, None)
    return first.in_channels if first is not None else len(classifier.mean) if classifier.mean else None
