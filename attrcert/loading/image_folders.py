"""Folders of image files: in class sub-folders, or flat; decoded when asked for."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from attrcert.errors import AttrcertError, DataError, SampleError
from attrcert.loading.pictures import ENDINGS, decoded
from attrcert.loading.pixels import as_image
from attrcert.saved.files import readable
from attrcert.settings.sources import DEFAULT_MAX_INPUT
from attrcert.vocabulary import some


@dataclass(frozen=True)
class FolderImages:
    """Image files in class sub-folders (labels in alphabetic order) or flat (no labels); decoded one by one."""

    paths: tuple[Path, ...]
    labels: tuple[int | None, ...]
    mode: str
    max_input: str = DEFAULT_MAX_INPUT

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]:
        try:
            picture = decoded(self.paths[index], self.mode, self.max_input)
        except AttrcertError as error:
            text = str(error).encode(errors="backslashreplace").decode()  # rows are text, names of files need not be
            raise SampleError(text, kind="unreadable") from error
        return as_image(picture, channels_last=True), self.labels[index]


def folder_images(folder: Path, mode: str, max_input: str) -> tuple[FolderImages, str]:
    """The image files of a folder, and a hash of their names and sizes."""
    with readable(folder):
        found = _class_files(folder) or [(path, None) for path in _pictures_in(folder.iterdir())]
        if not found:
            raise DataError(f"{folder} holds no image files ({', '.join(sorted(ENDINGS))})")
        paths, labels = zip(*found, strict=True)
        # names and sizes, not contents: a folder can hold a hundred thousand files
        sizes = [path.stat().st_size if path.exists() else 0 for path in paths]
    names = (os.fsencode(path.relative_to(folder)) for path in paths)
    listing = b"\n".join(b"%b %d" % entry for entry in zip(names, sizes, strict=True))
    return FolderImages(paths, labels, mode, max_input), "listing:" + hashlib.sha256(listing).hexdigest()


def _class_files(folder: Path) -> list[tuple[Path, int | None]]:
    """The images of class folders with their labels; empty where no sub-folder holds images, which is a flat folder."""
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    found = [(path, label) for label, name in enumerate(classes) for path in _pictures_in((folder / name).rglob("*"))]
    beside = _pictures_in(folder.iterdir())
    if found and beside:
        raise DataError(
            f"{folder} must hold images or sub-folders with images, not both: "
            f"it has {some([path.name for path in beside], 1)} beside {some([found[0][0].parent.name])}",
            hint="move either of them elsewhere",
        )
    return list(found)


def _pictures_in(entries: Iterable[Path]) -> list[Path]:
    """In the order of their names. Links that lead nowhere and pipes are among them: each is a sample that cannot be read."""
    return sorted(path for path in entries if path.suffix.lower() in ENDINGS and not path.is_dir())
