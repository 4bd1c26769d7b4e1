"""Options in groups: a command takes a dataclass where it would repeat twenty parameters."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from attrcert.cli.library_warnings import library_warnings

Context = Annotated[Any, "typer's context"]  # the type of a parameter that gets it: typer passes a class of its own


def said(context: Any, name: str) -> bool:
    """Whether an option was given on the command line."""
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every dataclass parameter replaced by the dataclass's fields, as typer wants to see them."""
    hints = {
        name: typer.Context if hint == Context else hint
        for name, hint in get_type_hints(command, include_extras=True).items()
    }
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        with library_warnings(quiet=any(getattr(group, "quiet", False) for group in made.values())):
            command(**given, **made)

    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in fields(group)
    ]


def _default(field: Field) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
