"""What a torch checkpoint holds beside tensors: stand-ins in its place, so that the tensors are read and no code of the file's runs.

A pickle names classes and functions: a trainer's settings, numpy's numbers, a network's own class. torch's unpickler takes none but its
own (`weights_only=True`). Each other name is given it as a class of ours that takes whatever it is called with and does nothing. Modules
that torch blocks in any case (os, sys) stay blocked, and such a file is refused.
"""

import pickletools
import re
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import safe_globals

STREAMS = 4  # of a file without an archive: a number, a version, the machine, and what was saved
LEAVES = ("_parameters", "_buffers")  # of a pickled module's state
MOST_MODULES = 10**5
OF_TENSORS = re.compile(
    r"torch\.(_utils\.|_tensor\.|\w*Storage$|Size$|nn\.parameter\.)|collections\.OrderedDict$|__builtin__|builtins\.set$"
)
TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "UNICODE")


class StandIn:
    """Of an object that was not made; `state` is what it would have been given, which is data."""

    state: Any = None

    def __new__(cls, *_: Any, **__: Any) -> "StandIn":
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        """Whatever it is called with is not looked at."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _NamedValues:
    """Makes a dict in place of one of another class, which the unpickler fills."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return {}


class _Values:
    """Makes a list in place of one of another class."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return []


CONTAINERS = {"defaultdict": _NamedValues, "AttributeDict": _NamedValues, "deque": _Values}


def unpickled(path: Path) -> Any:
    """What the file holds, with stand-ins for what is neither a tensor nor a plain value."""
    offered: list[Any] = [(CONTAINERS.get(name.rpartition(".")[2], StandIn), name) for name in _names(path)]
    with safe_globals(offered), path.open("rb") as stream:  # by its name torch would take some files for others
        return torch.load(stream, map_location="cpu", weights_only=True)


def foreign_names(path: Path) -> list[str]:
    """The classes and functions that the file names beside those of tensors."""
    return [name for name in _names(path) if not OF_TENSORS.match(name)]


def _names(path: Path) -> list[str]:
    """As torch's unpickler reads them; those up to where they cannot be read."""
    found: dict[str, None] = {}
    with suppress(Exception):  # whatever is wrong with the file, reading it says so
        for place in _pickles(path):
            for module, name in _named(place):
                found[f"{module}.{name}"] = None
    return list(found)


def state_of(module: StandIn) -> dict[str, Tensor] | None:
    """The tensors by name of a network that was pickled whole, as its state_dict would have them; None of anything else."""
    if not isinstance(module.state, Mapping) or not isinstance(module.state.get("_modules"), Mapping):
        return None
    found: dict[str, Tensor] = {}
    waiting = [("", module)]
    for _ in range(MOST_MODULES):
        if not waiting:
            break
        before, inner = waiting.pop()
        found |= {before + name: tensor for name, tensor in _own_tensors(inner)}
        children = _entries(inner.state, "_modules")
        waiting += [(f"{before}{name}.", one) for name, one in reversed(children) if isinstance(one, StandIn)]
    return found


def _own_tensors(module: StandIn) -> Iterator[tuple[str, Tensor]]:
    unsaved = module.state.get("_non_persistent_buffers_set") if isinstance(module.state, Mapping) else None
    for part in LEAVES:
        for name, tensor in _entries(module.state, part):
            if isinstance(tensor, Tensor) and not (isinstance(unsaved, set) and name in unsaved):
                yield name, tensor.detach()


def _entries(state: Any, part: str) -> list[tuple[str, Any]]:
    entries = state.get(part) if isinstance(state, Mapping) else None
    return [(k, one) for k, one in entries.items() if isinstance(k, str)] if isinstance(entries, Mapping) else []


def _pickles(path: Path) -> Iterator[Any]:
    """Streams that are at the beginning of a pickle."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.endswith("data.pkl"):
                    with archive.open(member) as stream:
                        yield stream
        return
    with path.open("rb") as stream:
        for _ in range(STREAMS):
            yield stream


def _named(stream: Any) -> Iterator[tuple[str, str]]:
    """The names in one pickle. Those of Python 2 stand as they are and as they are called now."""
    texts: list[str] = []
    for operation, argument, _ in pickletools.genops(stream):
        text = str(argument)
        if operation.name in TEXTS:
            texts = [*texts[-1:], text]
        if operation.name == "GLOBAL":
            module, _, name = text.partition(" ")
        elif operation.name == "STACK_GLOBAL" and len(texts) == 2:
            module, name = texts
        else:
            continue
        yield module, name
        yield NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
