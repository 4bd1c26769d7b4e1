"""What each command can be asked for: its tasks, and the settings beside them."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

from attrcert.errors import UsageError
from attrcert.settings.attacking import Attacking
from attrcert.settings.auditing import Auditing
from attrcert.settings.certifying import (
    CertifiedAttackConfig,
    CertifiedMaxEpsConfig,
    CertifyConfig,
    MinRadiusConfig,
    SmoothConfig,
)
from attrcert.settings.computing import Place, RunOptions, Workers
from attrcert.settings.declared import Setting, Settings, declared, default_of, hint_of, option, spelt, taken
from attrcert.settings.explaining import Arithmetic, Averaging, Explanation, Precision
from attrcert.settings.output import Campaigning, ClosedForm, Complete, Files, Findings, Global, Keeping, Output, Quiet
from attrcert.settings.reading import Joining, Judged, Judging, Listing, Paging
from attrcert.settings.scoring import ScoreConfig
from attrcert.settings.several import made_of
from attrcert.settings.sources import DataSpec, ModelSpec
from attrcert.settings.tasks import AttackConfig, BoundConfig, MaxEpsConfig, Task, homes, parts_of, settings_of
from attrcert.vocabulary import NOISES


@dataclass(frozen=True)
class Offer:
    """A setting as an option of a command; without a part it is a text without a default."""

    name: str
    how: Setting
    part: type[Settings] | None = None
    hidden: bool = False  # it is there to be refused

    @property
    def default(self) -> Any:
        return default_of(self.part, self.name) if self.part else None

    @property
    def hint(self) -> str:
        """The type as it is written."""
        return hint_of(self.part, self.name) if self.part else "str"

    @property
    def usual(self) -> str:
        """What holds where it is not given, as it is typed; empty where that is nothing."""
        default = self.default
        if default in (None, MISSING) or isinstance(default, bool | Mapping):
            default = ()
        values = default if isinstance(default, tuple) else (default,)
        return self.how.unsaid or ", ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in values)

    @property
    def listed(self) -> str:
        """Its choices, behind its help."""
        return f" One of {', '.join(self.how.words)}." if self.how.words else ""

    @property
    def meaning(self) -> str:
        """All that can be said of it where there is room."""
        return self.how.help + self.listed + (f" Default: {self.usual}." if self.usual else "")

    @property
    def spelt(self) -> str:
        return spelt(self.name, self.how)


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

    @property
    def offers(self) -> list[Offer]:
        """The command's options: those of its tasks, and those of other parts; arguments first."""
        found: dict[str, Offer] = {}
        for task in self.tasks:
            for name, part in homes(task).items():
                how = declared(part)[name]
                if name not in found or (how.many and not found[name].how.many):
                    refused = all(name in one.refused for one in self.tasks if name in homes(one))
                    found[name] = Offer(name, how, part, hidden=refused)
        for name in {name for task in self.tasks for name in task.refused} - set(found):
            found[name] = Offer(name, Setting(), hidden=True)
        if len(self.tasks) > 1:  # saying it is what chooses between the two
            found["smooth"] = Offer("smooth", found["smooth"].how)
        for part in self.others:
            for name, how in declared(part).items():
                found.setdefault(name, Offer(name, how, part))
        return sorted(found.values(), key=lambda one: not one.how.argument)

    def asked_of_task(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the given settings that a task of the command takes or refuses."""
        own = {one.name for one in self.offers if one.part not in self.others}
        return {name: value for name, value in given.items() if name in own}


ROWS = (ModelSpec, DataSpec, RunOptions, Workers, Output)
COMMANDS = {
    "audit": Command(
        None, None, (ModelSpec, DataSpec, RunOptions, Explanation, Averaging, Attacking, Arithmetic, Quiet, Auditing)
    ),
    "bound": Command(BoundConfig, CertifyConfig, (*ROWS, Keeping)),
    "attack": Command(AttackConfig, CertifiedAttackConfig, (*ROWS, Campaigning)),
    "max-eps": Command(MaxEpsConfig, CertifiedMaxEpsConfig, (*ROWS, Global)),
    "min-radius": Command(None, MinRadiusConfig, (*ROWS, ClosedForm)),
    "score": Command(ScoreConfig, None, ROWS),
    "smooth": Command(None, SmoothConfig, (ModelSpec, DataSpec, RunOptions, Complete, Quiet, Files)),
    "doctor": Command(None, None, (ModelSpec, DataSpec, Place, Precision, Findings)),
    "gate": Command(None, None, (Judging, Judged)),
    "report": Command(None, None, (Paging,)),
    "merge": Command(None, None, (Joining,)),
    "catalogue": Command(None, None, (Listing,)),
}


def task_of(
    command: str,
    given: Mapping[str, Any],
    preset: Mapping[str, Any] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> Task:
    """What is asked for, and where nothing is said, what a preset says; a setting that has no effect is refused, also one that was
    said beside the task, of the model or the computation.
    """
    plain, smoothed = COMMANDS[command].plain, COMMANDS[command].smoothed
    wanted = {name: value for name, value in given.items() if value is not None}
    averaged = plain is None or (smoothed is not None and "smooth" in {**(preset or {}), **wanted})
    task, other = (smoothed, plain) if averaged else (plain, smoothed)
    assert task is not None
    if preset and averaged and "smooth" not in preset:
        raise UsageError(
            "--preset means nothing with --smooth",
            hint="presets attack attributions as they are, or means over few draws of noise",
        )
    elsewhere = set(homes(other)) if other else set()
    for name in elsewhere & set(wanted) - set(settings_of(task)) - set(task.refused):
        if averaged:
            raise UsageError(
                f"{option(name)} means nothing with --smooth", hint=f"`attrcert {command}` without --smooth takes it"
            )
        raise UsageError(f"{option(name)} is for smoothed attributions", hint="add --smooth uniform --radius R")
    made = made_of(task, {**(preset or {}), **wanted})
    _refuse_idle(command, made, {**(beside or {}), **wanted})
    return made


def _refuse_idle(command: str, task: Task, said: Mapping[str, Any]) -> None:
    """What was said and has no effect, unless it is the default; where there is no noise, no spread of it holds."""
    parts = {one.name: one.part for one in COMMANDS[command].offers} | homes(type(task.singles[0]))
    for name, use in task.idle.items():
        part = parts.get(name)
        if part is None or said.get(name) is None:
            continue
        value = taken(part, {name: said[name]})[name]
        noise = next((noise for noise, spread in NOISES.items() if spread == name), None)
        if noise or value not in (None, default_of(part, name)):
            hint = f"or add --smooth {noise}" if noise and COMMANDS[command].smoothed else ""
            said_as = spelt(name, declared(part)[name])
            raise UsageError(f"{said_as} has no effect here: it is for {use}", hint=hint)
