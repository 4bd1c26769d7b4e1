"""The parts of an audit: tasks of the other commands, with the same settings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attrcert.attributions import SMOOTHED
from attrcert.settings.auditing import Auditing, Yard
from attrcert.settings.commands import COMMANDS, task_of
from attrcert.settings.declared import default_of, made
from attrcert.settings.explaining import Averaging, Explanation
from attrcert.settings.several import several_of
from attrcert.settings.tasks import Task, settings_of
from attrcert.vocabulary import plain_name

LEAST_COSINE = 0.9  # that a smoothed map is to keep
ATTACK, SMOOTH, PROOF = "attack", "smoothed", "proved"
NORMS = ("l2", "linf")


@dataclass(frozen=True)
class Piece:
    """One of them; its rows are in a file of its name. `attribution` is whose it is, where there are several."""

    name: str
    about: str
    task: Task
    attribution: str = ""

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    @property
    def file(self) -> str:
        return f"{self.name}.csv"


def pieces(asked: Auditing, given: Mapping[str, Any], yard: Yard) -> list[Piece]:
    """`given` are all settings that were given, by name. What has no effect is refused. Of several attributions
    each has its own, so that what one of them does not allow is left out alone.
    """
    names = several_of(Explanation, "attribution", given.get("attribution", default_of(Explanation, "attribution")))
    noisy = any(name in SMOOTHED for name in names)
    said = {name: value for name, value in given.items() if noisy or name != "sigma"}  # else of the smoothed map alone
    attacks = [
        Piece(
            f"{ATTACK}-{norm}",
            f"attacks and first-order bounds, {norm}",
            task_of("attack", {**_of("attack", said), "norm": norm, "eps": asked.attacked(norm, yard)}, beside=said),
        )
        for norm in NORMS
    ]
    proofs = [
        Piece(
            f"{PROOF}-{norm}",
            f"proved bounds, {norm}",
            task_of("bound", {**_of("bound", said), "norm": norm, "eps": asked.proved(norm, yard), "proved": True}),
        )
        for norm in NORMS
    ]
    smoothed = Piece(SMOOTH, "certificates of the smoothed map", _smoothed(given, names, yard))
    planned = [attacks[0], smoothed, *attacks[1:], *proofs]
    return planned if len(names) == 1 else [own for piece in planned for own in _of_each(piece)]


def _of_each(piece: Piece) -> list[Piece]:
    """A piece for each attribution, by the name of which it is called."""
    named = [(task, plain_name(task.explanation.label)) for task in piece.task.singles]
    return [
        Piece(
            f"{piece.name}-{re.sub(r'[^a-z0-9.-]', '-', name, flags=re.IGNORECASE)}",
            f"{piece.about}, {name}",
            task,
            name,
        )
        for task, name in named
    ]


def _smoothed(given: Mapping[str, Any], names: Sequence[str], yard: Yard) -> Task:
    """Of the attributions, or of the one that a smoothed attribution averages; noise of features is in units of their spread."""
    usual = default_of(Averaging, "sigma") * (1 if yard.spread is None else yard.spread)
    wanted = {"sigma": usual} | {
        name: value for name, value in _of("max-eps", given, smoothed=True).items() if name != "radius"
    }
    if any(name in SMOOTHED for name in names):
        base = made(Averaging, given).smooth_base
        wanted["attribution"] = list(dict.fromkeys(base if name in SMOOTHED else name for name in names))
    return task_of("max-eps", {**wanted, "smooth": "gaussian", "min_cosine": (LEAST_COSINE,)})


def _of(command: str, given: Mapping[str, Any], *, smoothed: bool = False) -> dict[str, Any]:
    """Those that a task of the command takes."""
    task = COMMANDS[command].smoothed if smoothed else COMMANDS[command].plain
    assert task is not None
    known = settings_of(task)
    return {name: value for name, value in given.items() if name in known}
