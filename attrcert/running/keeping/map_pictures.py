"""A picture per smoothed map: the input beside the map, and beside both what is certified of each pixel."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from attrcert.columns import Row
from attrcert.errors import UsageError
from attrcert.pictures import SIDES, coloured, grey_or_colour, picture, sided
from attrcert.saved.files import check_target, make_folder, write_whole
from attrcert.vocabulary import Side, round_down

SCALE = 8  # picture pixels per image pixel, for small images
LARGE = 128
PANEL, GAP, LINE, LETTERS = 256, 12, 22, 15  # of a picture with words: about the width of an image, and heights
PICTURE, BEGINNING = "attrcert smooth", 4096  # in every picture, within so many bytes: only those are replaced


def write_pictures(maps: Mapping[str, Any], folder: Path, rows: Sequence[Row] = ()) -> None:
    """The input, and beside it the map, red for what speaks for the class and blue for what speaks against it.

    Where `rows` tell what is certified of its pixels, their sides stand beside these, with a legend below.
    """
    told = {row["index"]: row for row in rows}
    make_folder(folder)
    for place, index in enumerate(maps["index"]):
        one = {name: array[place] for name, array in maps.items()}
        drawn = _certified(one, told[int(index)]) if told else _heat(one)
        write_whole(folder / f"{index}.png", partial(drawn.save, format="PNG", pnginfo=_marked()))


def _heat(one: Mapping[str, Any]) -> Image.Image:
    drawn = picture(np.concatenate([grey_or_colour(one["image"]), _stretched(_coloured_map(one), one)], axis=1))
    large = max(one["image"].shape[1:]) >= LARGE
    return drawn if large else _enlarged(drawn, SCALE)


def _coloured_map(one: Mapping[str, Any]) -> Any:
    return coloured(one["map"].sum(axis=0))


def _stretched(rgb: Any, one: Mapping[str, Any]) -> Any:
    """A picture as high and wide as the input: maps may be coarser."""
    height, width = one["image"].shape[1:]
    return np.asarray(picture(rgb).resize((width, height), Image.Resampling.NEAREST)) / 255


def _enlarged(drawn: Image.Image, scale: int) -> Image.Image:
    return drawn.resize((drawn.width * scale, drawn.height * scale), Image.Resampling.NEAREST)


def _certified(one: Mapping[str, Any], row: Row) -> Image.Image:
    """Three panels under their names, and what the colours of the third mean."""
    side, scale = one["pixel_side"], max(1, round(PANEL / max(one["image"].shape[1:])))
    panels = {
        "input": grey_or_colour(one["image"]),
        "smoothed map": _stretched(_coloured_map(one), one),
        "certified pixels": _stretched(sided(side), one),
    }
    pictures = {name: _enlarged(picture(rgb), scale) for name, rgb in panels.items()}
    legend = [
        (
            SIDES[Side.TOP],
            f"certified among the largest {row['pixels_marked']} of {side.size}: {row['pixels_top']} pixels",
        ),
        (SIDES[Side.NOT_TOP], f"certified outside: {row['pixels_not']} pixels"),
        (SIDES[Side.ABSTAINED], f"abstained, not certified: {row['pixels_abstained']} pixels"),
        (
            "white",
            f"for every |delta|_2 <= {round_down(float(row['pixel_radius'] or 0))}, confidence 1 - {row['failure']:g}",
        ),
    ]
    return _framed(pictures, legend)


def _framed(panels: dict[str, Image.Image], legend: Sequence[tuple[str, str]]) -> Image.Image:
    font = ImageFont.load_default(LETTERS)
    wide = max(max(one.width for one in panels.values()), *(int(font.getlength(name)) for name in panels))
    words = max(int(font.getlength(text)) for _, text in legend) + 2 * LINE
    height = next(iter(panels.values())).height
    size = max(len(panels) * (wide + GAP), words + GAP) + GAP, height + (len(legend) + 1) * LINE + 3 * GAP
    whole = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(whole)
    for number, (name, panel) in enumerate(panels.items()):
        left, top = GAP + number * (wide + GAP), GAP + LINE
        pen.text((left, GAP), name, fill="black", font=font)
        whole.paste(panel, (left, top))
        pen.rectangle((left - 1, top - 1, left + panel.width, top + panel.height), outline="#888888")
    for number, (colour, text) in enumerate(legend):
        top = 2 * GAP + (number + 1) * LINE + height
        pen.rectangle((GAP, top, GAP + LETTERS, top + LETTERS), fill=colour)
        pen.text((GAP + LINE + 4, top - 1), text, fill="black", font=font)
    return whole


def check_pictures(folder: Path, shape: tuple[int, ...], indices: Iterable[int]) -> None:
    """Pictures are drawn of images, and replace pictures of ours and nothing else."""
    if len(shape) != 3:
        raise UsageError(f"--png draws images with channels, height and width, got inputs of shape {shape}")
    for index in indices:
        path = folder / f"{index}.png"
        check_target(path)
        if path.exists() and PICTURE.encode() not in path.read_bytes()[:BEGINNING]:
            raise UsageError(f"{path} exists and is not a picture that attrcert drew", hint="choose another --png")


def _marked() -> PngInfo:
    info = PngInfo()
    info.add_text("Software", PICTURE)
    return info
