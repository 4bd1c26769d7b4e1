"""beartype for code whose annotations name protocols: they are made checkable at run time first."""

import importlib.util
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from beartype import BeartypeConf, beartype

HOME = Path(__file__).parents[2]
_CONF = BeartypeConf(is_pep484_tower=True)  # an int is a float, as it is for mypy


def with_arrays(package: str) -> list[str]:
    """Its modules that speak of arrays; mypy knows all about the others, whose functions of numbers would take a hundred times as long."""
    files = (path for path in (HOME / package).rglob("*.py") if "jaxtyping" in path.read_text())
    return [".".join(path.relative_to(HOME).with_suffix("").parts) for path in files if path.stem != "__init__"]


def checked(decorated: Any) -> Any:
    """`beartype.beartype`, which refuses protocols that are not `runtime_checkable`."""
    for hint in getattr(decorated, "__annotations__", {}).values():
        for protocol in _protocols(hint):
            typing.runtime_checkable(protocol)
    return beartype(decorated, conf=_CONF)


def _protocols(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and getattr(hint, "_is_protocol", False) and hint is not typing.Protocol:
        yield hint
    for argument in hint if isinstance(hint, list) else typing.get_args(hint):
        yield from _protocols(argument)


def unchecked(module: ModuleType) -> ModuleType:
    """The same source without the checks, which take a hundred times as long as a function of a few numbers."""
    spec = importlib.util.spec_from_file_location("unchecked", module.__file__)
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    return plain
