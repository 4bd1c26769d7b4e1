"""Which tasks a command has, and which of them is meant."""

from collections.abc import Mapping
from typing import Any

from attrcert.errors import UsageError
from attrcert.settings.certifying import CertifiedMaxEpsConfig, CertifyConfig, MinRadiusConfig, SmoothConfig
from attrcert.settings.declared import option
from attrcert.settings.tasks import AttackConfig, BoundConfig, MaxEpsConfig, Task, settings_of

# by command: the task without --smooth, and with it
COMMANDS: Mapping[str, tuple[type[Task] | None, type[Task] | None]] = {
    "bound": (BoundConfig, CertifyConfig),
    "attack": (AttackConfig, None),
    "max-eps": (MaxEpsConfig, CertifiedMaxEpsConfig),
    "min-radius": (None, MinRadiusConfig),
    "smooth": (None, SmoothConfig),
}


def task_of(command: str, given: Mapping[str, Any]) -> Task:
    """What is asked for; a setting that means nothing in the chosen task, but in the other, is refused."""
    plain, smoothed = COMMANDS[command]
    wanted = {name: value for name, value in given.items() if value is not None}
    if plain is None or (smoothed is not None and "smooth" in wanted):
        task, other = smoothed, plain
    else:
        task, other = plain, smoothed
    assert task is not None
    for name in wanted:
        if other is None or name in settings_of(task) or name not in settings_of(other):
            continue
        if task is smoothed:
            raise UsageError(
                f"{option(name)} means nothing with --smooth", hint="it is for first-order and proved bounds"
            )
        raise UsageError(f"{option(name)} is for smoothed attributions", hint="add --smooth uniform --radius R")
    return task(**wanted)
