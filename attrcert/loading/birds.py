"""CUB-200-2011 as it is published: a folder with images, and text files that say which image is what."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from attrcert.errors import DataError, UsageError
from attrcert.loading.files import capped, decoding, regular, sha256
from attrcert.loading.image_folders import FolderImages
from attrcert.loading.known_sets import usual
from attrcert.loading.pixels import Wanted
from attrcert.loading.wrapping import PICTURE, Opened
from attrcert.saved.files import readable
from attrcert.settings.sources import DataSpec
from attrcert.vocabulary import shortened

PREFIX = "cub:"
IMAGES, LABELS, SPLIT, CLASSES = "images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt"
FILES = (IMAGES, LABELS, SPLIT, CLASSES)
SPLITS: Mapping[str, tuple[str, ...]] = {
    "test": ("0",),
    "train": ("1",),
    "all": ("0", "1"),
}  # by the numbers in the file


def are_birds(folder: Path) -> bool:
    """Whether a folder is such a data set, whose images do not lie in class folders at its top."""
    return all((folder / name).is_file() for name in FILES)


def birds_of(name: str) -> tuple[Path, str]:
    """The folder and the split of `cub:FOLDER` or `cub:FOLDER:SPLIT`, where the files are."""
    place, _, split = name.removeprefix(PREFIX).rpartition(":")
    if split not in SPLITS:
        place, split = name.removeprefix(PREFIX), "test"
    folder = Path(place)
    if not (place and folder.is_dir()):
        raise DataError(f"there is no folder {place}", hint="cub:FOLDER:test, where FOLDER is CUB_200_2011")
    for file in FILES:
        regular(folder / file, "file of CUB-200-2011", DataError)
    return folder, split


def birds(spec: DataSpec, wanted: Wanted) -> Opened:
    """The images of a split in the order of the file, labelled from 0."""
    folder, split = birds_of(spec.dataset)
    tables = {file: _table(folder / file, spec.max_input) for file in FILES}
    names = {
        key: name.partition(".")[2] or name for key, name in tables[CLASSES].items()
    }  # of 001.Black_footed_Albatross
    numbers = {key: number for number, key in enumerate(names)}
    kept = [(key, path) for key, path in tables[IMAGES].items() if tables[SPLIT].get(key) in SPLITS[split]]
    if not kept:
        raise DataError(f"{folder / SPLIT} gives no image to the split {split}")
    unknown = [key for key, _ in kept if tables[LABELS].get(key) not in numbers]
    if unknown:
        raise DataError(
            f"{folder / LABELS} must name a class of {CLASSES} for each image, and does not for {unknown[0]}"
        )
    outside = [path for _, path in kept if not _is_inside(path)]
    if outside:
        raise DataError(f"{folder / IMAGES} must name files inside images/, got {shortened(outside[0])!r}")
    form = wanted.form(PICTURE, folder.name)
    images = FolderImages(
        tuple(folder / "images" / path for _, path in kept),
        tuple(numbers[tables[LABELS][key]] for key, _ in kept),
        "L" if spec.channels == 1 else "RGB",
        spec.max_input,
        form,
    )
    digest = hashlib.sha256("".join(sha256(folder / file) for file in FILES).encode()).hexdigest()
    return Opened(
        images,
        form,
        f"listing:{digest}",
        tuple(f"images/{path}" for _, path in kept),
        tuple(names.values()),
        usual("CUB-200-2011", 256, 224),
    )


def _table(path: Path, max_input: str) -> dict[str, str]:
    """A number and a word a line."""
    capped(regular(path, "file of CUB-200-2011", DataError), max_input, path.name, DataError)
    with readable(path), decoding(f"{path} is not readable text", DataError):
        lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    wrong = next((number for number, line in enumerate(lines, 1) if len(line) != 2), None)
    if wrong:
        raise DataError(f"{path} must have a number and a word a line, and line {wrong} has not")
    return {key: word.strip() for key, word in lines}


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts


def refuse_birds(folder: Path) -> None:
    """Its images would all be of one class, `images`."""
    if are_birds(folder):
        raise UsageError(f"{folder} is CUB-200-2011", hint=f"{PREFIX}{folder}:test takes its images with their labels")
