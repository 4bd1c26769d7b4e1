"""Names of classes: read from a file, and the numbers that they stand for."""

import json
from collections.abc import Sequence
from pathlib import Path

from attrcert.errors import DataError
from attrcert.loading.files import decoding, regular
from attrcert.saved.files import readable
from attrcert.vocabulary import did_you_mean, some

LARGEST = 10**7  # bytes


def read_classes(path: Path) -> tuple[str, ...]:
    """A name a line, or a JSON list of names."""
    if regular(path, "file of class names", DataError) > LARGEST:
        raise DataError(f"{path.name} must be a file of class names, and is larger than {LARGEST // 10**6} MB")
    with readable(path), decoding(f"{path.name} is not a readable file of class names", DataError):
        text = path.read_text(encoding="utf-8-sig").strip()
        names = json.loads(text) if text.startswith(("[", "{")) else [line.strip() for line in text.splitlines()]
    if not names or not isinstance(names, list) or not all(isinstance(name, str | int) and str(name) for name in names):
        raise DataError(f"{path.name} must hold a class name a line, or a JSON list of names")
    return tuple(map(str, names))


def numbered(names: Sequence[str], classes: Sequence[str] | None, what: str) -> dict[str, int]:
    """The number of each name: its place among the classes, or by the alphabet where nobody says what the classes are.

    Where the classes have other names throughout, a name that is a number stands for itself, and as many names as there are classes (such
    as ImageNet's synsets) go by the alphabet.
    """
    if classes is None:
        return {name: number for number, name in enumerate(sorted(names))}
    places: dict[str, list[int]] = {}
    for place, name in enumerate(classes):
        places.setdefault(name, []).append(place)
    if not places.keys() & set(names):
        if all(name.isdecimal() and int(name) < len(classes) for name in names):
            return {name: int(name) for name in names}
        if len(names) == len(classes):
            return numbered(names, None, what)
    for name in names:
        if name not in places:
            hint = did_you_mean(name, places, f"they are {some(places)}; --classes FILE names others")
            raise DataError(f"{what} must be named like the classes, and {name!r} is not one of them", hint=hint)
        if len(places[name]) > 1:
            raise DataError(
                f"{what}: {name!r} is the name of the classes {some(map(str, places[name]))}",
                hint="--classes FILE gives each class a name of its own",
            )
    return {name: places[name][0] for name in names}
