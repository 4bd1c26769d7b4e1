"""The parts of an audit: tasks of the other commands, with the same settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attrcert.attributions import SMOOTHED
from attrcert.settings.auditing import Auditing
from attrcert.settings.commands import COMMANDS, task_of
from attrcert.settings.declared import made
from attrcert.settings.explaining import Averaging, Explanation
from attrcert.settings.tasks import Task, settings_of

LEAST_COSINE = 0.9  # that a smoothed map is to keep
ATTACK, SMOOTH, PROOF = "attack", "smoothed", "proved"
NORMS = ("l2", "linf")


@dataclass(frozen=True)
class Piece:
    """One of them; its rows are in a file of its name."""

    name: str
    about: str
    task: Task

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    @property
    def file(self) -> str:
        return f"{self.name}.csv"


def pieces(asked: Auditing, given: Mapping[str, Any], d: int) -> list[Piece]:
    """For inputs of d numbers; `given` are all settings that were given, by name. What has no effect is refused."""
    noisy = made(Explanation, given).attribution in SMOOTHED
    said = {name: value for name, value in given.items() if noisy or name != "sigma"}  # else of the smoothed map alone
    attacks = [
        Piece(
            f"{ATTACK}-{norm}",
            f"attacks and first-order bounds, {norm}",
            task_of("attack", {**_of("attack", said), "norm": norm, "eps": asked.attacked(norm, d)}, beside=said),
        )
        for norm in NORMS
    ]
    proofs = [
        Piece(
            f"{PROOF}-{norm}",
            f"proved bounds, {norm}",
            task_of("bound", {**_of("bound", said), "norm": norm, "eps": asked.proved(norm, d), "proved": True}),
        )
        for norm in NORMS
    ]
    return [
        attacks[0],
        Piece(SMOOTH, "certificates of the smoothed map", _smoothed(given, noisy=noisy)),
        *attacks[1:],
        *proofs,
    ]


def _smoothed(given: Mapping[str, Any], *, noisy: bool) -> Task:
    """Of the attribution, or of the one that a smoothed attribution averages."""
    wanted = {name: value for name, value in _of("max-eps", given, smoothed=True).items() if name != "radius"}
    if noisy:
        wanted["attribution"] = made(Averaging, given).smooth_base
    return task_of("max-eps", {**wanted, "smooth": "gaussian", "min_cosine": (LEAST_COSINE,)})


def _of(command: str, given: Mapping[str, Any], *, smoothed: bool = False) -> dict[str, Any]:
    """Those that a task of the command takes."""
    task = COMMANDS[command].smoothed if smoothed else COMMANDS[command].plain
    assert task is not None
    known = settings_of(task)
    return {name: value for name, value in given.items() if name in known}
