"""Families: a name to a frozen dataclass whose fields are its hyper-parameters; near names are suggested."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar

from attrcert.errors import UsageError
from attrcert.vocabulary import did_you_mean


def unknown(kind: str, name: str, known: Iterable[str], *, where: str = "see `attrcert catalogue`") -> UsageError:
    """The error for a name that is not in a family, with the nearest one, or `where` they are explained."""
    names = list(known)
    return UsageError(f"{kind} must be one of {', '.join(names)}, got {name!r}", hint=did_you_mean(name, names, where))


def no_such(file: str, name: str, kind: str, known: Iterable[str]) -> UsageError:
    """The error for what is neither a file nor the name of something that attrcert brings along."""
    names = list(known)
    message = f"there is no {file} {name}, and no bundled {kind} of that name ({', '.join(names)})"
    return UsageError(message, hint=did_you_mean(name, names, "see `attrcert catalogue`"))


def imported(name: str) -> Any:
    """`package.module:Class`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


T = TypeVar("T")


class Family(Generic[T]):
    """Named members of one kind with aliases; `make` builds one with its hyper-parameters.

    A member is a class, or `package.module:Class`, which is imported when it is first wanted: names are then known without torch.
    """

    def __init__(
        self, kind: str, members: Mapping[str, type[T] | str], aliases: Mapping[str, str] | None = None
    ) -> None:
        self.kind = kind
        self._members = dict(members)
        self._aliases = dict(aliases or {})

    def register(self, name: str, member: type[T] | str, aliases: Sequence[str] = ()) -> None:
        """One more member, under a name and aliases that are free."""
        for new in (name, *aliases):
            if new in self._members or new in self._aliases:
                raise UsageError(f"the {self.kind} {new!r} is there already", hint="choose another name")
        self._members[name] = member
        self._aliases.update(dict.fromkeys(aliases, name))

    def name(self, name: str, kind: str = "") -> str:
        """The full name of a name or alias; errors call it by its kind."""
        full = self._aliases.get(name, name)
        if full not in self._members:
            raise unknown(kind or self.kind, name, [*self._members, *self._aliases])
        return full

    def make(self, name: str, **parameters: Any) -> T:
        """A member with those of `parameters` that are its fields; the others are not its concern."""
        member = self.member(name)
        fields = {field.name for field in dataclasses.fields(member)}  # type: ignore[arg-type]
        return member(**{key: value for key, value in parameters.items() if key in fields})

    def member(self, name: str) -> type[T]:
        """The class of that name."""
        member = self._members[self.name(name)]
        found: type[T] = imported(member) if isinstance(member, str) else member
        return found

    def aliases(self, name: str) -> tuple[str, ...]:
        return tuple(alias for alias, full in self._aliases.items() if full == name)

    def items(self) -> Iterator[tuple[str, type[T]]]:
        yield from ((name, self.member(name)) for name in self._members)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)
