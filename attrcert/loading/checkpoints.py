"""Weights from a file or a library into a network, strictly and without ever unpickling code."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attrcert.errors import CheckpointError, ModelError, UsageError
from attrcert.loading import bundled, metadata
from attrcert.loading.architectures import (
    CLASS_ARGUMENTS,
    class_argument,
    is_required,
    is_safe_to_name,
    made,
    maker,
    reported,
)
from attrcert.loading.exported import EXPORT, exported
from attrcert.loading.files import sha256
from attrcert.loading.fitting import Names, fill, fitted, last_layer, other_classes
from attrcert.loading.libraries import library_of
from attrcert.loading.libraries.library import Preparation
from attrcert.loading.weight_files import Tree, WeightFile, read_weight_file
from attrcert.networks.classifier import Classifier
from attrcert.registry import no_such
from attrcert.settings.sources import DEFAULT_MAX_INPUT, ModelSpec
from attrcert.vocabulary import some

EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)
USABLE = {
    *EIGHT_BITS, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
}  # fmt: skip


@dataclass(frozen=True)
class LoadedModel:
    """A classifier and what the manifest says of where it came from; what was settled without being asked for: `notes` to read,
    `doubts` to look into. `preparation` is what a library says of the pixels, `whole` whether the weights are the library's too.
    """

    classifier: Classifier
    facts: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    preparation: Preparation | None = None
    whole: bool = False


@dataclass(frozen=True)
class Built:
    """A network with its weights in it, and where it came from."""

    network: nn.Module
    arch: str
    arguments: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def load_model(spec: ModelSpec, *, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    """The classifier that `spec` names, on the device, or holds. The user's code runs only when the file has passed what can be checked
    without it.
    """
    given = spec.checkpoint
    if isinstance(given, Classifier):
        return LoadedModel(given, {})
    if isinstance(given, nn.Module):
        return LoadedModel(Classifier(given, spec.mean, spec.std, spec.output, spec.beta), {})
    if not isinstance(given, str):
        raise UsageError(f"a model must be a network, a Classifier, a file or a name, got {type(given).__name__}")
    named = library_of(given)
    if named and spec.arch:
        raise UsageError(
            f"{given} comes with its architecture: --arch must not be given",
            hint="give a file of weights, or no --arch",
        )
    paths = named[0].weight_files(named[1], download=spec.download) if named else (_path(given),)
    file = _file(spec, paths)
    mean, std = metadata.normalisation(file.metadata, file.name, spec.mean, spec.std)
    classifier = Classifier(nn.Identity(), mean, std, spec.output, spec.beta)
    classes = metadata.classes(file.metadata, file.name)
    built = _of_library(spec, file) if named else _of_file(spec, file)
    known = named or library_of(built.arch)
    preparation = known[0].preparation(known[1]) if known else None
    if preparation and classifier.mean is None:
        classifier = replace(classifier, mean=preparation.mean, std=preparation.std)
        built = replace(built, notes=(*built.notes, _said_of_pixels(preparation)))
    facts = {
        "checkpoint": given,
        "checkpoint_sha256": _digest(paths),
        "arch": built.arch,
        "arch_args": dict(built.arguments),
        "arch_sha256": _arch_hash(built.arch),
        "mean": classifier.mean,
        "std": classifier.std,
        "output": spec.output,
        "classes": classes or (list(preparation.classes) if named and preparation and preparation.classes else None),
        **({"checkpoint_key": spec.checkpoint_key} if spec.checkpoint_key else {}),
    }
    network = _placed(built.network, file.name, device, dtype)
    found = LoadedModel(replace(classifier, network=network), facts, built.notes, built.doubts, preparation)
    return replace(found, whole=named is not None)


def read_weights(path: Path, max_input: str = DEFAULT_MAX_INPUT) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    """The likeliest weights of a file, and its metadata."""
    file = read_weight_file(path, max_input)
    return file.trees[0].weights, file.metadata


def checked(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The weights as ordinary tensors of finite numbers; whatever is not one is refused by name."""
    odd = [f"{key} ({kind})" for key, kind in ((key, _oddity(tensor)) for key, tensor in weights.items()) if kind]
    if odd:
        raise CheckpointError(
            f"weights must be plain tensors of real numbers, but {name} has {some(odd)}",
            hint="save the weights of the network before it was quantised, pruned or compressed",
        )
    wide = {key: tensor.float() if tensor.dtype in EIGHT_BITS else tensor for key, tensor in weights.items()}
    broken = [key for key, tensor in wide.items() if not _is_finite(tensor)]
    if broken:
        raise CheckpointError(f"weights must be finite, but {name} has NaN or infinity in {some(broken)}")
    return wide


def _path(checkpoint: str) -> Path:
    path = bundled.models().get(checkpoint) or Path(checkpoint)
    if not path.suffix and path.parent == Path(".") and not os.path.lexists(path):
        raise no_such("checkpoint file", str(path), "model", bundled.models())
    if os.path.isdir(path):
        raise CheckpointError(
            f"a checkpoint must be a file, but {path} is a folder", hint=f"hf:{path} reads a folder of Hugging Face's"
        )
    return path


def _file(spec: ModelSpec, paths: Sequence[Path]) -> WeightFile:
    """What there is of weights in the files, and something of it can be used; a program is loaded as a whole."""
    if spec.arch == EXPORT:
        return WeightFile(paths[0].name, (), {})
    file = _joined([read_weight_file(path, spec.max_input) for path in paths])
    _check_sound(file)
    return file


def _joined(files: Sequence[WeightFile]) -> WeightFile:
    """The parts of a model that is saved in several files."""
    if len(files) == 1:
        return files[0]
    weights = {key: tensor for file in files for key, tensor in file.trees[0].weights.items()}
    return WeightFile(files[0].name, (Tree("", weights),), files[0].metadata)


def _check_sound(file: WeightFile) -> None:
    """That something in the file can be used, whichever part of it will be."""
    refused: CheckpointError | None = None
    for tree in file.trees:
        try:
            checked(tree.weights, file.name)
            return
        except CheckpointError as error:
            refused = refused or error
    if refused:
        raise refused


def _of_library(spec: ModelSpec, file: WeightFile) -> Built:
    named = library_of(spec.checkpoint)
    assert named is not None
    library, name = named
    weights = checked(file.trees[0].weights, file.name)
    with reported(f"loading {spec.checkpoint}", ModelError):
        return Built(library.with_weights(name, weights, spec.arch_args), spec.checkpoint, spec.arch_args)


def _of_file(spec: ModelSpec, file: WeightFile) -> Built:
    """What the user says of the architecture goes before what the file says."""
    described, name = file.metadata, file.name
    if spec.arch == EXPORT:
        if spec.arch_args:
            raise UsageError(f"an exported program takes no --arch-arg, got {', '.join(spec.arch_args)}")
        return Built(exported(_path(spec.checkpoint)), EXPORT, {})
    arch = spec.arch or metadata.named_architecture(described, name)
    if arch is None:
        raise UsageError(
            f"{name} does not say which architecture it belongs to",
            hint="give --arch torchvision:NAME, timm:NAME, package.module:factory or path/to/file.py:factory",
        )
    # the file's arguments are those of the architecture that the file was made with
    its_own = described.get("attrcert.arch", arch) == arch
    theirs = metadata.arguments(described, name) if its_own and not spec.arch_args else {}
    make = maker(arch)
    if not theirs and (spec.arch or not is_safe_to_name(arch)):
        return _fitted(spec, file, arch, spec.arch_args, make, lambda given: made(make, arch, given))

    def build(given: Mapping[str, Any]) -> nn.Module:
        weights = file.trees[0].weights
        # first without memory, which shows what size it is; a few torchvision models can only be built for real
        if is_safe_to_name(arch):
            with suppress(ModelError), metadata.justified_by(weights, name), torch.device("meta"):
                made(make, arch, given)
        with metadata.justified_by(weights, name):
            return made(make, arch, given)

    return _fitted(spec, file, arch, theirs or spec.arch_args, make, build)


def _fitted(
    spec: ModelSpec,
    file: WeightFile,
    arch: str,
    arguments: Mapping[str, Any],
    make: Callable[..., Any],
    build: Callable[[Mapping[str, Any]], nn.Module],
) -> Built:
    """The network with the weights that fit it best; where nobody says how many classes it has, the weights do."""
    argument = None if set(CLASS_ARGUMENTS) & set(arguments) else class_argument(make, arch)
    given = {**arguments, argument: last_layer(file)} if argument and is_required(make, argument) else dict(arguments)
    network = build(given)
    fit = fitted(_names(network, arch), file, spec.checkpoint_key)
    classes = other_classes(fit) if argument else None
    if argument and classes is not None:
        given = {**arguments, argument: classes}
        network = build(given)
        fit = fitted(_names(network, arch), file, spec.checkpoint_key)
    fit = replace(fit, weights=checked(fit.weights, file.name))
    doubts = fill(network, fit, file, lambda weights: _renamed(weights, arch, given))
    notes = (
        () if argument not in given else (f"{argument}={given[argument]} is what the last layer in {file.name} has",)
    )
    return Built(network, arch, given, notes, tuple(doubts))


def _names(network: nn.Module, arch: str) -> Names:
    """Its tensors as it calls them, and as its library's files do."""
    known = library_of(arch)
    return network.state_dict(), *((known[0].in_files(network),) if known else ())


def _renamed(weights: Mapping[str, Tensor], arch: str, arguments: Mapping[str, Any]) -> Mapping[str, Tensor]:
    """From the names of its library's files, by the library."""
    known = library_of(arch)
    return known[0].with_weights(known[1], weights, arguments).state_dict() if known else weights


def _said_of_pixels(preparation: Preparation) -> str:
    if preparation.mean is None:
        return f"pixels are not normalised, since {preparation.source} has no mean and std (--mean and --std give them)"
    mean, std = (",".join(f"{value:.4g}" for value in part or ()) for part in (preparation.mean, preparation.std))
    return f"--mean {mean} --std {std} are those of {preparation.source}"


def _placed(network: nn.Module, name: str, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """On its device in its precision, which has to hold the weights."""
    network = network.to(device=device, dtype=dtype)
    overflown = [key for key, tensor in network.state_dict().items() if not _is_finite(tensor)]
    if overflown:
        raise CheckpointError(
            f"weights must fit into {str(dtype).removeprefix('torch.')}, but {name} has larger ones in {some(overflown)}"
        )
    return network


def _oddity(tensor: Tensor) -> str:
    """What keeps a tensor from being used as weights."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        return "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
    if tensor.device.type != "cpu":
        return f"on the device {tensor.device.type}"
    return "" if tensor.dtype in USABLE else str(tensor.dtype).removeprefix("torch.")


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def _digest(paths: Sequence[Path]) -> str:
    digests = [sha256(path) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _arch_hash(arch: str) -> str | None:
    place = Path(arch.rpartition(":")[0])
    return sha256(place) if place.suffix == ".py" else None
