"""Several attributions, norms and softplus versions in one run: a task for each of them, and what they are together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from attrcert.columns import APART, Cell, Column
from attrcert.errors import UsageError
from attrcert.settings.declared import Settings, declared, default_of, hint_of, listed, option, spelt
from attrcert.settings.explaining import Twin
from attrcert.settings.tasks import Task, homes
from attrcert.vocabulary import NormKind


@dataclass(frozen=True, init=False)
class Several(Task):
    """The tasks of one run, which differ in the attribution, the norm and the twin; what they share is the first one's."""

    tasks: tuple[Task, ...]

    def __init__(self, tasks: tuple[Task, ...]) -> None:
        first = tasks[0]
        shared = {name: getattr(first, name) for name in ("explanation", "perturbation", "arithmetic", "twin")}
        for name, value in {**shared, "tasks": tasks}.items():
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """Rows are told apart by what is written in them."""
        names = [tuple(told(task).items()) for task in self.tasks]
        for task, name in zip(self.tasks, names, strict=True):
            if names.count(name) > 1:
                raise UsageError(f"two attributions have the same name in the rows, {task.label}", hint="rename a file")

    @property
    def singles(self) -> tuple[Task, ...]:
        return self.tasks

    @property
    def command(self) -> str:
        return self.tasks[0].command

    @property
    def work(self) -> str:
        return self.tasks[0].work

    @property
    def label(self) -> str:
        return ", ".join(dict.fromkeys(task.label for task in self.tasks))

    def about(self, classes: str, *others: Task) -> str:
        first, *rest = {task.label: task for task in (*self.tasks, *others)}.values()
        return first.about(classes, *rest)

    @property
    def differentiates_twice(self) -> bool:
        return self.tasks[0].differentiates_twice

    @property
    def done(self) -> str:  # type: ignore[override]
        return self.tasks[0].done

    @property
    def perturbs(self) -> bool:  # type: ignore[override]
        return self.tasks[0].perturbs

    @property
    def explained(self) -> set[str]:
        return set().union(*(task.explained for task in self.tasks))

    @property
    def idle(self) -> dict[str, str]:
        """What has no effect on any."""
        return {name: use for name, use in self.tasks[0].idle.items() if all(name in one.idle for one in self.tasks)}

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({**told(task), **case} for task in self.tasks for case in task.cases)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.tasks[0].columns

    def notes(self, samples: int) -> dict[str, str | None]:
        notes = self.tasks[0].notes(samples)
        shared = notes.get("failure")
        return {**notes, "failure": f"{shared}, of each attribution"} if shared else notes

    def identity(self) -> dict[str, Any]:
        """What all have in common; of what differs, a list of attributions and of norms, and the rest by one of these."""
        identities = [task.identity() for task in self.tasks]
        return {name: self._joined(name, [one[name] for one in identities]) for name in identities[0]}

    def _joined(self, name: str, values: list[Any]) -> Any:
        if all(value == values[0] for value in values):
            return values[0]
        if name in APART:
            return list(dict.fromkeys(values))
        for key in reversed(APART):
            by = {told(task).get(key): value for task, value in zip(self.tasks, values, strict=True)}
            if all(by[told(task).get(key)] == value for task, value in zip(self.tasks, values, strict=True)):
                return by
        return values


def told(task: Task) -> dict[str, Cell]:
    """What its rows say of these."""
    beta: dict[str, Cell] = {} if task.twin.beta is None else {"softplus_beta": task.twin.beta}
    return {"attribution": task.label, "norm": str(task.perturbation.delta_norm), **beta}


def together(tasks: tuple[Task, ...]) -> Task:
    """One task of all; of one it is that one."""
    return tasks[0] if len(tasks) == 1 else Several(tasks)


def at_betas(task: Task, betas: Sequence[float]) -> Task:
    """The same of each of several softplus versions."""
    if not (betas and task.differentiates_twice):
        return task
    return together(tuple(one.replacing(twin=Twin(beta)) for one in task.singles for beta in betas))


def made_of(kind: type[Task], given: Mapping[str, Any]) -> Task:
    """The task that is asked for, or one for each pair of the attributions and norms."""
    lists = {name: _all(kind, name, given[name]) for name in APART if name in given}
    made: list[Task] = []
    for pair in product(*lists.values()):
        case = {**given, **dict(zip(lists, pair, strict=True))}
        norm = case.get("norm") or default_of(homes(kind)["norm"], "norm")
        if len(lists.get("norm", ())) > 1 and norm != NormKind.LP and NormKind.LP in lists["norm"]:
            case.pop("p", None)
        made.append(kind(**{**case, **({"eps": _of_norm(norm, case["eps"], lists)} if "eps" in case else {})}))
    return together(tuple(made))


def _all(kind: type[Task], name: str, value: Any) -> list[Any]:
    """The values of a setting of which there may be several; one is left as it was given."""
    words = list(listed(value)) or [value]
    if len(words) == 1:
        return words
    if kind.alone:
        raise UsageError(f"there can be one {name} here, got {', '.join(map(str, words))}: {kind.alone}")
    return several_of(homes(kind)[name], name, words)


def several_of(part: type[Settings], name: str, value: Any) -> list[Any]:
    """The values of such a setting as a part of settings reads them, each once."""
    how = declared(part)[name]
    read = [how.taken(word, hint_of(part, name), spelt(name, how)) for word in listed(value)]
    if len(set(read)) < len(read):
        raise UsageError(f"each {option(name)} may be given once, got {', '.join(map(str, read))}")
    return read


def _of_norm(norm: Any, eps: Any, lists: Mapping[str, list[Any]]) -> Any:
    """The sizes for this norm: those without a name, and those that are named like it, l2:0.1."""
    if isinstance(eps, Mapping):
        eps = [f"{name}:{one}" for name, ones in eps.items() for one in listed(ones)]
    words = list(listed(eps))
    named = {str(word).partition(":")[0].strip() for word in words if ":" in str(word)}
    if not named:
        return eps
    there = [str(one) for one in lists.get("norm", [norm])]
    if unknown := sorted(named - set(there)):
        raise UsageError(
            f"--eps {unknown[0]}:... is for the norm {unknown[0]}, and this run has {', '.join(there)}",
            hint=f"e.g. --eps {there[0]}:0.1",
        )
    own = [str(word).rpartition(":")[2] if ":" in str(word) else word for word in words if _is_for(norm, word)]
    if not own:
        raise UsageError(f"there is no --eps for the norm {norm}", hint=f"e.g. --eps {norm}:0.1")
    return own


def _is_for(norm: Any, word: Any) -> bool:
    name, colon, _ = str(word).partition(":")
    return not colon or name.strip() == str(norm)
