"""A setting is declared once: a field of a frozen dataclass with its help, its limits and how its text is read.

The command line's options with their help, what the library takes, the tables of the catalogue and of the documentation, and what a
manifest says of a run are made from that.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from math import inf, isfinite
from typing import Any, TypeVar

from attrcert.errors import UsageError
from attrcert.registry import unknown

METHOD, ATTACK, SMOOTHING, THRESHOLD = "Method", "Attack", "Smoothing", "Threshold"
SOLVER, MODEL, DATA, RUN, OUTPUT = "Solver", "Model", "Data", "Run", "Output"
_KEY = "setting"


@dataclass(frozen=True)
class Setting:
    """`read` makes a value of a text and the option's name, `many` may be given several times or, unless it is `whole`, with commas,
    `choices` are all the words that it can be, `least` and `most` what a number can be, `positive` that it must be above 0 and finite.
    `basic` ones are shown by --help, `unsaid` tells what holds where it is not given if the default does not, `flags` are the option's
    spellings, `collect` makes one of many.
    """

    help: str
    panel: str
    read: Callable[[str, str], Any] | None = None
    many: bool = False
    whole: bool = False
    choices: Collection[str] | Callable[[], Collection[str]] = ()
    least: float = -inf
    most: float = inf
    positive: bool = False
    basic: bool = False
    unsaid: str = ""
    metavar: str = ""
    flags: tuple[str, ...] = ()
    argument: bool = False
    collect: Callable[[Iterable[Any]], Any] = tuple

    @property
    def words(self) -> tuple[str, ...]:
        """The choices as they are now."""
        return tuple(self.choices() if callable(self.choices) else self.choices)

    def taken(self, value: Any, name: str) -> Any:
        """The value, checked; of texts as they are typed, or as it is."""
        if value is None or isinstance(value, Mapping):
            return value
        if self.many:
            return self.collect(self._one(part, name) for part in _words(value, split=not self.whole))
        if isinstance(value, list | tuple) and (self.choices or self.positive):
            value = value[0] if len(value) == 1 else ",".join(map(str, value))
        return self._one(value, name)

    def _one(self, value: Any, name: str) -> Any:
        if isinstance(value, str) and self.read:
            value = self.read(value, name)
        if self.choices and value not in self.words:
            raise unknown(name, str(value), self.words, where="")
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_number(value, name)
        return value

    def _check_number(self, value: float, name: str) -> None:
        if self.positive and not 0 < value < inf:
            raise UsageError(f"{name} must be positive and finite, got {value}")
        if not value >= self.least:
            raise UsageError(f"{name} must be at least {self.least:g}, got {value}")
        if not value <= self.most:
            raise UsageError(f"{name} must be at most {self.most:g}, got {value}")
        if not isfinite(value) and self.least > -inf:
            raise UsageError(f"{name} must be finite, got {value}")


def _words(value: Any, *, split: bool) -> Iterable[Any]:
    """Repeated, separated by commas, or one."""
    for part in value if isinstance(value, list | tuple) else (value,):
        if split and isinstance(part, str):
            yield from (word.strip() for word in part.split(",") if word.strip())
        else:
            yield part


def setting(default: Any, help: str, panel: str, **how: Any) -> Any:
    """A field of a `Settings`."""
    known = {_KEY: Setting(help, panel, **how)}
    return (
        field(default_factory=default, metadata=known) if callable(default) else field(default=default, metadata=known)
    )


def option(name: str) -> str:
    """The command line's word for a setting."""
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Settings:
    """Settings that belong together, checked when they are put together."""

    def __post_init__(self) -> None:
        real = {one.name for one in fields(self) if "float" in str(one.type)}
        for name, how in declared(type(self)).items():
            value = how.taken(getattr(self, name), spelt(name, how))
            object.__setattr__(self, name, _reals(value) if name in real else value)
        self.check()

    def check(self) -> None:
        """What must hold of several settings together."""


def _reals(value: Any) -> Any:
    """Whole numbers are numbers like others."""
    if isinstance(value, tuple):
        return tuple(_reals(part) for part in value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


P = TypeVar("P", bound=Settings)


def spelt(name: str, how: Setting) -> str:
    """A setting as the command line's users know it."""
    return name if how.argument else how.flags[0] if how.flags else option(name)


def declared(part: type[Settings]) -> dict[str, Setting]:
    """The settings of a part by name."""
    return {one.name: one.metadata[_KEY] for one in fields(part) if _KEY in one.metadata}


def default_of(part: type[Settings], name: str) -> Any:
    """What holds where a setting is not given."""
    one = next(one for one in fields(part) if one.name == name)
    return one.default_factory() if one.default_factory is not MISSING else one.default


def taken(part: type[Settings], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given settings that are a part's. Texts are read, and one value stands for several where several may be given."""
    known = {name: how for name, how in declared(part).items() if name in given}
    return {name: how.taken(given[name], spelt(name, how)) for name, how in known.items()}


def made(part: type[P], given: Mapping[str, Any]) -> P:
    """A part with those of the given settings that are its own."""
    return part(**taken(part, given))
