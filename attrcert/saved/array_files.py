"""Files of arrays that runs saved beside their rows: read an array at a time, or joined."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from attrcert.errors import UsageError
from attrcert.saved.arrays import MARK
from attrcert.saved.files import check_free, write_whole


class Arrays:
    """A safetensors file that attrcert wrote, read an array at a time."""

    def __init__(self, path: Path, mark: str) -> None:
        if not path.is_file():
            raise UsageError(
                f"{path} cannot be read: " + ("it is no regular file" if path.exists() else "No such file")
            )
        try:
            self._file: Any = cast(Any, safe_open(path, framework="np"))
            metadata = self._file.metadata() or {}
        except (SafetensorError, OSError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
        if metadata.get(MARK) != mark:
            raise UsageError(f"{path} is not a file of {mark} that attrcert wrote")
        self.names = frozenset(self._file.keys())

    def image(self, name: str) -> np.ndarray:
        """Channels first."""
        array = self.array(name)
        if array.ndim != 3 or not array.size:
            raise UsageError(f"{name} must be an image with channels, got the shape {array.shape}")
        return array

    def array(self, name: str) -> np.ndarray:
        try:
            array: np.ndarray = self.stored(name).astype(np.float64)
        except (ValueError, AttributeError) as error:
            raise UsageError(f"{name} cannot be read: {error}") from error
        if not np.isfinite(array).all():
            raise UsageError(f"{name} must be finite")
        return array

    def stored(self, name: str) -> Any:
        """As it is in the file."""
        try:
            return self._file.get_tensor(name)
        except (SafetensorError, TypeError, KeyError, AttributeError) as error:  # kinds of numbers that numpy lacks
            raise UsageError(f"{name} cannot be read: {error}") from error


def joined(files: Iterable[Arrays]) -> dict[str, Any]:
    """The arrays of several files."""
    return {name: file.stored(name) for file in files for name in file.names}


def check_replaceable(path: Path, kind: str, *, overwrite: bool) -> None:
    """Nothing is replaced unasked, and nothing that is not ours."""
    if os.path.lexists(path):
        check_free(path, overwrite=overwrite)
        Arrays(path, kind)


def write_arrays(path: Path, arrays: Mapping[str, Any], mark: str, *, hint: str = "") -> None:
    write_whole(path, lambda part: save_file(dict(arrays), part, metadata={MARK: mark}), hint=hint)
