"""The work of a task made ready: what it needs is checked, and what it computes together fits. Of several, all works of one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from attrcert.errors import UsageError
from attrcert.loading.datasets import LoadedData
from attrcert.networks.classifier import Classifier
from attrcert.registry import imported
from attrcert.running.checks.data import perturbation_size
from attrcert.running.checks.doctor import before_task
from attrcert.running.checks.findings import Finding
from attrcert.running.evaluating.methods import Layout, differentiated_part, explainer
from attrcert.running.evaluating.versions import Version
from attrcert.running.evaluating.work import AnyWork, Rowing, Scene, Together
from attrcert.running.opening.layouts import layout, memory_findings
from attrcert.running.opening.memory import plan
from attrcert.settings.computing import RunOptions
from attrcert.settings.several import together
from attrcert.settings.tasks import Task
from attrcert.sizes import parse_bytes


@dataclass(frozen=True)
class Loaded:
    """The model and the data of a run; `x` are its first samples, and a `few` of them are for checks."""

    f: Classifier
    data: LoadedData
    x: Tensor
    few: Tensor
    options: RunOptions
    replaced: bool  # whether activations are
    others: Mapping[str, Classifier]

    def points(self, config: Task) -> int:
        """That the attribution of a sample is computed from."""
        return explainer(config, self.f.mean, Layout()).points


@dataclass(frozen=True)
class Readied:
    """The work, how many samples fit at once, and what there is to say before it begins."""

    work: Rowing[Any]
    batch_size: int
    findings: tuple[Finding, ...]


def ready(config: Task, loaded: Loaded) -> Readied:
    """Of several tasks, that with the most points says how many are differentiated together."""
    tasks = config.singles
    first = max(range(len(tasks)), key=lambda place: loaded.points(tasks[place]))
    readied = _single(tasks[first], loaded)
    if len(tasks) == 1:
        return readied
    known = replace(loaded, options=replace(loaded.options, chunk=readied.work.layout.chunk))
    found = [readied if place == first else _single(task, known) for place, task in enumerate(tasks)]
    works = tuple(one.work for one in found)
    whole = Together(together(tuple(work.config for work in works)), readied.work.layout, works)
    return Readied(whole, min(one.batch_size for one in found), _said(tasks, found))


def _single(config: Task, loaded: Loaded) -> Readied:
    """A task of one attribution and one norm, of one softplus version where there are several."""
    beta, x, data, options = config.twin.beta, loaded.x, loaded.data, loaded.options
    f = loaded.f if beta is None else replace(loaded.f, beta=beta)
    kind: type[AnyWork] = imported(config.work)
    findings = before_task(f, loaded.few, needs=kind.need(config), own=differentiated_part(config))
    attribution, logits = explainer(config, f.mean, Layout()), f(x[:1])
    _check_target(config, logits.shape[1])
    memory = parse_bytes(options.memory) // options.sharing
    fits = plan(attribution, f, x[:1], logits.argmax(1), memory=memory, vectors=kind.vectors(config))
    scene = Scene(
        f=f,
        x=x,
        attribution=attribution,
        data=data,
        layout=layout(config, f, x, fits, options, each=attribution.points, samples=len(data.indices)),
        memory=memory,
        points=fits.samples,
        replaced=loaded.replaced,
        others=loaded.others,
    )
    work = kind.ready(config, scene)
    told = (*findings, *work.findings, *memory_findings(fits, scene.layout.chunk, options))
    size = options.batch_size or work.batch_size(scene)
    made = work if beta is None else Version(work.config, work.layout, work)
    return Readied(made, size, (*told, *perturbation_size(config, data, x)))


def _said(tasks: Sequence[Task], readied: Sequence[Readied]) -> tuple[Finding, ...]:
    """Each finding once; one that is not of all says of which it is."""
    found: dict[Finding, list[Task]] = {}
    for task, one in zip(tasks, readied, strict=True):
        for finding in one.findings:
            found.setdefault(finding, []).append(task)
    named = [(finding, ", ".join(dict.fromkeys(one.label for one in of))) for finding, of in found.items()]
    everything = ", ".join(dict.fromkeys(task.label for task in tasks))
    return tuple(
        finding if names == everything else replace(finding, message=f"{names}: {finding.message}")
        for finding, names in named
    )


def _check_target(config: Task, classes: int) -> None:
    target = config.explanation.target
    if target.isdecimal() and int(target) >= classes:
        raise UsageError(f"--target must be below {classes}, the number of classes, got {target}")
