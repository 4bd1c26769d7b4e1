"""Picture files: of the formats that folders are searched for, decoded only after their size was looked at."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from attrcert.errors import DataError
from attrcert.loading.files import capped, decoding, regular

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
# Pillow goes by the content: without this list a .png that holds PostScript would start Ghostscript
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
BYTES_A_PIXEL = {"L": 8, "RGB": 24}  # held while a picture becomes floats in [0, 1]: 8 and 22 measured

# what it logs, it raises too; without a handler stderr gets both
logging.getLogger("PIL").addHandler(logging.NullHandler())


def decoded(path: Path, mode: str, max_input: str) -> Image.Image:
    """The picture in mode L or RGB."""
    regular(path, "picture", DataError)
    with (
        decoding(f"{path} cannot be decoded", DataError),
        _without_pillows_limit(),
        Image.open(path, "r", FORMATS) as picture,
    ):
        capped(picture.width * picture.height * BYTES_A_PIXEL[mode], max_input, str(path), DataError)
        return _in_mode(picture, mode)


def size_of(path: Path) -> tuple[int, int]:
    """Height and width."""
    regular(path, "picture", DataError)
    with (
        decoding(f"{path} cannot be decoded", DataError),
        _without_pillows_limit(),
        Image.open(path, "r", FORMATS) as picture,
    ):
        return picture.height, picture.width


@contextmanager
def _without_pillows_limit() -> Iterator[None]:
    """Nothing can raise it but a program, and --max-input stands in its place."""
    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def _in_mode(picture: Image.Image, mode: str) -> Image.Image:
    """Grey or RGB; Pillow would cut 16-bit greys off at 255 instead of scaling them."""
    if picture.mode.startswith("I"):
        levels = np.asarray(picture).astype(np.float32)
        levels /= 257
        picture = Image.fromarray(levels.round(out=levels).clip(0, 255, out=levels).astype(np.uint8))
    return picture.convert(mode)
