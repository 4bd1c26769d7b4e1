"""Perturbations that are kept: parts as a run goes, one safetensors file when it is done."""

import os
import stat
from collections.abc import Collection
from pathlib import Path

from torch import Tensor

from attrcert.errors import ResumeError, UsageError
from attrcert.saved.array_files import Arrays, joined, write_arrays
from attrcert.saved.arrays import DELTAS
from attrcert.saved.files import PART, make_folder, remove, remove_folder
from attrcert.saved.locks import Lock

ENDS = (".safetensors", ".part", PART)  # of the names of parts; .part is what version 0.1 left of a killed run
KEPT = "what was kept so far stays; go on with --resume once it can be written"


class DeltaFile(Lock):
    """Each batch is a part in a folder beside the file, so that a killed run loses none; `finish` makes one file of them.

    Nothing is written or removed before `begin`, which a run calls once its other files are in order. One process writes the file
    at a time, until `close` or the end of `with`.
    """

    def __init__(self, path: Path, *, resume: bool, overwrite: bool) -> None:
        self.path, self.parts, self._overwrite = path, path.with_name(path.name + ".parts"), overwrite
        super().__init__(path)
        try:
            self._check(resume=resume, overwrite=overwrite)
        except BaseException:
            self.close()
            raise

    def _check(self, *, resume: bool, overwrite: bool) -> None:
        if _is_something_else(self.parts):
            raise UsageError(f"{self.parts} must be a folder of perturbations that attrcert kept, or not be there")
        if self.path.exists() and not _is_ours(self.path):
            raise UsageError(f"{self.path} is not a file of perturbations that attrcert wrote, and is left alone")
        if (self.path.exists() or self.parts.exists()) and not (resume or overwrite):
            raise UsageError(
                f"{self.path} exists", hint="--overwrite replaces it, --resume continues the run of its --out"
            )

    def begin(self, needed: Collection[str], *, anew: bool = False) -> None:
        """Take up an earlier run's perturbations, which must be those `needed`, the names of its finished rows; or start anew."""
        if self._overwrite or anew:
            remove(self.path)
            remove_folder(self.parts)
        present = {name for file in self._files() for name in file.names}
        if missing := [name for name in needed if name not in present]:
            raise ResumeError(
                f"{self.path} lacks perturbations of finished samples, such as {missing[0]}",
                hint="use the --save-deltas of the first run, or --overwrite to start anew",
            )
        if not needed and present and self.path.exists():
            raise ResumeError(f"{self.path} belongs to another run", hint="choose another file, or --overwrite")
        make_folder(self.parts)

    def __call__(self, deltas: dict[str, Tensor]) -> None:
        """Keep the perturbations of a batch; a part is named by its first entry, so that a repeated batch replaces itself."""
        name = next(iter(deltas)).replace("/", ",")
        arrays = {key: delta.contiguous().numpy() for key, delta in deltas.items()}
        write_arrays(self.parts / f"{name}.safetensors", arrays, DELTAS, hint=KEPT)

    def abandon(self) -> None:
        """Remove the parts of a run that nothing can continue."""
        remove_folder(self.parts)

    def finish(self) -> None:
        """One file, with what an earlier finished run left in it."""
        write_arrays(self.path, joined(self._files()), DELTAS, hint=KEPT)
        remove_folder(self.parts)

    def _files(self) -> list[Arrays]:
        """What was kept so far: the whole file if there is one, then the parts."""
        whole = [self.path] if self.path.exists() else []
        try:
            return [Arrays(path, DELTAS) for path in (*whole, *sorted(self.parts.glob("*.safetensors")))]
        except UsageError as error:
            raise ResumeError(error.message, hint="restore it, or use --overwrite to start anew") from error


def _is_something_else(parts: Path) -> bool:
    """Whether what lies there is no folder of parts; such a folder is removed in the end."""
    try:
        there = os.lstat(parts).st_mode
    except OSError:
        return False
    return not stat.S_ISDIR(there) or not all(
        name.endswith(ENDS) and stat.S_ISREG(os.lstat(parts / name).st_mode) for name in os.listdir(parts)
    )


def _is_ours(path: Path) -> bool:
    try:
        Arrays(path, DELTAS)
    except UsageError:
        return False
    return True
