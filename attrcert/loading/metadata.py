"""What a checkpoint says of itself in its metadata. It is data from a stranger: plain values of bounded size, and never code."""

import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as registration

from attrcert.errors import CheckpointError
from attrcert.loading.architectures import is_safe_to_name
from attrcert.loading.libraries.torchvision_models import WEIGHT_ARGUMENTS
from attrcert.vocabulary import shortened

LONGEST = 10**6  # characters of an entry
LARGEST = 2**31  # whole numbers as arguments
MOST_NUMBERS = 64  # in a list
LONGEST_WORD = 1000
# Of what a network registers while it is built, for each tensor of the file: torchvision's classifiers need 2.5 at most.
REGISTERED_A_TENSOR = 10


def named_architecture(metadata: Mapping[str, str], name: str) -> str | None:
    """The architecture that the file names, which must be one of the list that does nothing but build."""
    arch = metadata.get("attrcert.arch")
    if arch is not None and not (len(arch) <= LONGEST_WORD and is_safe_to_name(arch)):
        shown = shortened(arch)
        raise CheckpointError(
            f"{name} names {shown!r} as its architecture. A file may name a bundled architecture or one of torchvision's "
            "classifiers; attrcert runs other code only where the user names it",
            hint=f"if you trust it, give --arch {shlex.quote(arch)}" if shown == arch else "give --arch",
        )
    return arch


def arguments(metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    """The architecture's arguments: plain values under plain names."""
    given = _entry(metadata, "arch_args", name, "an object", lambda found: isinstance(found, dict)) or {}
    for key, value in given.items():
        if key in WEIGHT_ARGUMENTS:
            raise CheckpointError(f"the metadata of {name} must not set {key!r}: weights come from the file itself")
        if not key.isidentifier() or not _is_plain(value):
            what = "an object of names with numbers, short words or short lists of numbers"
            raise _refused("arch_args", name, what, metadata)
    return given


Numbers = tuple[float, ...] | None


def normalisation(metadata: Mapping[str, str], name: str, mean: Numbers, std: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and standard deviation; those that the user gives go before the file's."""
    said = mean is not None and std is not None
    mean = _numbers(metadata, "mean", name) if mean is None else mean
    std = _numbers(metadata, "std", name) if std is None else std
    if not said and len(mean or ()) != len(std or ()) and {"attrcert.mean", "attrcert.std"} & metadata.keys():
        raise CheckpointError(
            f"mean and std need the same length, got {mean} and {std}, which the metadata of {name} have a part in",
            hint="give --mean and --std",
        )
    return mean, std


def _numbers(metadata: Mapping[str, str], key: str, name: str) -> Numbers:
    given = _entry(metadata, key, name, f"a list of 1 to {MOST_NUMBERS} finite numbers", _are_numbers)
    if given is None:
        return None
    if key == "std" and min(given) <= 0:
        raise _refused(key, name, "a list of positive numbers", metadata)
    return tuple(float(value) for value in given)


def classes(metadata: Mapping[str, str], name: str) -> list[str | int] | None:
    """What the classes are called."""
    return _entry(metadata, "classes", name, "a list of names", _are_names)


@contextmanager
def justified_by(weights: Mapping[str, Tensor], name: str) -> Iterator[None]:
    """While a network is built: it may have as many tensors and numbers as the file holds, with some room, and no more.

    Arguments such as {"depth": 100000000} would otherwise fill the memory before anybody sees that the weights do not fit.
    Parameters are counted when they are registered, which is before they are written to.
    """
    room = {
        "modules and tensors": REGISTERED_A_TENSOR * (len(weights) + 10),
        "numbers": 2 * sum(tensor.numel() for tensor in weights.values()) + 10**5,
    }

    def count(_: nn.Module, __: str, registered: Any) -> None:
        room["modules and tensors"] -= 1
        room["numbers"] -= registered.numel() if isinstance(registered, Tensor) else 0
        if min(room.values()) < 0:
            raise CheckpointError(
                f"the metadata of {name} describe a much larger network than the one whose weights it holds"
            )

    hooks = [
        registration.register_module_parameter_registration_hook(count),
        registration.register_module_buffer_registration_hook(count),
        registration.register_module_module_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _entry(metadata: Mapping[str, str], key: str, name: str, what: str, fits: Callable[[Any], bool]) -> Any:
    """A metadata entry that holds JSON, which must be `what` it is for; None where there is none."""
    text = metadata.get(f"attrcert.{key}")
    if text is None:
        return None
    try:
        if len(text) > LONGEST:
            raise ValueError
        found = json.loads(text)
    except (ValueError, RecursionError) as error:  # too long a number is a ValueError too
        raise _refused(key, name, f"JSON of at most {LONGEST} characters", metadata) from error
    if found is not None and not fits(found):
        raise _refused(key, name, what, metadata)
    return found


def _refused(key: str, name: str, what: str, metadata: Mapping[str, str]) -> CheckpointError:
    came = shortened(metadata[f"attrcert.{key}"])
    return CheckpointError(f"the metadata attrcert.{key} of {name} must be {what}, got {came!r}")


def _are_numbers(found: Any) -> bool:
    return isinstance(found, list) and 1 <= len(found) <= MOST_NUMBERS and all(_is_number(value) for value in found)


def _are_names(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(w, str | int) and len(str(w)) <= LONGEST_WORD for w in found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_plain(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= MOST_NUMBERS and all(
            not isinstance(part, list | str) and _is_plain(part) for part in value
        )
    if isinstance(value, str):
        return len(value) <= LONGEST_WORD
    if isinstance(value, int | float):
        return abs(value) <= LARGEST and math.isfinite(value)
    return value is None
