"""Folders of image files: in class sub-folders, or flat; decoded when asked for."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from attrcert.errors import AttrcertError, DataError, SampleError
from attrcert.loading.class_names import numbered
from attrcert.loading.frames import Frame
from attrcert.loading.pictures import ENDINGS, decoded, size_of
from attrcert.loading.pixels import Form, as_sample
from attrcert.saved.files import readable
from attrcert.settings.sources import DEFAULT_MAX_INPUT
from attrcert.vocabulary import some


@dataclass(frozen=True)
class FolderImages:
    """Image files in class sub-folders or flat (no labels); decoded one by one."""

    paths: tuple[Path, ...]
    labels: tuple[int | None, ...]
    mode: str
    max_input: str = DEFAULT_MAX_INPUT
    form: Form = field(default_factory=Form)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]:
        try:
            picture = decoded(self.paths[index], self.mode, self.max_input)
        except AttrcertError as error:
            raise SampleError(_text(str(error)), kind="unreadable") from error
        return as_sample(picture, self.form, channels_last=True), self.labels[index]

    def frame(self, index: int) -> Frame:
        """Without decoding the picture."""
        try:
            size = size_of(self.paths[index])
        except AttrcertError as error:
            raise SampleError(_text(str(error)), kind="unreadable") from error
        return Frame(size, size)


def _text(name: str) -> str:
    """Rows are text, names of files need not be."""
    return name.encode(errors="backslashreplace").decode()


@dataclass(frozen=True)
class Folder:
    """A folder's images with their paths inside it, a hash of their names and sizes, and the names of the classes, if it has some."""

    images: FolderImages
    digest: str
    sources: tuple[str, ...]
    classes: tuple[str, ...]


def folder_images(folder: Path, mode: str, max_input: str, form: Form, classes: Sequence[str] | None = None) -> Folder:
    """The image files of a folder. Class folders have the numbers of their names among `classes`, or are numbered by the alphabet."""
    with readable(folder):
        found = _class_files(folder) or [(path, None) for path in _pictures_in(folder.iterdir())]
        if not found:
            raise DataError(f"{folder} holds no image files ({', '.join(sorted(ENDINGS))})")
        paths, names = zip(*found, strict=True)
        # names and sizes, not contents: a folder can hold a hundred thousand files
        sizes = [path.stat().st_size if path.exists() else 0 for path in paths]
    inside = [path.relative_to(folder) for path in paths]
    listing = b"\n".join(b"%b %d" % entry for entry in zip(map(os.fsencode, inside), sizes, strict=True))
    digest = "listing:" + hashlib.sha256(listing).hexdigest()
    present = [entry.name for entry in _sub_folders(folder)] if found[0][1] is not None else []
    numbers = numbered(present, classes, f"class folders of {folder}") if present else {}
    labels = tuple(None if name is None else numbers[name] for name in names)
    named = tuple(classes or map(_text, present)) if present else ()
    images = FolderImages(paths, labels, mode, max_input, form)
    return Folder(images, digest, tuple(_text(path.as_posix()) for path in inside), named)


def _sub_folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _class_files(folder: Path) -> list[tuple[Path, str | None]]:
    """The images of class folders with their folder's names; empty where no sub-folder holds images, which is a flat folder."""
    found = [(path, entry.name) for entry in _sub_folders(folder) for path in _pictures_in(entry.rglob("*"))]
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
