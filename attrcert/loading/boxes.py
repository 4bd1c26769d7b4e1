"""True boxes of objects in images: read from a file of COCO or of CUB-200-2011, matched to samples, and moved with their pixels."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from attrcert.errors import DataError, SampleError
from attrcert.geometry.boxes import area
from attrcert.loading.files import capped, decoding, regular
from attrcert.loading.frames import frame_of
from attrcert.loading.pixels import Images
from attrcert.saved.files import readable
from attrcert.vocabulary import shortened, some

BESIDE = "images.txt"  # CUB's file of names, beside that of the boxes
BEYOND = 1.0  # pixels by which a box may leave its image: published ones are rounded
Corners = tuple[float, float, float, float]  # x0, y0, x1, y1


@dataclass(frozen=True)
class Boxed:
    """The boxes of an image, its name or else its number, and its height and width if the file says them."""

    name: str
    number: int
    boxes: tuple[Corners, ...]
    size: tuple[int, int] | None = None


@dataclass(frozen=True)
class TrueBoxes:
    """Of samples by their index, in the pixels of the inputs. `absent` says which images of the file are not among the data, and
    `lacking` how many samples have no box.
    """

    images: Images
    boxed: Mapping[int, Boxed]
    absent: str = ""
    lacking: str = ""

    def __call__(self, index: int) -> Float64[ndarray, "n 4"]:
        """What the input shows of them; a sample whose boxes cannot be right is a SampleError."""
        one, frame = self.boxed.get(index), frame_of(self.images, index)
        height, width = frame.original
        if one is None or not one.boxes:
            raise SampleError("the file of --boxes has no box for this sample", kind="box")
        if one.size and one.size != frame.original:
            told = f"{one.size[1]} x {one.size[0]}"
            raise SampleError(f"its boxes are for an image of {told} pixels, and it has {width} x {height}", kind="box")
        corners = np.array(one.boxes)
        beyond = max(-corners[:, :2].min(), corners[:, 2].max() - width, corners[:, 3].max() - height)
        if beyond > BEYOND:
            raise SampleError(
                f"its box {_text(one.boxes)} leaves the image of {width} x {height} pixels: boxes are in pixels of the original image",
                kind="box",
            )
        shown = frame.moved(corners)
        return shown[area(shown) > 0]


def true_boxes(
    path: Path, images: Images, sources: Sequence[str], selected: Sequence[int], max_input: str
) -> TrueBoxes:
    """The boxes of a file for samples with these sources: by the images' names, or where samples have none, by number."""
    found = read_boxes(path, max_input)
    boxed = _by_name(found, sources, path) if sources else _by_number(found, len(images), path)
    having = [index for index in selected if index in boxed and boxed[index].boxes]
    if not having:
        raise DataError(
            f"{path} has no box for any of the {len(selected)} samples: it names {some([one.name for one in found], 2)}, and they are "
            + (some([sources[index] for index in selected], 2) if sources else f"numbered from {selected[0]}"),
            hint="names are paths within the folder of the data, or ends of them"
            if sources
            else "the id of an image is its place, from 0",
        )
    known, missing = set(boxed.values()), len(selected) - len(having)
    others = [one.name for one in found if one not in known]
    return TrueBoxes(
        images,
        boxed,
        f"images in {path.name} that are not among the data: {len(others)} of {len(found)}, {some(others, 2)}"
        if others
        else "",
        f"samples without a box in {path.name}: {missing} of {len(selected)}" if missing else "",
    )


def read_boxes(path: Path, max_input: str) -> list[Boxed]:
    """Of a file in either form."""
    if path.suffix not in FORMS:
        raise DataError(f"--boxes must be a COCO .json or CUB's bounding_boxes.txt, got {path}")
    size = regular(path, "file of boxes", DataError)
    capped(size, max_input, path.name, DataError)
    with readable(path), decoding(f"{path} is not a readable file of boxes", DataError):
        return list(FORMS[path.suffix](path.read_text(encoding="utf-8-sig"), path))


def _coco(text: str, path: Path) -> Iterator[Boxed]:
    """`images` with an id, and `annotations` with an image_id and a bbox: x, y, width, height."""
    whole = json.loads(text)
    images, annotations = (whole.get(name) if isinstance(whole, dict) else None for name in ("images", "annotations"))
    if not (isinstance(images, list) and isinstance(annotations, list)):
        raise DataError(f"{path} must hold the lists images and annotations, as COCO's files do")
    known = {_field(one, "id", int, "an image", path): one for one in images}
    if len(known) < len(images):
        raise DataError(f"{path} must give each image an id of its own, and two have the same")
    boxes: dict[int, list[Corners]] = {number: [] for number in known}
    for one in annotations:
        number = _field(one, "image_id", int, "an annotation", path)
        if number not in known:
            raise DataError(f"{path} has an annotation of the image {number}, which is not in its images")
        if not one.get("iscrowd"):
            boxes[number].append(_corners(one.get("bbox"), f"image {number}", path))
    for number, one in known.items():
        size = tuple(one.get(name) for name in ("height", "width"))
        whole_numbers = all(isinstance(side, int) for side in size)
        yield Boxed(str(one.get("file_name", number)), number, tuple(boxes[number]), size if whole_numbers else None)


def _field(entry: Any, name: str, kind: type, what: str, path: Path) -> Any:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DataError(f"{path}: {what} must have a number as its {name}, got {shortened(repr(entry), 80)}")
    return value


def _cub(text: str, path: Path) -> Iterator[Boxed]:
    """A number and x, y, width, height a line; the names are in images.txt beside it."""
    beside = path.with_name(BESIDE)
    regular(beside, f"file {BESIDE} beside {path.name}", DataError)
    names = dict(_numbered(beside.read_text(encoding="utf-8"), beside, 2))
    for number, words in _numbered(text, path, 5):
        if number not in names:
            raise DataError(f"{path} has a box of the image {number}, which {BESIDE} does not name")
        corners = _corners([_number(word) for word in words], f"image {number}", path)
        yield Boxed(names[number][0], number, (corners,))


def _numbered(text: str, path: Path, count: int) -> Iterator[tuple[int, list[str]]]:
    """Lines of a whole number and further words."""
    for place, line in enumerate(text.splitlines(), 1):
        words = line.split(maxsplit=count - 1)
        if words and not (len(words) == count and words[0].isdecimal()):
            raise DataError(f"{path} must have {count} words a line, the first a number, and line {place} does not")
        if words:
            yield int(words[0]), [word.strip() for word in words[1:]]


def _number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


def _corners(box: Any, whose: str, path: Path) -> Corners:
    """Of x, y, width and height."""
    numbers = isinstance(box, list) and len(box) == 4 and all(type(side) in (int, float) for side in box)
    if not numbers or not all(map(isfinite, box)) or min(box[2:]) <= 0:
        raise DataError(
            f"{path}: a box must be four finite numbers, x, y, width and height, the last two above 0; that of {whose} is "
            f"{shortened(str(box), 60)}"
        )
    x, y, width, height = map(float, box)
    return x, y, x + width, y + height


FORMS: Mapping[str, Callable[[str, Path], Iterator[Boxed]]] = {".json": _coco, ".txt": _cub}


def _by_name(found: Iterable[Boxed], sources: Sequence[str], path: Path) -> dict[int, Boxed]:
    """A name and a source are the same file where one is the end of the other, folder by folder."""
    places: dict[tuple[str, ...], list[int]] = {}
    for index, source in enumerate(sources):
        for end in _ends(source):
            places.setdefault(end, []).append(index)
    boxed: dict[int, Boxed] = {}
    for one in found:
        parts = PurePosixPath(one.name).parts
        whole = [place for end in _ends(one.name) for place in places.get(end, ()) if end == _parts(sources[place])]
        fitting = places.get(parts) or whole[:1]
        if len(fitting) > 1:
            named = some([sources[place] for place in fitting], 2)
            raise DataError(f"{path}: the image {one.name} could be {named}", hint="name the folder that it is in")
        for place in fitting:
            if place in boxed:
                raise DataError(f"{path} has two images for {sources[place]}: {boxed[place].name} and {one.name}")
            boxed[place] = one
    return boxed


def _parts(name: str) -> tuple[str, ...]:
    return PurePosixPath(name).parts


def _ends(name: str) -> Iterator[tuple[str, ...]]:
    """The whole path, without its first folder, and so on."""
    parts = _parts(name)
    return (parts[start:] for start in range(len(parts)))


def _by_number(found: Iterable[Boxed], samples: int, path: Path) -> dict[int, Boxed]:
    if path.suffix != ".json":
        raise DataError(f"the data have no file names, by which {path.name} tells its images", hint="give a COCO .json")
    boxed = {one.number: one for one in found}
    if wrong := [number for number in boxed if not 0 <= number < samples]:
        raise DataError(
            f"{path}: data without file names are told by the id of an image, from 0 to {samples - 1}, got {wrong[0]}"
        )
    return boxed


def _text(boxes: Iterable[Corners]) -> str:
    return "; ".join(", ".join(f"{corner:g}" for corner in box) for box in boxes)
