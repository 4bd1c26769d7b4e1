"""Images brought to the size that a model's own configuration asks for, or that is usual for them, where nobody says otherwise."""

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from attrcert.errors import ModelError, SampleError
from attrcert.loading.checkpoints import LoadedModel
from attrcert.loading.datasets import LoadedData
from attrcert.loading.frames import Frame, frame_of, sides
from attrcert.loading.libraries.library import Preparation
from attrcert.loading.pixels import Images
from attrcert.loading.vision import torchvision
from attrcert.vocabulary import some

MOST_COLUMNS = 40  # whose names are listed


@dataclass(frozen=True)
class PreparedImages:
    """Shorter side to `resize`, or both where images are squashed, then the centre `crop`."""

    images: Images
    resize: int
    crop: int
    interpolation: str
    squashed: bool

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]:
        transforms, modes = torchvision("transforms.functional"), torchvision("transforms").InterpolationMode
        image, label = self.images[index]
        to = list(self._sides((image.shape[-2], image.shape[-1])))
        image = transforms.resize(image, to, modes(self.interpolation), antialias=True).clamp(0, 1)
        return transforms.center_crop(image, self.crop), label

    def frame(self, index: int) -> Frame:
        found = frame_of(self.images, index)
        return found.resized(self._sides(found.size)).cropped(self.crop)

    def _sides(self, size: tuple[int, int]) -> tuple[int, int]:
        return sides(size, (self.resize, self.resize) if self.squashed else self.resize)


def prepared(model: LoadedModel, data: LoadedData) -> tuple[LoadedData, tuple[str, ...]]:
    """The data as the model's library prepares them, else as is usual for them, and what there is to say of it. Images that fit a model
    stay as they are: of its size, or smaller where the weights are somebody's own, who may have trained them on small images.
    """
    sides = _first_sides(data) if model.preparation or data.usual else None
    if sides is None:
        return data, ()
    known = data.usual if _fits(model, sides) else model.preparation
    if known is None or known.resize is None or known.crop is None:
        return data, ()
    images = PreparedImages(data.images, known.resize, known.crop, known.interpolation, known.squashed)
    chosen = {
        "resize": known.resize,
        "crop": known.crop,
        "interpolation": known.interpolation,
        "squashed": known.squashed,
    }
    facts = {**data.facts, **chosen} if data.facts else {}
    return replace(data, images=images, facts=facts), (_said(known, sides),)


def check_normalisation(model: LoadedModel, data: LoadedData) -> tuple[str, ...]:
    """Refuse mean and std that are not those of a table's columns; what to doubt of them otherwise."""
    mean, std, columns = model.classifier.mean, model.classifier.std, data.columns
    if mean is None or std is None:
        return ()
    if columns and len(mean) not in (1, len(columns)):
        raise ModelError(
            f"mean and std have {len(mean)} values, but the table has {len(columns)} features: {some(columns, MOST_COLUMNS)}",
            hint="is a column missing, one too many, or the labels' column another one? see --label-column",
        )
    if data.of_pixels and max(mean) > 1:
        values = ",".join(f"{value:g}" for value in mean)
        return (
            f"--mean {values} is beyond pixels, which lie in [0, 1]: if it is of pixels in 0..255, divide --mean and --std by 255",
        )
    return ()


def _fits(model: LoadedModel, sides: tuple[int, int]) -> bool:
    """Whether the model's configuration asks for nothing else."""
    known = model.preparation
    if known is None or known.resize is None or known.crop is None:
        return True
    return max(sides) <= known.crop and (not model.whole or sides == (known.crop, known.crop))


def _first_sides(data: LoadedData) -> tuple[int, int] | None:
    """Of the first image that can be read."""
    for index in data.selected:
        try:
            height, width = data.images[index][0].shape[-2:]
        except SampleError:
            continue
        return height, width
    return None


def _said(known: Preparation, sides: tuple[int, int]) -> str:
    how = (
        f"squashed to {known.crop} x {known.crop}" if known.squashed else f"--resize {known.resize} --crop {known.crop}"
    )
    return f"images of {sides[0]} x {sides[1]} are prepared as {known.source} has it: {how}, {known.interpolation}"
