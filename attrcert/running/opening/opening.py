"""The one way in: from a model, data and a task to a run that is checked and laid out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attrcert.errors import DataError, SampleError, UsageError
from attrcert.loading.checkpoints import LoadedModel, load_model
from attrcert.loading.datasets import LoadedData, load_data, look_for
from attrcert.loading.preparing import check_normalisation, prepared
from attrcert.loading.scales import spans
from attrcert.networks.classifier import Classifier
from attrcert.running.checks import doctor as checks
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.evaluating.methods import Layout, explainer, torch_dtype
from attrcert.running.evaluating.own_maps import forget
from attrcert.running.evaluating.samples import Failed, read
from attrcert.running.opening.readying import Loaded, ready
from attrcert.running.opening.rivals import Rivals
from attrcert.running.opening.runs import Run, Source
from attrcert.settings.computing import RunOptions
from attrcert.settings.declared import taken
from attrcert.settings.explaining import Precision
from attrcert.settings.others import others_of
from attrcert.settings.several import at_betas
from attrcert.settings.sources import DataSpec, ModelSpec
from attrcert.settings.tasks import Task
from attrcert.types import Batch
from attrcert.vocabulary import Kind

PROBED = 64


def open_run(model: Any, data: Any, config: Task, options: RunOptions | None = None) -> Run:
    """Load what is named, take what is given, and check it.

    `model` is a ModelSpec or what its checkpoint can be: a name, a file, a network or a Classifier. `data` is a DataSpec or what its
    dataset can be: a name, a file, a folder, (images, labels), a map-style dataset, or a DataLoader, which stands for its dataset.
    """
    options, model, data = options or RunOptions(), model_spec(model), data_spec(data)
    if options.threads:  # from now on, of this process
        torch.set_num_threads(options.threads)
    single = replace(model, softplus_beta=None) if model.betas else model
    loaded, images, device = _load(single, data, options, torch_dtype(config.arithmetic))
    forget()
    others = others_of(config.singles[0].flat().get("transfer_from", ()))
    rivals = Rivals.of(others, single, images.scale, device=device, dtype=torch_dtype(config.arithmetic))
    run = prepare(loaded, images, at_betas(config, model.betas), options, device, rivals)
    if not (isinstance(model.checkpoint, str) and isinstance(data.dataset, str)):
        return run
    # what was found out here need not be found out again by every worker
    known = replace(options, chunk=run.work.layout.chunk, max_hours=math.inf)
    return replace(run, source=Source(model, data, config, known))


def doctor(model: Any = None, data: Any = None, *, device: str = "auto", dtype: str = "float32") -> list[Finding]:
    """All checks of `attrcert doctor` on the first images."""
    return examined(model_spec(model), data_spec(data), device=device, dtype=dtype).findings


class Examined(NamedTuple):
    """What the checks found, how many numbers an input has, as the model takes it, and where these are no pixels, the standard
    deviation of the features, root mean square.
    """

    findings: list[Finding]
    entries: int
    spread: float | None


def examined(model: ModelSpec, data: DataSpec, *, device: str, dtype: str) -> Examined:
    """All checks, and what an audit must know of the data."""
    torch_type = torch_dtype(Precision(dtype))
    loaded, images, place = _load(model, data, RunOptions(device), torch_type)
    first, failed = _first(images, device=place, dtype=torch_type)
    left_out = [_left_out(failed, len(first.indices), images)] if failed else []
    with loaded.classifier.prepared() as classifier:
        seen = checks.doctor(classifier, first.images, list(first.labels), images)
    spread = None if images.of_pixels else float(spans(images.images).std.square().mean().sqrt())
    return Examined([*_settled(loaded, images), *left_out, *seen], first.images[0].numel(), spread)


def model_spec(model: Any, **given: Any) -> ModelSpec:
    """With settings that come before those of the model itself."""
    given = taken(ModelSpec, given)
    if isinstance(model, nn.Module | Classifier):
        _none_of(given, "checkpoints", "checkpoint", "arch", "arch_args", "checkpoint_key")
    if isinstance(model, Classifier):
        beta = given.pop("softplus_beta", model.beta)
        one = None if isinstance(beta, tuple) else beta
        return ModelSpec(checkpoint=replace(model, **given, beta=one), softplus_beta=beta)
    if isinstance(model, ModelSpec):
        return replace(model, **given)
    model = str(model) if isinstance(model, Path) else model
    return ModelSpec(**given) if model is None else ModelSpec(checkpoint=model, **given)


def data_spec(data: Any, **given: Any) -> DataSpec:
    """With settings that come before those of the specification."""
    given = taken(DataSpec, given)
    if not (data is None or isinstance(data, str | Path | DataSpec)):
        _none_of(given, "data that are named", "dataset", "data_root", "channels")
    if isinstance(data, DataSpec):
        return replace(data, **given)
    data = str(data) if isinstance(data, Path) else data
    return DataSpec(**given) if data is None else DataSpec(dataset=data, **given)


def _none_of(given: Mapping[str, Any], what: str, *names: str) -> None:
    for name in given:
        if name in names:
            raise UsageError(f"{name} is for {what}, and an object was given")


def _load(
    model: ModelSpec, data: DataSpec, options: RunOptions, dtype: torch.dtype
) -> tuple[LoadedModel, LoadedData, torch.device]:
    device = _device(options, model.checkpoint)
    look_for(data)  # before a model's code runs
    loaded = load_model(model, device=device, dtype=dtype)
    first, classes = _first_convolution(loaded.classifier), loaded.facts.get("classes")
    data = replace(data, channels=data.channels or _channels(loaded.classifier, first))
    found = load_data(data, plane=Kind.SIGNALS if isinstance(first, nn.Conv1d) else Kind.IMAGES, of_model=classes)
    told: tuple[str, ...] = ()
    if data.resize is None and data.crop is None and found.of_pixels:
        found, told = prepared(loaded, found)
    doubts = check_normalisation(loaded, found)
    loaded = replace(loaded, notes=(*loaded.notes, *told), doubts=(*loaded.doubts, *doubts))
    classifier = replace(loaded.classifier, within=found.within)
    if found.scale is not None:
        classifier = classifier.of_divided(found.scale.tolist())
    loaded = replace(loaded, classifier=classifier)
    return loaded, found, device


def _settled(model: LoadedModel, data: LoadedData) -> list[Finding]:
    """What was settled of the model and the data without being asked for."""
    told = {"model": model.notes, "data": data.notes}
    notes = (Finding(check, Level.NOTE, note) for check, found in told.items() for note in found)
    return [*notes, *(Finding("model", Level.WARN, doubt) for doubt in model.doubts)]


def _device(options: RunOptions, model: Any) -> torch.device:
    """What was asked for; else where a given network is already; else a GPU if there is one."""
    if options.device != "auto":
        try:
            device = torch.device(options.device)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"device {options.device!r} cannot be used: {str(error).splitlines()[0]}") from error
        return device
    network = model.network if isinstance(model, Classifier) else model
    first = next(network.parameters(), None) if isinstance(network, nn.Module) else None
    return first.device if first is not None else torch.device("cuda" if torch.cuda.is_available() else "cpu")


def prepare(
    model: LoadedModel, data: LoadedData, config: Task, options: RunOptions, device: torch.device, rivals: Rivals
) -> Run:
    """The checks before a run, on its first samples, and what it computes together."""
    betas = tuple(dict.fromkeys(one.twin.beta for one in config.singles if one.twin.beta is not None))
    original = betas or not config.differentiates_twice
    classifier = model.classifier.original() if original else model.classifier
    for one in config.singles:
        explainer(one, classifier.mean, Layout())  # refuses what cannot be made before anything is computed
    x, labels = first_images(data, device=device, dtype=torch_dtype(config.arithmetic))
    with classifier.prepared():
        versions = [replace(classifier, beta=beta) for beta in betas] or [classifier]
        measured, findings, few = checks.before_run(classifier, x, labels, versions)
        if betas and not measured:
            raise UsageError(
                "several --softplus-beta are for networks with ReLUs, and this one has none",
                hint="leave the option out: the network is smooth as it is",
            )
        beside = rivals.check(x, labels, classifier(x[:1]).shape[1])
        readied = ready(config, Loaded(classifier, data, x, few, options, bool(measured), rivals.classifiers))
    return Run(
        classifier=classifier,
        data=data,
        work=readied.work,
        device=device,
        shape=tuple(x.shape[1:]),
        batch_size=readied.batch_size,
        fidelity=measured,
        findings=(*_settled(model, data), *findings, *beside, *readied.findings),
        model_facts=model.facts,
        rivals=rivals.facts,
    )


def input_size(data: DataSpec) -> int:
    """The number of features of the first usable image."""
    return first_images(load_data(data), device=torch.device("cpu"), dtype=torch.float32)[0][0].numel()


def first_images(data: LoadedData, *, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, list[int | None]]:
    """Some of the first usable images, the same for every shard; the shape of the first one is the run's."""
    batch, _ = _first(data, device=device, dtype=dtype)
    return batch.images, list(batch.labels)


def _first(data: LoadedData, *, device: torch.device, dtype: torch.dtype) -> tuple[Batch, list[Failed]]:
    """Those, and what cannot be used among the first ones."""
    failed: list[Failed] = []
    for place, index in enumerate(data.selected):
        try:
            shape = tuple(data.images[index][0].shape)
        except SampleError as error:
            failed.append(Failed(index, None, error.kind, error.message))
            continue
        batch, others = read(data.images, data.selected[place : place + PROBED], shape, device=device, dtype=dtype)
        assert batch is not None
        return batch, [*failed, *others]
    what = "images" if data.form.kind is Kind.IMAGES else "samples"
    raise DataError(
        f"none of the {len(data.selected)} {what} can be used: {data.named(failed[-1].index, failed[-1].message)}"
    )


def _left_out(failed: Sequence[Failed], used: int, data: LoadedData) -> Finding:
    first = failed[0]
    message = f"left out of these checks, since they cannot be used: {len(failed)} of the first {len(failed) + used}"
    why = data.named(first.index, first.message)
    return Finding(
        "samples",
        Level.WARN,
        f"{message}, first the one at index {first.index}: {why}",
        "no figure is computed for such samples",
    )


def _first_convolution(classifier: Classifier) -> nn.Conv1d | nn.Conv2d | None:
    """What tells signals from images, and how a folder's images are to be decoded."""
    modules = classifier.network.modules()
    return next((module for module in modules if isinstance(module, nn.Conv1d | nn.Conv2d)), None)


def _channels(classifier: Classifier, first: nn.Conv1d | nn.Conv2d | None) -> int | None:
    """Of the pictures that the model takes."""
    channels = first.in_channels if first is not None else len(classifier.mean) if classifier.mean else None
    return channels if channels in (1, 3) else None
