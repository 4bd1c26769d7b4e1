"""beartype for code whose annotations name protocols: they are made checkable at run time first."""

import functools
import importlib.util
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

HOME = Path(__file__).parents[2]
CALLS = 20  # of a function in a test; loops call one thousands of times, and its checks take longer than what it does

_CONF = BeartypeConf(is_pep484_tower=True)  # an int is a float, as it is for mypy
_jaxtyped = jaxtyping.jaxtyped
_calls: Counter[CodeType] = Counter()


def install(package: str) -> None:
    """The first calls of every function that handles arrays are checked, in every test anew."""
    jaxtyping.jaxtyped = _first_calls_checked
    jaxtyping.install_import_hook(_with_arrays(package), "reference.typechecking.checked")


def forget_calls() -> None:
    _calls.clear()


def _first_calls_checked(*, typechecker: Callable) -> Callable:
    def decorate(decorated: Any) -> Any:
        if not isinstance(decorated, FunctionType):
            return _jaxtyped(decorated, typechecker=typechecker)
        code, whole = decorated.__code__, []

        @functools.wraps(decorated)
        def called(*args: Any, **kwargs: Any) -> Any:
            if _calls[code] >= CALLS:
                return decorated(*args, **kwargs)
            _calls[code] += 1
            if not whole:  # checks are made where they are needed: a function in a function is new in every call
                whole.append(_jaxtyped(decorated, typechecker=typechecker))
            return whole[0](*args, **kwargs)

        return called

    return decorate


def _with_arrays(package: str) -> list[str]:
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
