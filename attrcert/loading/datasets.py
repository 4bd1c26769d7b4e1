"""Labelled images from a name, an array file, a folder, torchvision or the user's own factory; decoded when asked for."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from attrcert.errors import DataError, SampleError, UsageError
from attrcert.loading import bundled
from attrcert.loading.architectures import factory, reported
from attrcert.loading.array_archives import read_arrays
from attrcert.loading.files import regular, sha256
from attrcert.loading.image_arrays import array_images
from attrcert.loading.image_folders import folder_images
from attrcert.loading.pixels import as_image, class_number
from attrcert.loading.vision import torchvision
from attrcert.registry import unknown
from attrcert.saved.files import readable
from attrcert.settings.declared import declared
from attrcert.settings.sources import DEFAULT_MAX_INPUT, DataSpec

NOT_CHOSEN = ("data_root", "download", "max_input")  # how data are come by, not which


class Images(Protocol):
    """A sequence of (image in [0, 1] channels first, label or None); one bad image raises SampleError for itself alone."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]: ...


@dataclass(frozen=True)
class LoadedData:
    """Images, the indices that were selected, what the manifest says of where they came from, and which shard of them to use."""

    images: Images
    selected: tuple[int, ...]
    facts: dict[str, Any]
    shard: tuple[int, int] | None = None
    max_input: str = DEFAULT_MAX_INPUT

    @property
    def indices(self) -> tuple[int, ...]:
        """Those to use: every n-th, so that shards are alike."""
        return self.selected if self.shard is None else self.selected[self.shard[0] - 1 :: self.shard[1]]


def load_data(spec: DataSpec) -> LoadedData:
    """The data that `spec` names or holds; nothing is decoded yet."""
    named = isinstance(spec.dataset, str)
    images, digest = _source(spec)() if named else (wrap(spec.dataset), None)
    if len(images) == 0:
        raise DataError(f"{spec.dataset if named else 'the data'} holds no images")
    if spec.resize or spec.crop:
        images = Resized(images, spec.resize, spec.crop)
    selection = {name: getattr(spec, name) for name in declared(DataSpec) if name not in NOT_CHOSEN}
    facts = {**selection, "dataset_sha256": digest} if named else {}
    selected = chosen(spec, len(images))
    if spec.shard and spec.shard[0] > len(selected):
        raise UsageError(f"shard {spec.shard[0]}/{spec.shard[1]} of {len(selected)} samples has none")
    return LoadedData(images, selected, facts, spec.shard, spec.max_input)


def chosen(spec: DataSpec, size: int) -> tuple[int, ...]:
    """The indices that --indices, or --skip and --limit, pick."""
    if spec.indices is not None and (spec.skip or spec.limit is not None):
        raise UsageError("--indices excludes --skip and --limit")
    picked = spec.indices if spec.indices is not None else tuple(range(size))[spec.skip :][: spec.limit]
    beyond = [index for index in picked if not 0 <= index < size]
    if beyond:
        raise UsageError(f"--indices must be below {size}, the number of images, got {beyond[0]}")
    if not picked:
        raise UsageError(f"no sample is left: {size} images, --skip {spec.skip}")
    return picked


@dataclass(frozen=True)
class WrappedImages:
    """A map-style dataset of (image, label) pairs: torchvision's or the user's."""

    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]:
        try:
            item = self.dataset[index]
        except Exception as error:
            raise SampleError(
                f"sample {index} cannot be read: {type(error).__name__}: {error}", kind="unreadable"
            ) from error
        image, label = item if isinstance(item, tuple | list) and len(item) == 2 else (item, None)
        if not isinstance(image, Tensor | np.ndarray | Image.Image):
            raise SampleError(f"an item must be an image or (image, label), got {type(item).__name__}", kind="item")
        return as_image(image, channels_last=not isinstance(image, Tensor)), class_number(label)


@dataclass(frozen=True)
class Resized:
    """Shorter side to `resize`, then the centre `crop`."""

    images: Images
    resize: int | None
    crop: int | None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "c h w"], int | None]:
        transforms = torchvision("transforms.functional")
        image, label = self.images[index]
        if self.resize:
            image = transforms.resize(image, self.resize, antialias=True).clamp(0, 1)
        if self.crop:
            image = transforms.center_crop(image, self.crop)
        return image, label


def look_for(spec: DataSpec) -> None:
    """Refuse a name that leads nowhere, before anything is loaded or run."""
    if isinstance(spec.dataset, str):
        _source(spec)


def _source(spec: DataSpec) -> Callable[[], tuple[Images, str | None]]:
    """What opens the data that a name stands for: the images, and a hash where there is a file or folder to hash."""
    name = spec.dataset
    path = bundled.samples().get(name) or Path(name)
    if name.startswith("torchvision:"):
        return lambda: (_torchvision_set(spec), None)
    if path.suffix == ".npz":
        regular(path, "data file", DataError)
        return lambda: (array_images(*read_arrays(path, "images", "labels", spec.max_input), path.name), sha256(path))
    with readable(path):
        if path.is_dir():
            return lambda: folder_images(path, "L" if spec.channels == 1 else "RGB", spec.max_input)
        if ":" in name:
            return lambda: (wrap(_called(factory(name), {}, name), name), None)
        if path.exists():
            raise DataError(f"data must be a folder of images, an .npz file or module:factory, got the file {path}")
    if path.suffix or path.parent != Path("."):
        raise DataError(f"there is no data file or folder {path}")
    raise unknown("dataset", name, bundled.samples())


def _torchvision_set(spec: DataSpec) -> WrappedImages:
    _, name, *split = spec.dataset.split(":")
    datasets = torchvision("datasets")
    if name not in datasets.__all__:
        raise unknown("torchvision dataset", name, datasets.__all__)
    make = getattr(datasets, name)
    parameters = inspect.signature(make).parameters
    if split and "train" in parameters and split[0] not in ("train", "test"):
        raise UsageError(f"{name} has the splits train and test, got {split[0]}")
    offered: dict[str, Any] = {"root": spec.data_root, "download": spec.download}
    if split:
        offered |= {"train": split[0] == "train"} if "train" in parameters else {"split": split[0]}
    arguments = {key: value for key, value in offered.items() if key in parameters or key == "split"}
    return WrappedImages(_called(make, arguments, spec.dataset, hint="check --data-root, or add --download"))


def wrap(made: Any, name: str = "data") -> Images:
    """A pair (images, labels) of arrays, or a map-style dataset of (image, label) pairs; a DataLoader stands for its dataset."""
    made = made.dataset if isinstance(made, DataLoader) else made
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], np.ndarray | Tensor):
        return array_images(*made, name)
    if isinstance(made, np.ndarray | Tensor):
        return array_images(made, None, name)
    if isinstance(made, Mapping) or not hasattr(made, "__len__") or not hasattr(made, "__getitem__"):
        raise DataError(f"{name} must give arrays (images, labels) or a map-style dataset, got {type(made).__name__}")
    return WrappedImages(made)


def _called(make: Callable[..., Any], arguments: dict[str, Any], name: str, hint: str = "") -> Any:
    with reported(f"opening {name}", DataError, hint=hint):
        return make(**arguments)
