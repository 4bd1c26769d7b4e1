"""Pictures of samples: input, attribution, what an attack made of them or is certified of them; and Jacobians. From saved arrays alone."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attrcert.columns import APART, Cell, Row
from attrcert.errors import UsageError
from attrcert.pictures import LARGEST, coloured, grey_or_colour, png, shaded, sided
from attrcert.reporting.pages.worst import RunRows, badness, cell_text, worst_rows
from attrcert.reporting.summaries.statistics import grouped
from attrcert.saved.array_files import Arrays
from attrcert.saved.arrays import delta_key, input_key, jacobian_key, map_key, moved_map_key, of_part
from attrcert.vocabulary import Side, round_down

POWER_STEPS = 100
FIRST = 100  # dimensions of a Jacobian that are shown apart, as wang2023practical does


@dataclass(frozen=True)
class Picture:
    """A PNG as a data URI, and what it shows."""

    label: str
    uri: str
    title: str
    wide: bool = False


@dataclass(frozen=True)
class Card:
    """A sample with its pictures and figures."""

    title: str
    figures: tuple[tuple[str, str], ...]
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Gallery:
    title: str
    note: str
    cards: tuple[Card, ...]


def galleries(run: RunRows, arrays: Arrays, each: int) -> tuple[Gallery, ...]:
    """The samples that attacks moved most and least, each under the attack and eps that moved it most."""
    worst = worst_rows("attack", run.rows, len(run.rows))
    having = [row for row in worst if set(_names(row, arrays)) <= arrays.names]
    if not having:
        raise UsageError("the file has not the inputs, maps and perturbations of any of the rows")
    order = [own[0] for own in grouped(having, lambda row: row["index"]).values()]
    parts = [("moved most", order[:each]), ("moved least", order[each:][::-1][:each])]
    note = (
        "Red speaks for the class, blue against it, white is 0; both maps of a sample have one scale, and channels are summed. "
        "The perturbation is drawn at full contrast."
    )
    return tuple(
        Gallery(f"{run.name}: {word}", "" if number else note, tuple(_card(row, arrays, run.classes) for row in picked))
        for number, (word, picked) in enumerate(parts)
        if picked
    )


def _case(row: Row) -> tuple[Cell, Cell, Cell]:
    return row.get("index"), row.get("eps"), row.get("attack")


def _names(row: Row, arrays: Arrays) -> tuple[str, str, str, str]:
    """The arrays that a card needs: input, perturbation, map and moved map, as a run with one attribution and norm names them or not."""
    index = row.get("index")
    keys = input_key(index), delta_key(*_case(row)), map_key(index), moved_map_key(*_case(row))
    several = tuple(of_part(key, *map(row.get, APART)) for key in keys)
    image, delta, old, new = several if set(several) <= arrays.names else keys
    return image, delta, old, new


def _card(row: Row, arrays: Arrays, classes: Sequence[str]) -> Card:
    index = row["index"]
    image, delta, old, new = (arrays.image(name) for name in _names(row, arrays))
    if image.shape != delta.shape or old.shape != new.shape:
        raise UsageError(f"the arrays of sample {index} have different shapes")
    _check_length(index, old, row.get("g_norm"))
    before, after = old.sum(axis=0), new.sum(axis=0)
    scale = max(np.abs(before).max(), np.abs(after).max())
    told = ("T_hat_c_deg", "T_c_deg", "T_hat_e", "T_e", "tightness", "status")
    return Card(
        title=f"sample {index}{_class(row, classes)}, eps {row.get('eps'):.6g}, {row.get('attack')}",
        figures=tuple((name, cell_text(name, row[name], "attack")) for name in told if row.get(name) is not None),
        pictures=(
            _picture("input", grey_or_colour(image)),
            _picture("attribution", coloured(before, scale)),
            _picture("attacked input", grey_or_colour(image + delta)),
            _picture("its attribution", coloured(after, scale)),
            _picture("perturbation", coloured(delta.sum(axis=0)), f"largest entry {np.abs(delta).max():.3g}"),
        ),
    )


def _check_length(index: Cell, heat: np.ndarray, told: Cell) -> None:
    """A map whose length is not what the row says was saved by another run."""
    length = float(np.linalg.norm(heat))
    if not isinstance(told, float) or not np.isclose(length, told, rtol=1e-3):
        raise UsageError(f"they are of another run: |g| of sample {index} is {length:.5g}, and its row says {told}")


def _class(row: Row, classes: Sequence[str]) -> str:
    """The label, and the prediction where it is another."""
    label, predicted = row.get("label"), row.get("predicted")
    words = [] if label is None else [f"labelled {_named(label, classes)}"]
    if predicted is not None and predicted != label:
        words.append(f"predicted {_named(predicted, classes)}")
    return f" ({', '.join(words)})" if words else ""


def _named(label: Cell, classes: Sequence[str]) -> str:
    return classes[label] if isinstance(label, int) and 0 <= label < len(classes) else str(label)


def _picture(label: str, rgb: np.ndarray, title: str = "") -> Picture:
    uri = "data:image/png;base64," + base64.b64encode(png(rgb)).decode()
    return Picture(label, uri, title or label)


def pixel_galleries(
    name: str, rows: Sequence[Row], maps: Mapping[str, np.ndarray], each: int, classes: Sequence[str]
) -> tuple[Gallery, ...]:
    """The samples of whose largest pixels the least and the most are certified."""
    if "pixel_side" not in maps:
        raise UsageError("the file of maps has no certified pixels")
    places = {int(index): place for place, index in enumerate(maps["index"])}
    having = [row for row in rows if row["index"] in places and "pixels_share" in row]
    order = sorted(having, key=lambda row: badness(row, "pixels_share", "pixels"), reverse=True)
    note = (
        "Certified pixels: orange stays among the largest, blue stays outside, grey is not certified. Map: red speaks for the class, blue "
        "against it, white is 0; channels are summed."
    )
    return tuple(
        Gallery(
            f"{name}: {word}", "" if number else note, tuple(_pixel_card(row, places, maps, classes) for row in picked)
        )
        for number, (word, picked) in enumerate(
            [("certified least", order[:each]), ("certified most", order[each:][::-1][:each])]
        )
        if picked
    )


def _pixel_card(row: Row, places: Mapping[int, int], maps: Mapping[str, np.ndarray], classes: Sequence[str]) -> Card:
    place = places[int(row["index"] or 0)]
    image, heat, side = (maps[part][place] for part in ("image", "map", "pixel_side"))
    counted = {"pixels_top": Side.TOP, "pixels_not": Side.NOT_TOP, "pixels_abstained": Side.ABSTAINED}
    if image.ndim != 3 or heat.ndim != 3 or heat.shape[1:] != side.shape:
        raise UsageError(f"the arrays of sample {row['index']} have different shapes")
    if any((side == one).sum() != row.get(column) for column, one in counted.items()):
        raise UsageError(f"they are of another run: sample {row['index']} has other counts of pixels in its row")
    return Card(
        title=f"sample {row['index']}{_class(row, classes)}",
        figures=tuple((column, cell_text(column, row[column], "pixels")) for column in ("pixels_share", *counted)),
        pictures=(
            _picture("input", grey_or_colour(image)),
            _picture("smoothed map", coloured(heat.sum(axis=0))),
            _picture("certified pixels", sided(side)),
        ),
    )


def jacobians(name: str, rows: Sequence[Row], arrays: Arrays) -> Gallery | None:
    """The matrices that were saved, with the direction that moves the linearised attribution most."""
    named = (re.fullmatch(r"index=(\d+)/jacobian", key) for key in arrays.names)
    indices = sorted(int(match[1]) for match in named if match)
    lengths = {row["index"]: row.get("g_norm") for row in rows}
    cards = tuple(_jacobian_card(index, lengths.get(index), arrays) for index in indices)
    note = (
        "Entry (i, j) of the Jacobian says how much pixel j moves entry i of the attribution: red raises it, blue lowers it, on a "
        "square-root scale; beside it the size of the entries, white is 0 and black the largest of the picture. The direction is the "
        "right singular vector of the largest singular value."
    )
    return Gallery(f"{name}: Jacobian of the attribution", note, cards) if cards else None


def _jacobian_card(index: int, length: Cell, arrays: Arrays) -> Card:
    J, image = arrays.array(jacobian_key(index)), arrays.image(input_key(index))
    if J.ndim != 2 or J.shape[1] != image.size:
        raise UsageError(f"the Jacobian of sample {index} has the shape {J.shape}, and its input {image.shape}")
    heat = arrays.image(map_key(index))
    _check_length(index, heat, length)
    direction, xi = _top(J)
    shrunk = _blocks(J)
    return Card(
        title=f"sample {index}",
        figures=(("size", f"{J.shape[0]} x {J.shape[1]}"), ("xi_max, at least", round_down(xi, 5))),
        pictures=(
            _picture("input", grey_or_colour(image)),
            _picture("attribution", coloured(heat.sum(axis=0))),
            _picture("direction that moves it most", coloured(direction.reshape(image.shape).sum(axis=0))),
            replace(_picture("Jacobian", coloured(np.sign(shrunk) * np.sqrt(np.abs(shrunk)))), wide=True),
            replace(_picture("size of its entries", shaded(np.abs(shrunk))), wide=True),
            replace(_picture(f"the same, first {FIRST} dimensions", shaded(np.abs(J[:FIRST, :FIRST]))), wide=True),
        ),
    )


def _top(J: np.ndarray) -> tuple[np.ndarray, float]:
    """The direction and the gain that power iteration on J^T J ends with."""
    v: Any = np.random.default_rng(0).standard_normal(J.shape[1])
    for _ in range(POWER_STEPS):
        moved = J.T @ (J @ v)
        length = float(np.linalg.norm(moved))
        if length == 0:
            return moved, 0.0
        v = moved / length
    return v, float(np.linalg.norm(J @ v))


def _blocks(matrix: np.ndarray) -> np.ndarray:
    """The largest entry of each block, so that nothing is lost where a matrix has more entries than a picture."""
    size = -(-max(matrix.shape) // LARGEST)
    rows, columns = (-(-n // size) for n in matrix.shape)
    padded = np.zeros((rows * size, columns * size))
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    blocks = padded.reshape(rows, size, columns, size).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    place = np.abs(blocks).argmax(axis=2)
    return np.take_along_axis(blocks, place[:, :, None], axis=2)[:, :, 0]
