"""Images of another size."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attrcert.loading.frames import Frame, frame_of, sides
from attrcert.loading.pixels import Form, Images
from attrcert.loading.vision import torchvision


@dataclass(frozen=True)
class Resized:
    """Shorter side to `resize`, or both sides, then the centre `crop`."""

    images: Images
    resize: int | tuple[int, ...] | None
    crop: int | None
    form: Form

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]:
        transforms = torchvision("transforms.functional")
        image, label = self.images[index]
        if self.resize:
            to = list(sides((image.shape[-2], image.shape[-1]), self.resize))
            image = transforms.resize(image, to, antialias=True).clamp(self.form.low, self.form.high)
        if self.crop:
            image = transforms.center_crop(image, self.crop)
        return image, label

    def frame(self, index: int) -> Frame:
        found = frame_of(self.images, index)
        found = found.resized(sides(found.size, self.resize)) if self.resize else found
        return found.cropped(self.crop) if self.crop else found
