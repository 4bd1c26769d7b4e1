"""The file of maps that `attrcert smooth` writes: one .npz, an array per name with an entry per sample."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from attrcert.errors import UsageError
from attrcert.saved.files import write_whole

NAMES = ("index", "label", "predicted", "target", "image", "map", "standard_error", "C_hat", "C_lower", "M")
PIXEL_NAMES = ("pixel_side", "pixel_radius")  # with --certify-pixels


def write_maps(maps: dict[str, Any], path: Path) -> None:
    """One file of all maps."""
    write_whole(path, lambda part: _save(maps, part))


def _save(maps: dict[str, Any], part: Path) -> None:
    with part.open("wb") as stream:
        np.savez_compressed(stream, **maps)


def holds_maps(path: Path) -> bool:
    """Whether a file is one that `write_maps` wrote."""
    try:
        with zipfile.ZipFile(path) as whole:
            return _stored(NAMES) <= set(whole.namelist()) <= _stored(NAMES + PIXEL_NAMES)
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _stored(names: tuple[str, ...]) -> set[str]:
    return {f"{name}.npy" for name in names}


def read_maps(path: Path) -> dict[str, np.ndarray]:
    """All arrays by name."""
    if not path.is_file():
        raise UsageError(f"{path} cannot be read: No such file")
    if not holds_maps(path):
        raise UsageError(f"{path} is not a file of maps that attrcert wrote")
    try:
        with np.load(path) as whole:
            maps = dict(whole)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if any(array.ndim == 0 or len(array) != len(maps["index"]) for array in maps.values()):
        raise UsageError(f"the arrays of {path} are not of the same samples")
    return maps
