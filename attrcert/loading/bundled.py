"""The models and samples that come with attrcert: in the wheel, or in the repository's `models` folder."""

from pathlib import Path

MEANINGS = {  # of the samples
    "fashion-test": "256 images of the Fashion-MNIST test set",
    "wine-test": "60 wines of three growers, 13 measurements each (UCI Wine, Aeberhard and Forina, CC BY 4.0)",
}


def folder() -> Path:
    package = Path(__file__).parent.parent
    inside = package / "bundled"
    return inside if inside.is_dir() else package.parent / "models"


def models() -> dict[str, Path]:
    """Name to weights."""
    return {path.parent.name: path for path in sorted(folder().glob("*/weights.safetensors"))}


def samples() -> dict[str, Path]:
    """Name to samples."""
    return {path.stem: path for path in sorted((folder() / "samples").glob("*.npz"))}
