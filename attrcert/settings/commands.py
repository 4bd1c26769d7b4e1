"""What each computing command can be asked for: its tasks, and the settings beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attrcert.errors import UsageError
from attrcert.settings.certifying import CertifiedMaxEpsConfig, CertifyConfig, MinRadiusConfig, SmoothConfig
from attrcert.settings.computing import Place, RunOptions, Workers
from attrcert.settings.declared import Settings, declared, default_of, option
from attrcert.settings.explaining import Precision
from attrcert.settings.output import Campaigning, ClosedForm, Complete, Files, Findings, Global, Keeping, Output, Quiet
from attrcert.settings.sources import DataSpec, ModelSpec
from attrcert.settings.tasks import AttackConfig, BoundConfig, MaxEpsConfig, Task, parts_of, settings_of


@dataclass(frozen=True)
class Command:
    """The task without --smooth, the one with it, and other settings."""

    plain: type[Task] | None
    smoothed: type[Task] | None
    others: tuple[type[Settings], ...]

    @property
    def tasks(self) -> tuple[type[Task], ...]:
        return tuple(task for task in (self.plain, self.smoothed) if task is not None)

    @property
    def parts(self) -> tuple[type[Settings], ...]:
        """All settings that the command knows, also those that a task refuses."""
        return (*dict.fromkeys(part for task in self.tasks for part in parts_of(task).values()), *self.others)


ROWS = (ModelSpec, DataSpec, RunOptions, Workers, Output)
COMMANDS = {
    "bound": Command(BoundConfig, CertifyConfig, (*ROWS, Keeping)),
    "attack": Command(AttackConfig, None, (*ROWS, Campaigning)),
    "max-eps": Command(MaxEpsConfig, CertifiedMaxEpsConfig, (*ROWS, Global)),
    "min-radius": Command(None, MinRadiusConfig, (*ROWS, ClosedForm)),
    "smooth": Command(None, SmoothConfig, (ModelSpec, DataSpec, RunOptions, Complete, Quiet, Files)),
    "doctor": Command(None, None, (ModelSpec, DataSpec, Place, Precision, Findings)),
}


def task_of(command: str, given: Mapping[str, Any], preset: Mapping[str, Any] | None = None) -> Task:
    """What is asked for, and where nothing is said, what a preset says; a setting that has no effect is refused."""
    plain, smoothed = COMMANDS[command].plain, COMMANDS[command].smoothed
    wanted = {name: value for name, value in given.items() if value is not None}
    averaged = plain is None or (smoothed is not None and "smooth" in wanted)
    task, other = (smoothed, plain) if averaged else (plain, smoothed)
    assert task is not None
    elsewhere = {name for part in parts_of(other).values() for name in declared(part)} if other else set()
    for name in elsewhere & set(wanted) - set(settings_of(task)) - set(task.refused):
        if averaged:
            raise UsageError(
                f"{option(name)} means nothing with --smooth", hint="it is for first-order and proved bounds"
            )
        raise UsageError(f"{option(name)} is for smoothed attributions", hint="add --smooth uniform --radius R")
    made = task(**{**(preset or {}), **wanted})
    usual = {name: default_of(part, name) for part in parts_of(task).values() for name in declared(part)}
    for name, use in made.idle.items():
        if name in wanted and made.flat()[name] != usual[name]:
            raise UsageError(f"{option(name)} has no effect here: it is for {use}")
    return made
