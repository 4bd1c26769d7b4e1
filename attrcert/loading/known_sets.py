"""torchvision's data sets by name: their splits, how each is usually prepared, and what its classes are called."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attrcert.errors import DataError, UsageError
from attrcert.loading.libraries.library import Preparation
from attrcert.loading.pixels import Wanted
from attrcert.loading.vision import torchvision
from attrcert.loading.wrapping import Opened, called, wrapped
from attrcert.registry import unknown
from attrcert.settings.sources import DataSpec
from attrcert.vocabulary import did_you_mean

TRAIN_TEST = ("train", "test")
UNPACKED = (  # torchvision says no more than that something is missing
    "--data-root is the folder in which torchvision keeps the set, as its download leaves it, and it asks for the files of all splits "
    "(MNIST: MNIST/raw with the four files of train and t10k, unpacked); or add --download"
)


def usual(name: str, resize: int, crop: int, *, squashed: bool = False) -> Preparation:
    return Preparation(f"the usual practice with {name}", resize=resize, crop=crop, squashed=squashed)


@dataclass(frozen=True)
class KnownSet:
    """What cannot be read off torchvision's class: the splits, the usual preparation of images of many sizes, what to do where it is
    missing.
    """

    splits: tuple[str, ...]
    usual: Preparation | None = None
    hint: str = UNPACKED


KNOWN: Mapping[str, KnownSet] = {
    "SVHN": KnownSet(("train", "test", "extra")),
    "GTSRB": KnownSet(TRAIN_TEST, usual("GTSRB", 32, 32, squashed=True)),
    "Flowers102": KnownSet(("train", "val", "test"), usual("Flowers102", 256, 224)),
    "ImageNet": KnownSet(
        ("train", "val"),
        usual("ImageNet", 256, 224),
        "torchvision cannot download it: --data-root must hold ILSVRC2012_devkit_t12.tar.gz and ILSVRC2012_img_val.tar (or val/ and the "
        "meta.bin that torchvision made); without the devkit, give the folder of class folders itself as DATASET",
    ),
}


def set_of(name: str) -> tuple[Callable[..., Any], KnownSet, str | None]:
    """What opens the set of torchvision:NAME:SPLIT, what is known of it, and the split if one is named; nothing is read."""
    _, name, *split = name.split(":")
    datasets = torchvision("datasets")
    if name not in datasets.__all__:
        raise unknown("torchvision dataset", name, datasets.__all__)
    make = getattr(datasets, name)
    known = KNOWN.get(name, KnownSet(TRAIN_TEST if "train" in _parameters(make) else ()))
    if split and known.splits and split[0] not in known.splits:
        *others, last = known.splits
        raise UsageError(
            f"{name} has the splits {', '.join(others)} and {last}, got {split[0]}",
            hint=did_you_mean(split[0], known.splits, f"torchvision:{name}:{last}"),
        )
    return make, known, split[0] if split else None


def torchvision_set(spec: DataSpec, wanted: Wanted) -> Opened:
    """The dataset that torchvision:NAME:SPLIT names."""
    make, known, split = set_of(spec.dataset)
    parameters = _parameters(make)
    offered: dict[str, Any] = {"root": spec.data_root, "download": spec.download}
    if split:
        offered |= {"train": split == "train"} if "train" in parameters else {"split": split}
    arguments = {key: value for key, value in offered.items() if key in parameters or key == "split"}
    if "root" in arguments and not spec.download and not Path(spec.data_root).is_dir():
        raise DataError(f"--data-root must be a folder, and there is none at {spec.data_root}", hint=known.hint)
    dataset = called(make, arguments, spec.dataset, hint=known.hint)
    return replace(
        wrapped(dataset, wanted),
        classes=_names(dataset),
        usual=known.usual,
        notes=() if split or not known.splits else (_assumed(spec.dataset, known.splits),),
    )


def _parameters(make: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(make).parameters


def _assumed(name: str, splits: tuple[str, ...]) -> str:
    """torchvision's default, which is seldom what is wanted."""
    return f"{name} is its {splits[0]} split; {' or '.join(f'{name}:{split}' for split in splits[1:])} takes another"


def _names(dataset: Any) -> tuple[str, ...]:
    """Of the classes, where the set names them; of ImageNet's synonyms the first."""
    given = getattr(dataset, "classes", None)
    if not isinstance(given, list | tuple):
        return ()
    return tuple(str(one[0] if isinstance(one, tuple) and one else one) for one in given)
