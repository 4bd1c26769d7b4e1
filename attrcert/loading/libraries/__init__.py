"""Models that libraries know by name, written `library:name`: torchvision's, timm's, and Hugging Face's in a folder."""

from collections.abc import Mapping

from attrcert.loading.libraries import hugging_face, timm_models, torchvision_models
from attrcert.loading.libraries.library import Library

LIBRARIES: Mapping[str, Library] = {
    "torchvision": torchvision_models.Torchvision(),
    "timm": timm_models.Timm(),
    "hf": hugging_face.HuggingFace(),
}


def library_of(name: str) -> tuple[Library, str] | None:
    """The library that a name begins with, and the name in it."""
    first, colon, rest = name.partition(":")
    return (LIBRARIES[first], rest) if colon and first in LIBRARIES else None
