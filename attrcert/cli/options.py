"""Options made of declared settings, and what was said of them. Nothing here imports torch."""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typer

from attrcert.cli.library_warnings import library_warnings
from attrcert.settings.commands import COMMANDS, task_of
from attrcert.settings.declared import Part, Setting, declared, default_of, made, option
from attrcert.settings.sources import DataSpec, ModelSpec, usual_limit
from attrcert.settings.tasks import Task, parts_of

Context = typer.Context
Run = Callable[..., None]
P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class Asked:
    """A command and what was said to it, by the settings' names."""

    command: str
    given: Mapping[str, Any]

    def part(self, kind: type[P]) -> P:
        return made(kind, self.given)

    def task(self, **others: Any) -> Task:
        """With settings that count where nothing was said, such as a preset's."""
        own = {name for task in COMMANDS[self.command] if task for name in _settings_of_task(task)}
        return task_of(self.command, {**others, **{name: value for name, value in self.given.items() if name in own}})

    def data(self) -> DataSpec:
        """A part of the bundled sample where nothing is said."""
        given = {name: value for name, value in self.given.items() if name in declared(DataSpec)}
        return DataSpec(**usual_limit(None, given))

    def model(self) -> ModelSpec:
        return self.part(ModelSpec)


@dataclass(frozen=True)
class _Offered:
    """A setting as an option of a command."""

    name: str
    how: Setting
    hint: Any
    default: Any
    hidden: bool = False

    @property
    def parameter(self) -> inspect.Parameter:
        kind, default = self._kind(), self.default
        shown = bool(default) or (default is not None and not isinstance(default, bool | tuple | Mapping))
        if self.how.unsaid or not shown:
            default = False if kind is bool else None
        text = self.how.help + (f" Default: {self.how.unsaid}." if self.how.unsaid else "")
        about: dict[str, Any] = {"help": escaped(text), "show_default": shown and not self.how.unsaid}
        if self.how.argument:
            about["help"] = escaped(f"{text} Default: {self.default}.")
            return _parameter(self.name, str | None, typer.Argument(**{**about, "show_default": False}), None)
        about |= {"rich_help_panel": self.how.panel, "hidden": self.hidden or not self.how.basic}
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

    def _metavar(self, kind: type) -> str | None:
        """What is shown for the value; flags have none."""
        if self.how.choices:
            return f"[{'|'.join(self.how.words)}]"
        if self.how.metavar or kind in (bool, int, float):
            return self.how.metavar or None
        return "<number>" if "float" in str(self.hint) else "<text>"

    def _kind(self) -> type:
        """What the command line takes."""
        if self.how.many or isinstance(self.default, Mapping):
            return list
        kinds = [kind for kind in _united(self.hint) if kind is not type(None)]
        return kinds[0] if self.how.read is None and kinds[0] in (bool, int, float) else str


def _parameter(name: str, kind: Any, about: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about])


def _united(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _completion(how: Setting) -> Callable[[str], list[str]]:
    def completed(incomplete: str) -> list[str]:
        return [word for word in how.words if word.startswith(incomplete)]

    return completed


def escaped(text: str) -> str:
    """Brackets are not markup."""
    return text.replace("[", "\\[")


def _settings_of_task(task: type[Task]) -> dict[str, tuple[type[Part], Setting]]:
    """Every setting of a task's parts, also those that it refuses."""
    return {name: (part, how) for part in parts_of(task).values() for name, how in declared(part).items()}


def _offers(command: str, parts: Iterable[type[Part]]) -> list[_Offered]:
    """The options of a command: those of its tasks, and those of other parts; arguments first."""
    tasks = [task for task in COMMANDS.get(command, ()) if task is not None]
    found: dict[str, _Offered] = {}
    for task in tasks:
        for name, (part, how) in _settings_of_task(task).items():
            if name not in found or (how.many and not found[name].how.many):
                hidden = all(name in other.refused for other in tasks if name in _settings_of_task(other))
                found[name] = _Offered(name, how, get_type_hints(part)[name], default_of(part, name), hidden)
    if len(tasks) > 1:  # saying it is what chooses between the two
        found["smooth"] = _Offered("smooth", found["smooth"].how, str, None)
    for part in parts:
        for name, how in declared(part).items():
            found.setdefault(name, _Offered(name, how, get_type_hints(part)[name], default_of(part, name)))
    return sorted(found.values(), key=lambda one: not one.how.argument)


def command(name: str, *parts: type[Part], example: str) -> Callable[[Callable[[Asked], None]], Run]:
    """A command of typer's with the options of a command's tasks and of other parts; it hears what was said."""

    def made_of(body: Callable[[Asked], None]) -> Run:
        offered = _offers(name, parts)

        def run(context: typer.Context, help_all: bool, **values: Any) -> None:
            given = {key: value for key, value in values.items() if said(context, key)}
            with library_warnings(quiet=bool(given.get("quiet"))):
                body(Asked(name, given))

        parameters = [one.parameter for one in offered]
        more = sum(not one.how.basic and not one.hidden for one in offered)
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [context, *parameters, _help_all(more, {one.name for one in offered if one.hidden})]
        run.__name__, run.__doc__ = name, flowing(body.__doc__ or "")
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.epilog = f"Example: {escaped(example)}"  # type: ignore[attr-defined]
        return run

    return made_of


def _help_all(more: int, hidden: set[str]) -> inspect.Parameter:
    def show(context: typer.Context, wanted: bool) -> None:
        if wanted:
            for parameter in context.command.params:
                parameter.hidden = parameter.name in hidden  # type: ignore[attr-defined]
            context.get_help()
            raise typer.Exit

    kind = Annotated[
        bool, typer.Option("--help-all", is_eager=True, callback=show, help=f"Show {more} more options and exit.")
    ]
    return inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)


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
