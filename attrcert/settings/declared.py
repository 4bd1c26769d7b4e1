"""A setting is declared once: a field of a frozen dataclass with its help, its limits and how its text is read.

The command line's options with their help, what the library takes, the tables of the catalogue and of the documentation, and what a
manifest says of a run are made from that.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from math import inf, isnan
from os import PathLike
from typing import Any, TypeVar

from attrcert.errors import UsageError
from attrcert.registry import unknown
from attrcert.vocabulary import shortened

METHOD, ATTACK, SMOOTHING, THRESHOLD = "Method", "Attack", "Smoothing", "Threshold"
SOLVER, MODEL, DATA, RUN, OUTPUT = "Solver", "Model", "Data", "Run", "Output"
_KEY = "setting"


@dataclass(frozen=True)
class Setting:
    """What everybody must know of a setting."""

    help: str = ""
    panel: str = ""
    read: Callable[[Any, str], Any] | None = None  # from a text and the option's name to a value
    functions: bool = False  # whether that reads functions too
    many: bool = False  # may be given several times, or with commas
    whole: bool = False  # commas belong to the text
    apart: bool = False  # several make a run of several tasks, with one value each
    collect: Callable[[Iterable[Any]], Any] = tuple  # makes one value of many
    choices: Collection[str] | Callable[[], Collection[str]] = ()
    beyond: Callable[[str], bool] | None = None  # what may be given beside the choices
    least: float = -inf
    most: float = inf
    positive: bool = False  # above 0 and finite
    basic: bool = False  # shown by --help
    unsaid: str = ""  # what holds where it is not given, if the default does not say it
    metavar: str = ""
    flags: tuple[str, ...] = ()  # the option's spellings
    argument: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The choices as they are now."""
        return tuple(self.choices() if callable(self.choices) else self.choices)

    def taken(self, value: Any, hint: str, name: str) -> Any:
        """A value of the type that `hint` writes, checked; texts are read as they are typed."""
        if (value is None and "None" in hint) or isinstance(value, Mapping) or (ANY in hint and not self.many):
            return value
        if self.many:
            return self.collect(self._one(part, hint, name) for part in listed(value, split=not self.whole))
        if "tuple" in hint:
            parts = list(listed(value, split=False))
            if self.read and parts and all(isinstance(part, str) for part in parts):
                return self.read(",".join(parts), name)
            return tuple(self._one(part, hint, name) for part in parts)
        if isinstance(value, list | tuple):  # of an option that is repeatable elsewhere
            value = value[0] if len(value) == 1 else ",".join(map(str, value))
        return self._one(value, hint, name)

    def _one(self, value: Any, hint: str, name: str) -> Any:
        if value is None:
            raise UsageError(f"{name} must have a value, got None")
        readable = isinstance(value, str) or (self.functions and callable(value))
        value = self.read(value, name) if readable and self.read else value
        value = _typed(value, hint, name)
        if self.choices and value not in self.words and not (self.beyond and self.beyond(value)):
            raise unknown(name, str(value), self.words, where="")
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_number(value, name)
        return value

    def _check_number(self, value: float, name: str) -> None:
        for wrong, must in (
            (isnan(value), "a number"),
            (self.positive and not 0 < value < inf, "positive and finite"),
            (value < self.least, f"at least {self.least:g}"),
            (value > self.most, f"at most {self.most:g}"),
            (value == inf and self.least > -inf, "finite"),
        ):
            if wrong:
                raise UsageError(f"{name} must be {must}, got {value}")


ANY = "Any"  # as a hint writes it: whatever is given
KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "bool": ("true or false", (bool,)),
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "str": ("a text", (str, int, float)),
}


def _typed(value: Any, hint: str, name: str) -> Any:
    """The value as its type has it: scalars of arrays, and numbers as texts, are what they say."""
    kinds = [kind for kind in KINDS if re.search(rf"\b{kind}\b", hint)]
    if len(kinds) != 1 or value is None or ANY in hint:
        return value
    (kind,) = kinds
    wanted, types = KINDS[kind]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    try:
        if isinstance(value, str) and kind in ("int", "float"):
            value = int(value) if kind == "int" else float(value)
        elif kind == "str" and (isinstance(value, PathLike) or type(value).__module__ == "torch"):
            value = str(value).removeprefix("torch.")  # a path, a device or a dtype
        value = float(value) if kind == "float" and isinstance(value, int) and not isinstance(value, bool) else value
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{name} must be {wanted}, got {shortened(repr(value), 40)}") from error
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise UsageError(f"{name} must be {wanted}, got {value!r}")
    return f"{value:g}" if kind == "str" and not isinstance(value, str) else value


def listed(value: Any, *, split: bool = True) -> Iterable[Any]:
    """Repeated, separated by commas, or one."""
    value = value.tolist() if getattr(value, "ndim", 0) == 1 else value
    for part in value if isinstance(value, list | tuple | range) else (value,):
        if split and isinstance(part, str):
            yield from (word.strip() for word in part.split(",") if word.strip())
        else:
            yield part


def setting(default: Any, help: str, panel: str = "", *, kw_only: bool = False, **how: Any) -> Any:
    """A field of a `Settings`; a callable makes its default, and MISSING says that it must be given."""
    about: dict[str, Any] = {"metadata": {_KEY: Setting(help, panel, **how)}, "kw_only": kw_only}
    return field(default_factory=default, **about) if callable(default) else field(default=default, **about)


def again(part: type["Settings"], name: str, default: Any, **how: Any) -> Any:
    """A setting of another part with a default of its own."""
    return field(default=default, metadata={_KEY: replace(declared(part)[name], **how)})


def option(name: str) -> str:
    """The command line's word for a setting."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Settings:
    """Settings that belong together, checked when they are put together."""

    def __post_init__(self) -> None:
        for name, value in taken(type(self), {name: getattr(self, name) for name in declared(type(self))}).items():
            object.__setattr__(self, name, value)
        self.check()

    def check(self) -> None:
        """What must hold of several settings together."""


P = TypeVar("P", bound=Settings)


def spelt(name: str, how: Setting) -> str:
    """A setting as the command line's users know it."""
    return name if how.argument else how.flags[0] if how.flags else option(name)


def declared(part: type[Settings]) -> dict[str, Setting]:
    """The settings of a part by name."""
    return {one.name: one.metadata[_KEY] for one in fields(part) if _KEY in one.metadata}


def default_of(part: type[Settings], name: str) -> Any:
    """What holds where a setting is not given; MISSING where it must be."""
    one = next(one for one in fields(part) if one.name == name)
    return one.default_factory() if one.default_factory is not MISSING else one.default


def hint_of(part: type[Settings], name: str) -> str:
    """The type of a setting, as it is written."""
    return next(str(one.type) for one in fields(part) if one.name == name)


def taken(part: type[Settings], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given settings that are a part's. Texts are read, and one value stands for several where several may be given."""
    return {
        name: how.taken(given[name], hint_of(part, name), spelt(name, how))
        for name, how in declared(part).items()
        if name in given
    }


def made(part: type[P], given: Mapping[str, Any]) -> P:
    """A part with those of the given settings that are its own."""
    return part(**taken(part, given))
