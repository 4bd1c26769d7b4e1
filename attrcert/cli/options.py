"""Options made of declared settings, and what was said of them. Nothing here imports torch."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

import typer

from attrcert.cli.library_warnings import library_warnings
from attrcert.errors import UsageError
from attrcert.settings.commands import COMMANDS, task_of
from attrcert.settings.declared import Setting, Settings, declared, default_of, made, option
from attrcert.settings.sources import DataSpec, ModelSpec, usual_limit
from attrcert.settings.tasks import Task, parts_of

Run = Callable[..., None]
ALL = "attrcert.all"  # in a context's notes: that all options are asked for
MOST_SHOWN = 26  # letters of choices beside an option; more stand in its help
P = TypeVar("P", bound=Settings)


@dataclass(frozen=True)
class Asked:
    """A command and what was said to it, by the settings' names."""

    command: str
    given: Mapping[str, Any]

    def part(self, kind: type[P]) -> P:
        return made(kind, self.given)

    def task(self, preset: Mapping[str, Any] | None = None) -> Task:
        """With a preset's settings where nothing was said."""
        own = {name for task in COMMANDS[self.command].tasks for name in (*_settings_of_task(task), *task.refused)}
        return task_of(self.command, {name: value for name, value in self.given.items() if name in own}, preset)

    def only(self, *names: str) -> None:
        """Refuse what else was said."""
        for name in self.given:
            if name not in names:
                raise UsageError(f"{option(name)} means nothing with {option(names[0])}")

    def data(self) -> DataSpec:
        """A part of the bundled sample where nothing is said."""
        given = {name: value for name, value in self.given.items() if name in declared(DataSpec)}
        return made(DataSpec, usual_limit(None, given))

    def model(self) -> ModelSpec:
        return self.part(ModelSpec)


@dataclass(frozen=True)
class _Offered:
    """A setting as an option of a command; without a part it is a text without a default."""

    name: str
    how: Setting
    part: type[Settings] | None
    hidden: bool = False

    @property
    def default(self) -> Any:
        return default_of(self.part, self.name) if self.part else None

    @property
    def hint(self) -> str:
        """The type as it is written."""
        return next(str(one.type) for one in fields(self.part) if one.name == self.name) if self.part else "str"

    @property
    def parameter(self) -> inspect.Parameter:
        kind, default = self._kind(), self.default
        shown = bool(default) or (default is not None and not isinstance(default, bool | tuple | Mapping))
        if self.how.unsaid or not shown:
            default = False if kind is bool else None
        listed = f" One of {', '.join(self.how.words)}." if self._shown and self._metavar(kind) != self._shown else ""
        text = self.how.help + listed + (f" Default: {self.how.unsaid}." if self.how.unsaid else "")
        about: dict[str, Any] = {"help": escaped(text), "show_default": shown and not self.how.unsaid}
        if self.how.argument:
            about["help"] = escaped(f"{text} Default: {self.default}.")
            return _parameter(self.name, str | None, typer.Argument(**{**about, "show_default": False}), None)
        about |= {"rich_help_panel": self.how.panel, "hidden": self.hidden}
        about["metavar"] = self._metavar(kind)
        if self.how.choices:
            about["autocompletion"] = _completion(self.how)
        flags = self.how.flags or (option(self.name),)
        given: Any = list[str] if kind is list else kind
        if default is None:
            given = given | None
        elif kind is list:
            default = [_text(value) for value in default]
        elif kind is str:
            default = _text(default)
        return _parameter(self.name, given, typer.Option(*flags, **about), default)

    @property
    def _shown(self) -> str:
        """The choices."""
        return f"[{'|'.join(self.how.words)}]" if self.how.words else ""

    def _metavar(self, kind: type) -> str | None:
        """What is shown for the value: few choices as they are; flags have none."""
        if self._shown and len(self._shown) <= MOST_SHOWN:
            return self._shown
        if self.how.metavar or kind in (bool, int, float):
            return self.how.metavar or None
        return "<number>" if "float" in self.hint else "<text>"

    def _kind(self) -> type:
        """What the command line takes."""
        if self.how.many:
            return list
        kinds = {"bool": bool, "int": int, "float": float} if self.how.read is None else {}
        return next((kind for name, kind in kinds.items() if name in self.hint), str)


def _parameter(name: str, kind: Any, about: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about])


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _completion(how: Setting) -> Callable[[str], list[str]]:
    def completed(incomplete: str) -> list[str]:
        return [word for word in how.words if word.startswith(incomplete)]

    return completed


def escaped(text: str) -> str:
    """Brackets are not markup."""
    return text.replace("[", "\\[")


def _settings_of_task(task: type[Task]) -> dict[str, tuple[type[Settings], Setting]]:
    """Every setting of a task's parts, also those that it refuses."""
    return {name: (part, how) for part in parts_of(task).values() for name, how in declared(part).items()}


def _offers(command: str) -> list[_Offered]:
    """The options of a command: those of its tasks, and those of other parts; arguments first."""
    tasks = {task: _settings_of_task(task) for task in COMMANDS[command].tasks}
    found: dict[str, _Offered] = {}
    for settings in tasks.values():
        for name, (part, how) in settings.items():
            if name not in found or (how.many and not found[name].how.many):
                hidden = all(name in task.refused for task, own in tasks.items() if name in own)
                found[name] = _Offered(name, how, part, hidden)
    for name in {name for task in tasks for name in task.refused} - set(found):
        found[name] = _Offered(name, Setting("", ""), None, hidden=True)
    if len(tasks) > 1:  # saying it is what chooses between the two
        found["smooth"] = _Offered("smooth", found["smooth"].how, None)
    for part in COMMANDS[command].others:
        for name, how in declared(part).items():
            found.setdefault(name, _Offered(name, how, part))
    return sorted(found.values(), key=lambda one: not one.how.argument)


def command(name: str, *, example: str) -> Callable[[Callable[[Asked], None]], Run]:
    """A command of typer's with the options that its settings make; it hears what was said."""

    def made_of(body: Callable[[Asked], None]) -> Run:
        offered = _offers(name)

        def run(context: Any, help_all: bool, **values: Any) -> None:
            if help_all:
                context.meta[ALL] = True
                context.get_help()
                return
            given = {key: value for key, value in values.items() if said(context, key)}
            with library_warnings(quiet=bool(given.get("quiet"))):
                body(Asked(name, given))

        more = sum(not one.how.basic and not one.hidden for one in offered)
        all_of_it = typer.Option("--help-all", help=f"Show {more} more options and exit.")
        parameters = [
            inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(one.parameter for one in offered),
            _parameter("help_all", bool, all_of_it, False),
        ]
        run.__name__, run.__doc__ = name, flowing(body.__doc__ or "")
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.epilog = f"Example: {escaped(example)}"  # type: ignore[attr-defined]
        return run

    return made_of


def hide_advanced(parameters: list[Any], context: Any) -> None:
    """Of computing commands, unless all are asked for; completion knows them all the same."""
    if context.info_name in COMMANDS and not context.meta.get(ALL):
        basic = {one.name for one in _offers(context.info_name) if one.how.basic and not one.hidden} | {"help_all"}
        for parameter in parameters:
            parameter.hidden = parameter.name not in basic


def without_types(parameters: list[Any]) -> list[Any]:
    """Flags say what they are by being there."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def flowing(text: str) -> str:
    """Paragraphs as lines, for terminals of any width."""
    return escaped("\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n")))


def said(context: Any, name: str) -> bool:
    """Whether an option was given on the command line."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
