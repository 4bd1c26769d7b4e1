"""Weights in files, whatever the files are called: told by their content, read without ever running code, unwrapped."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from attrcert.errors import CheckpointError
from attrcert.foreign import shell
from attrcert.loading.exported import EXPORT, holds_program
from attrcert.loading.files import capped, decoding, regular
from attrcert.loading.unread import StandIn, foreign_names, state_of, unpickled
from attrcert.saved.files import readable
from attrcert.settings.sources import DEFAULT_MAX_INPUT
from attrcert.vocabulary import shortened, some

DEEPEST = 4  # wrappers within wrappers
# the order in which entries that fit alike are taken; others follow as the file has them, and averaged weights after all
WRAPPERS = ("state_dict", "state", "net", "model", "model_state_dict")
AVERAGED = re.compile(r"(^|[._])(ema|swa|teacher|averaged?|shadow)(model|[._]|$)", re.IGNORECASE)
HYPER_PARAMETERS = "hyper_parameters"  # as Lightning calls them
HEADER = 8  # bytes that say how long a safetensors header is
CLEAN = (  # quoted so that a shell's quotes around it stay readable
    'import torch; c = torch.load({path}, map_location="cpu", weights_only=False); '
    'c = c.get("state_dict", c.get("model", c)) if isinstance(c, dict) else c; '
    'c = c.state_dict() if hasattr(c, "state_dict") else c; '
    "torch.save({{k: v for k, v in c.items() if torch.is_tensor(v)}}, {clean})"
)
OF_SCRIPT = 'import torch; torch.save(torch.jit.load({path}, map_location="cpu").state_dict(), {clean})'


@dataclass(frozen=True)
class Tree:
    """Tensors by name, and the entry of the file that they stand under; empty where they are the file itself."""

    entry: str
    weights: dict[str, Tensor]


@dataclass(frozen=True)
class WeightFile:
    """All that a file holds that may be weights, the likeliest first, its metadata, and the arguments that a trainer saved beside them."""

    name: str
    trees: tuple[Tree, ...]
    metadata: Mapping[str, str]
    arguments: Mapping[str, Any] = field(default_factory=dict)


def read_weight_file(path: Path, max_input: str = DEFAULT_MAX_INPUT) -> WeightFile:
    """Of a regular file, by its first bytes."""
    size = regular(path, "checkpoint file", CheckpointError)
    with readable(path), path.open("rb") as stream:
        head = stream.read(HEADER + 1)
    if head[:2] == b"PK":
        _check_archive(path, size, max_input)
    elif head[HEADER:] == b"{" or path.suffix == ".safetensors":
        weights, metadata = _read_safetensors(path)
        return WeightFile(path.name, (Tree("", weights),), metadata)
    elif head[:1] != b"\x80":  # where a pickle of torch.save begins
        raise CheckpointError(
            f"{path.name} is not a readable torch checkpoint: it is neither an archive, nor a pickle, nor safetensors",
            hint=_what_else(head),
        )
    content = _read_torch(path)
    trees = _trees(content, path.name)
    kept, refused = [], None
    for tree in trees:
        # a view can be larger than what it views
        filled = sum(tensor.numel() * tensor.element_size() for tensor in tree.weights.values())
        try:
            capped(filled, max_input, path.name, CheckpointError, on_disk=size)
            kept.append(tree)
        except CheckpointError as error:
            refused = refused or error
    if refused and not kept:
        raise refused
    return WeightFile(path.name, tuple(kept), {}, _arguments(content))


def _arguments(content: Any) -> dict[str, Any]:
    """Lightning's hyper-parameters that are numbers or words."""
    given = content.get(HYPER_PARAMETERS) if isinstance(content, Mapping) else None
    given = given.state if isinstance(given, StandIn) else given  # an argparse.Namespace's are its state
    return {
        name: value
        for name, value in (given.items() if isinstance(given, Mapping) else ())
        if isinstance(name, str) and name.isidentifier() and isinstance(value, bool | int | float | str)
    }


def _what_else(head: bytes) -> str:
    if head.startswith(b"version "):
        return "it is a pointer of Git LFS: fetch the file itself with `git lfs pull`"
    return "it is a web page: download the file itself" if head.lstrip().startswith(b"<") else ""


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(
            f"safetensors reads files with names in UTF-8 only, got {path}", hint="rename it"
        ) from error
    otherwise = f"{path.name} is not a readable safetensors file"
    with decoding(otherwise, CheckpointError), safe_open(path, framework="pt") as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}


def _check_archive(path: Path, size: int, max_input: str) -> None:
    """What an archive would unpack to, and that it holds weights and no program."""
    otherwise = f"{path.name} is not a readable torch checkpoint"
    try:
        with decoding(otherwise, CheckpointError), zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except CheckpointError as error:
        if isinstance(error.__cause__, zipfile.BadZipFile):  # an archive's list of members is at its end
            raise CheckpointError(
                f"{otherwise}: it ends early, or is damaged", hint="copy, fetch or save it again"
            ) from error
        raise
    capped(sum(member.file_size for member in members), max_input, path.name, CheckpointError, on_disk=size)
    names = [member.filename for member in members]
    if holds_program(names):
        raise CheckpointError(
            f"{path.name} is an exported program, whose loader in torch may run code from the file",
            hint=f"if you trust it, give --arch {EXPORT}",
        )
    if any("/code/" in name for name in names) and any(name.endswith("constants.pkl") for name in names):
        raise CheckpointError(
            f"{path.name} is a TorchScript program, and attrcert never runs code from a checkpoint",
            hint=f"if you trust it, save its weights with: {_command(OF_SCRIPT, path)}",
        )


def _read_torch(path: Path) -> Any:
    try:
        return unpickled(path)
    except Exception as error:
        foreign = foreign_names(path)
        if foreign:
            raise CheckpointError(
                f"{path.name} holds more than tensors ({some(foreign, 3)}), and attrcert never runs code from a checkpoint",
                hint="save model.state_dict() alone, or, if you trust the file, where its classes are installed: "
                + _command(CLEAN, path),
            ) from error
        reason = shortened(str(error).partition(". ")[0])  # torch goes on with advice that is not for here
        raise CheckpointError(
            f"{path.name} is not a readable torch checkpoint: {type(error).__name__}: {reason}"
        ) from error


def _command(code: str, path: Path) -> str:
    clean = path.with_name(f"{path.stem}-weights.pt")
    return shell(["python", "-c", code.format(path=json.dumps(str(path)), clean=json.dumps(str(clean)))])


def _trees(content: Any, name: str) -> tuple[Tree, ...]:
    """Every mapping of names to tensors in what a file holds, in the order of likelihood."""
    found = list(_found(content, (), set()))
    if not found:
        kind = type(content).__name__
        if isinstance(content, Mapping):
            entries = some([key for key in content if isinstance(key, str)])
            kind = f"a {kind} with the entries {entries}" if entries else f"a {kind} without named entries"
        raise CheckpointError(f"{name} must hold a state dict, tensors by their names, got {kind}")
    return tuple(sorted(found, key=lambda tree: _likelihood(tree.entry)))


def _found(content: Any, under: tuple[str, ...], seen: set[int]) -> Iterator[Tree]:
    if id(content) in seen or len(under) > DEEPEST:
        return
    seen.add(id(content))
    content = (state_of(content) or content.state) if isinstance(content, StandIn) else content
    if not isinstance(content, Mapping):
        return
    tensors = {k: value for k, value in content.items() if isinstance(k, str) and isinstance(value, Tensor)}
    if tensors:
        yield Tree(".".join(under), tensors)
    for key, value in content.items():
        if isinstance(value, Mapping | StandIn):
            yield from _found(value, (*under, str(key)), seen)


def _likelihood(entry: str) -> tuple[bool, int, int]:
    """How late an entry comes: averaged weights last, then by the order of wrappers, then by depth."""
    first = entry.partition(".")[0]
    place = WRAPPERS.index(first) if first in WRAPPERS else len(WRAPPERS)
    return bool(AVERAGED.search(entry)), place if entry else -1, entry.count(".")
