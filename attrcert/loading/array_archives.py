"""Arrays from an .npz file, whose headers are read and judged before its arrays are."""

import math
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from attrcert.errors import DataError
from attrcert.loading.files import capped, decoding, regular
from attrcert.saved.files import readable
from attrcert.vocabulary import some

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what numpy writes
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_arrays(path: Path, needed: str, optional: str, max_input: str) -> tuple[np.ndarray, np.ndarray | None]:
    """The arrays of these two names; nothing else in the file is read."""
    size = regular(path, "data file", DataError)
    with readable(path), path.open("rb") as stream:
        if stream.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise DataError(
                f"{path.name} is not a readable .npz file: it is a single array, an .npy file",
                hint=f"save it with np.savez(path, {needed}=..., {optional}=...)",
            )
    otherwise = f"{path.name} is not a readable .npz file of plain arrays"
    with decoding(otherwise, DataError), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if needed not in members:
            held = some(members) or "nothing"
            raise DataError(f"{path.name} must hold an array `{needed}` (and `{optional}`), got {held}")
        chosen = [members[name] for name in (needed, optional) if name in members]
        declared = sum(_declared_bytes(archive, info) for info in chosen)
        capped(declared, max_input, path.name, DataError, on_disk=size)
        arrays = [_array(archive, info) for info in chosen]
    return arrays[0], arrays[1] if len(arrays) > 1 else None


def _declared_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """What the header says that the array takes; the file must hold as much."""
    if info.compress_type not in COMPRESSIONS:
        raise ValueError(f"{info.filename} must be stored or deflated, got the compression {info.compress_type}")
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        if version not in _HEADERS:
            raise ValueError(f"{info.filename} has the unknown version {version}")
        shape, _, dtype = _HEADERS[version](stream)
        header = stream.tell()
    if dtype.hasobject:
        raise ValueError(f"{info.filename} holds objects, not numbers")
    declared = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or header + declared > info.file_size:
        raise ValueError(f"{info.filename} declares the shape {shape}, for which it is too short")
    return declared


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as stream:
        return npy.read_array(stream, allow_pickle=False)
