"""Perturbations that are kept: parts as a run goes, one safetensors file when it is done."""

import shutil
from collections.abc import Collection
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from attrcert.arrays import DELTAS, MARK
from attrcert.errors import ResumeError, UsageError
from attrcert.records import write_whole

METADATA = {MARK: DELTAS}


class DeltaFile:
    """Each batch is a part in a folder beside the file, so that a killed run loses none; `finish` makes one file of them.

    Nothing is written or removed before `begin`, which a run calls once its other files are in order.
    """

    def __init__(self, path: Path, *, resume: bool, overwrite: bool) -> None:
        self.path, self.parts, self._overwrite = path, path.with_name(path.name + ".parts"), overwrite
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
        if path.is_dir() or (self.parts.exists() and not self.parts.is_dir()):
            raise UsageError(f"{path} and {self.parts.name} beside it must not be something else already")
        if path.exists() and not _is_ours(path):
            raise UsageError(f"{path} is not a file of perturbations that attrcert wrote, and is left alone")
        if (path.exists() or self.parts.exists()) and not (resume or overwrite):
            raise UsageError(f"{path} exists", hint="--overwrite replaces it, --resume continues the run of its --out")

    def begin(self, needed: Collection[str]) -> None:
        """Take up an earlier run's perturbations, which must be those `needed`, the names of its finished rows; or start anew."""
        if self._overwrite:
            self.path.unlink(missing_ok=True)
            shutil.rmtree(self.parts, ignore_errors=True)
        present = {name for file in self._files() for name in _names(file)}
        if missing := [name for name in needed if name not in present]:
            raise ResumeError(
                f"{self.path} lacks perturbations of finished samples, such as {missing[0]}",
                hint="use the --save-deltas of the first run, or --overwrite to start anew",
            )
        if not needed and present and self.path.exists():
            raise ResumeError(f"{self.path} belongs to another run", hint="choose another file, or --overwrite")
        self.parts.mkdir(exist_ok=True)

    def __call__(self, deltas: dict[str, Tensor]) -> None:
        """Keep the perturbations of a batch; a part is named by its first entry, so that a repeated batch replaces itself."""
        name = next(iter(deltas)).replace("/", ",")
        part = self.parts / f"{name}.part"
        save_file({key: delta.contiguous() for key, delta in deltas.items()}, part, metadata=METADATA)
        part.replace(self.parts / f"{name}.safetensors")

    def abandon(self) -> None:
        """Remove the parts of a run that nothing can continue."""
        shutil.rmtree(self.parts, ignore_errors=True)

    def finish(self) -> None:
        """One file, with what an earlier finished run left in it."""
        whole: dict[str, Tensor] = {}
        for file in self._files():
            whole |= load_file(file)
        write_whole(self.path, lambda part: save_file(whole, part, metadata=METADATA))
        shutil.rmtree(self.parts)

    def _files(self) -> list[Path]:
        whole = [self.path] if self.path.exists() else []
        return whole + sorted(self.parts.glob("*.safetensors"))


def _is_ours(path: Path) -> bool:
    try:
        with safe_open(path, framework="np") as file:
            return (file.metadata() or {}).get(MARK) == DELTAS
    except (SafetensorError, OSError):
        return False


def _names(path: Path) -> list[str]:
    try:
        with safe_open(path, framework="np") as file:
            return list(file.keys())
    except (SafetensorError, OSError) as error:
        raise ResumeError(f"{path} cannot be read: {error}", hint="delete it, or use --overwrite") from error
