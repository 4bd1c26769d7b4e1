"""The commands as functions: the same settings by the same names give the same rows.

Settings are those of the command line with underscores: of the task (eps, attribution, attack, ...), of the model (mean, std, output,
softplus_beta, ...), of the data (limit, indices, resize, ...) and of the computation (device, batch_size, ...). What the command line
would print as a warning is a Python warning.
"""

import warnings
from collections.abc import Mapping
from typing import Any

from attrcert.columns import filled
from attrcert.errors import UsageError
from attrcert.registry import unknown
from attrcert.results import Rows
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.evaluating.work import Deltas
from attrcert.running.keeping.heatmaps import smoothed_maps
from attrcert.running.opening.opening import data_spec, model_spec, open_run
from attrcert.running.opening.opening import doctor as examined
from attrcert.running.opening.runs import Run
from attrcert.settings.commands import COMMANDS, task_of
from attrcert.settings.computing import RunOptions
from attrcert.settings.declared import Settings, declared, made
from attrcert.settings.output import Campaigning
from attrcert.settings.sources import DataSpec, ModelSpec, usual_data


def bound(model: Any = None, data: Any = None, **settings: Any) -> Rows:
    """The rows of `attrcert bound`. `model` and `data` are what `open_run` takes: names, files, a network, arrays, a dataset.

    An attribution is a name or a function, called with (model, x, target). A list of attributions, of norms or of softplus versions
    gives rows for each: attribution=["saliency", my_maps], norm=["l2", "linf"], softplus_beta=[5, 20].
    """
    return _rows(_opened("bound", model, data, settings))


def attack(model: Any = None, data: Any = None, *, save: Deltas | None = None, **settings: Any) -> Rows:
    """The rows of `attrcert attack`, called like `bound`.

    `save` is called with the perturbations of each batch: tensors by names like index=3/eps=0.1/attack=euclidean, or of several
    attributions or norms like index=3/attribution=saliency/norm=l2/eps=0.1/attack=euclidean.
    """
    return _rows(_opened("attack", model, data, settings), save)


def max_eps(model: Any = None, data: Any = None, **settings: Any) -> Rows:
    """The rows of `attrcert max-eps`, called like `bound`."""
    return _rows(_opened("max-eps", model, data, settings))


def min_radius(model: Any = None, data: Any = None, **settings: Any) -> Rows:
    """The rows of `attrcert min-radius`, called like `bound`."""
    return _rows(_opened("min-radius", model, data, settings))


def score(model: Any = None, data: Any = None, **settings: Any) -> Rows:
    """The rows of `attrcert score`, called like `bound`."""
    return _rows(_opened("score", model, data, settings))


def smooth(model: Any = None, data: Any = None, **settings: Any) -> dict[str, Any]:
    """The arrays of `attrcert smooth` by name, called like `bound`; samples that have no map are warned of."""
    maps, failed = smoothed_maps(_opened("smooth", model, data, settings))
    for sample in failed:
        warnings.warn(f"no map of sample {sample.index}: {sample.message}", stacklevel=2)
    return maps


def doctor(model: Any = None, data: Any = None, **settings: Any) -> list[Finding]:
    """The findings of `attrcert doctor`, called like `bound`; settings are those of the model and the data, `device` and `dtype`."""
    of_model, of_data, rest = split("doctor", settings, ModelSpec, DataSpec)
    return examined(model_spec(model, **of_model), data_spec(data, **usual_data(model, data, of_data)), **rest)


def _opened(command: str, model: Any, data: Any, settings: Mapping[str, Any]) -> Run:
    options = settings.get("options")
    given = {name: value for name, value in settings.items() if name != "options"}
    of_model, of_data, of_run, rest = split(command, given, ModelSpec, DataSpec, RunOptions)
    if options is not None and of_run:
        raise UsageError(f"{next(iter(of_run))} is one of the options: give it there, or without options")
    preset = made(Campaigning, {"preset": rest.pop("preset", None)})
    task = task_of(command, rest, preset.meant, given)
    specs = model_spec(model, **of_model), data_spec(data, **usual_data(model, data, of_data))
    with preset.blamed(given):
        run = open_run(*specs, task, options or made(RunOptions, of_run))
    for finding in run.findings:
        if finding.level is Level.WARN:
            warnings.warn(finding.text, stacklevel=3)
    return run


def split(command: str, given: Mapping[str, Any], *parts: type[Settings]) -> list[dict[str, Any]]:
    """The settings of each part, and the others."""
    names = {name for part in COMMANDS[command].parts for name in declared(part)}
    for name in given:
        if name not in names and not any(name in task.refused for task in COMMANDS[command].tasks):
            raise unknown("setting", name, sorted(names))
    own = [{name: value for name, value in given.items() if name in declared(part)} for part in parts]
    return [*own, {name: value for name, value in given.items() if not any(name in some for some in own)}]


def _rows(run: Run, save: Deltas | None = None) -> Rows:
    found = run.rows(save=save, warn=lambda message: warnings.warn(message, stacklevel=4))
    rows = [row for rows in found for row in filled(rows, run.config.columns)]
    manifest = {"identity": run.identity(), **run.environment()}
    return Rows(rows, command=run.config.command, columns=run.config.columns, manifest=manifest)
