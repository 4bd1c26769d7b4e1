"""Arrays from .npz and .npy files, whose headers are read and judged before their arrays are."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from attrcert.errors import DataError
from attrcert.loading.files import capped, decoding, regular
from attrcert.saved.files import readable
from attrcert.vocabulary import some

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what numpy writes
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_arrays(
    path: Path, needed: Sequence[str], optional: str, max_input: str
) -> tuple[str, np.ndarray, np.ndarray | None]:
    """The first of the needed names that is there, its array, and the optional one; nothing else in the file is read."""
    size = regular(path, "data file", DataError)
    with readable(path), path.open("rb") as stream:
        if stream.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise DataError(
                f"{path.name} is not a readable .npz file: it is a single array, an .npy file",
                hint=f"save it with np.savez(path, {needed[0]}=..., {optional}=...), or name it .npy",
            )
    otherwise = f"{path.name} is not a readable .npz file of plain arrays"
    with decoding(otherwise, DataError), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        found = next((name for name in needed if name in members), None)
        if found is None:
            named, held = " or ".join(f"`{name}`" for name in needed), some(members) or "nothing"
            raise DataError(f"{path.name} must hold an array {named} (and `{optional}`), got {held}")
        chosen = [members[name] for name in (found, optional) if name in members]
        declared = sum(_declared_bytes(archive, info) for info in chosen)
        capped(declared, max_input, path.name, DataError, on_disk=size)
        arrays = [_array(archive, info) for info in chosen]
    return found, arrays[0], arrays[1] if len(arrays) > 1 else None


def read_array(path: Path) -> np.ndarray:
    """The array of an .npy file."""
    size = regular(path, "data file", DataError)
    with decoding(f"{path.name} is not a readable .npy file of numbers", DataError), path.open("rb") as stream:
        _declared(stream, path.name, size)
        stream.seek(0)
        return npy.read_array(stream, allow_pickle=False)


def _declared_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """What the header says that the array takes; the file must hold as much."""
    if info.compress_type not in COMPRESSIONS:
        raise ValueError(f"{info.filename} must be stored or deflated, got the compression {info.compress_type}")
    with archive.open(info) as stream:
        return _declared(stream, info.filename, info.file_size)


def _declared(stream: IO[bytes], name: str, size: int) -> int:
    """What the header of an array says that it takes, of a file of this size."""
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"{name} has the unknown version {version}")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ValueError(f"{name} holds objects, not numbers")
    declared = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or stream.tell() + declared > size:
        raise ValueError(f"{name} declares the shape {shape}, for which it is too short")
    return declared


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as stream:
        return npy.read_array(stream, allow_pickle=False)
