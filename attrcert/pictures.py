"""Images and maps as pictures: numpy arrays in, PNGs out."""

import io

import numpy as np
from PIL import Image, ImageColor

from attrcert.vocabulary import Side

LARGEST = 448  # pixels of a picture's longer side; larger inputs are reduced


# colours of Okabe and Ito, which differ in lightness too, for every kind of sight
SIDES = {Side.TOP: "#E69F00", Side.NOT_TOP: "#0072B2", Side.ABSTAINED: "#E6E6E6"}


def grey_or_colour(image: np.ndarray) -> np.ndarray:
    """Channels first, in [0, 1], to RGB; other than three channels are averaged to grey."""
    if len(image) != 3:
        return np.repeat(image.mean(axis=0)[:, :, None], 3, axis=2)
    return image.transpose(1, 2, 0)


def coloured(heat: np.ndarray, largest: float | None = None) -> np.ndarray:
    """White at 0, red above, blue below; an entry of size `largest`, or the largest one, is full."""
    share = heat / (largest or float(np.abs(heat).max()) or 1.0)
    red, blue = np.clip(share, 0, 1), np.clip(-share, 0, 1)
    return np.stack([1 - blue, 1 - red - blue, 1 - red], axis=2)


def shaded(sizes: np.ndarray) -> np.ndarray:
    """White at 0, black at the largest."""
    grey = 1 - sizes / (float(sizes.max()) or 1.0)
    return np.repeat(grey[:, :, None], 3, axis=2)


def sided(side: np.ndarray) -> np.ndarray:
    """The sides of pixels in their colours."""
    rgb = np.zeros((*side.shape, 3))
    for number, colour in SIDES.items():
        rgb[side == number] = np.array(ImageColor.getrgb(colour)) / 255
    return rgb


def picture(rgb: np.ndarray) -> Image.Image:
    return Image.fromarray((255 * rgb.clip(0, 1)).round().astype(np.uint8))


def png(rgb: np.ndarray) -> bytes:
    """The file's bytes, reduced where it is large."""
    image = picture(rgb)
    image.thumbnail((LARGEST, LARGEST))
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()
