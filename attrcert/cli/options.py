"""Options made of declared settings, and what was said of them. They are made when a command is asked for, and nothing here imports
torch.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from attrcert.cli.library_warnings import library_warnings
from attrcert.errors import UsageError
from attrcert.settings.declared import Setting, Settings, declared, made, option
from attrcert.settings.sources import DataSpec, ModelSpec, usual_data

if TYPE_CHECKING:
    from attrcert.settings.commands import Command, Offer
    from attrcert.settings.tasks import Task

ALL = "attrcert.all"  # in a context's notes: that all options are asked for
MOST_SHOWN = 32  # letters of choices beside an option; more stand in its help
P = TypeVar("P", bound=Settings)


@dataclass(frozen=True)
class Asked:
    """A command and what was said to it, by the settings' names."""

    command: str
    given: Mapping[str, Any]

    def part(self, kind: type[P]) -> P:
        return made(kind, self.given)

    def task(self, preset: Mapping[str, Any] | None = None) -> "Task":
        """With a preset's settings where nothing was said."""
        from attrcert.settings.commands import task_of

        return task_of(self.command, _declared(self.command).asked_of_task(self.given), preset, self.given)

    def only(self, *names: str) -> None:
        """Refuse what else was said."""
        for name in self.given:
            if name not in names:
                raise UsageError(f"{option(name)} means nothing with {option(names[0])}")

    def data(self) -> DataSpec:
        """A part of a bundled sample where nothing is said."""
        given = {name: value for name, value in self.given.items() if name in declared(DataSpec)}
        return made(DataSpec, usual_data(self.given.get("checkpoint"), None, given))

    def model(self) -> ModelSpec:
        return self.part(ModelSpec)


@dataclass(frozen=True)
class Offered:
    """A command of the command line: its name, its help, and what it does with what was said to it."""

    name: str
    example: str
    body: Callable[[Asked], None]

    @property
    def help(self) -> str:
        return flowing(self.body.__doc__ or "")

    def made(self) -> Any:
        """As typer runs it, with the options that its settings make."""
        from typer.main import get_command

        offers = {one.name: one for one in _declared(self.name).offers}

        def run(context: Any, **values: Any) -> None:
            given = {name: _once(offers[name], values[name]) for name in offers if said(context, name)}
            with library_warnings(quiet=bool(given.get("quiet"))):
                self.body(Asked(self.name, given))

        more = sum(not one.hidden for one in offers.values()) - len(shown(self.name))
        about = typer.Option(
            "--help-all", help=f"Show {more} more options and exit.", callback=_show_all, is_eager=True
        )
        parameters = [
            _parameter("context", typer.Context),
            *map(_parameter_of, offers.values()),
            *([_parameter("help_all", Annotated[bool, about], default=False)] if more else []),
        ]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        alone = typer.Typer(add_completion=False)
        alone.command(self.name, cls=Plain, help=self.help, epilog=f"Example: {escaped(self.example)}")(run)
        return get_command(alone)


def command(name: str, *, example: str) -> Callable[[Callable[[Asked], None]], Offered]:
    """A command with the options that its settings make; its body hears what was said."""
    return lambda body: Offered(name, example, body)


class Plain(TyperCommand):
    """Flags are shown without a type, and only --help-all shows options that few need."""

    def get_params(self, ctx: Any) -> Any:
        return without_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        visible, parameters = shown(ctx.info_name) | {"help_all"}, list[Any](self.params)
        for parameter in parameters:  # hidden from help alone: completion knows them
            parameter.hidden = parameter.hidden or (parameter.name not in visible and not ctx.meta.get(ALL))
            parameter.opts = _without_aliases(parameter.opts)
        super().format_help(ctx, formatter)


def without_types(parameters: list[Any]) -> list[Any]:
    """Flags say what they are by being there, and of arguments each value is shown."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.nargs == -1:
            parameter.display_type_rich = lambda ctx: "<path>"
    return parameters


def flowing(text: str) -> str:
    """Paragraphs as lines, for terminals of any width."""
    return escaped("\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n")))


def escaped(text: str) -> str:
    """Brackets are not markup."""
    return text.replace("[", "\\[")


def said(context: Any, name: str) -> bool:
    """Whether an option was given on the command line."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def _declared(command: str) -> "Command":
    from attrcert.settings.commands import COMMANDS

    return COMMANDS[command]


def shown(command: str) -> set[str]:
    """The options that --help shows: those that are marked as basic, or all where none is."""
    known = [one for one in _declared(command).offers if not one.hidden]
    return {one.name for one in known if one.how.basic} or {one.name for one in known}


def _show_all(context: Any, wanted: bool) -> None:
    if wanted:
        context.meta[ALL] = True
        context.get_help()
        raise typer.Exit


def _once(offer: "Offer", value: Any) -> Any:
    """One value, of an option that takes one: none of several is forgotten."""
    if not isinstance(value, list) or offer.how.many or offer.how.apart:
        return value
    if len(value) > 1:
        times = "twice" if len(value) == 2 else f"{len(value)} times"
        raise UsageError(f"{offer.spelt} is given {times}: {', '.join(value)}", hint="give it once")
    return value[0]


def _parameter_of(offer: "Offer") -> inspect.Parameter:
    """As typer reads it. All values are texts: the settings say what they mean, and what is wrong with them."""
    how, metavar, flag = offer.how, _metavar(offer), "bool" in offer.hint
    aliases = [word for word in how.flags if word not in _without_aliases(how.flags)]
    text = how.help + ("" if metavar.startswith("[") else offer.listed) + "".join(f" Also {word}." for word in aliases)
    in_text = bool(how.unsaid or how.argument)
    text += f" Default: {offer.usual}." if offer.usual and in_text else ""
    default: Any = False if flag else [offer.usual] if offer.usual and not in_text else None
    about: dict[str, Any] = {"help": escaped(text), "show_default": bool(default), "autocompletion": _completion(how)}
    kind: Any = bool if flag else list[str]
    if how.argument:
        kind, made_of = list[str] if how.many else str, typer.Argument(**about)
    else:
        about |= {"metavar": metavar, "rich_help_panel": how.panel, "hidden": offer.hidden}
        words = how.flags or (option(offer.name),)
        made_of = typer.Option(*words, **about)
    if offer.default is MISSING:
        return _parameter(offer.name, Annotated[kind, made_of])
    return _parameter(offer.name, Annotated[kind if flag else kind | None, made_of], default=default)


def _parameter(name: str, kind: Any, **default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, **default)


def _metavar(offer: "Offer") -> str:
    """What is shown for the value: few choices as they are; flags have none."""
    choices, hint = f"[{'|'.join(offer.how.words)}]", offer.hint
    if offer.how.words and len(choices) <= MOST_SHOWN:
        return choices
    kinds = {"bool": "", "int": "<int>", "float": "<float>"} if offer.how.read is None else {"float": "<number>"}
    kind = next((shown for name, shown in {**kinds, "Path": "<path>"}.items() if name in hint), "<text>")
    return offer.how.metavar or kind


def _without_aliases(words: Sequence[str]) -> list[str]:
    """The first long spelling, and short ones: more would not fit beside the help."""
    long = [word for word in words if word.startswith("--")]
    return [word for word in words if word not in long[1:]]


def _completion(how: Setting) -> Callable[[str], list[str]] | None:
    def completed(incomplete: str) -> list[str]:
        return [word for word in how.words if word.startswith(incomplete)]

    return completed if how.choices else None
