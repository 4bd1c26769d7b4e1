"""Weights from a file into a network, strictly and without ever unpickling code."""

import os
import pickle
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from attrcert.errors import CheckpointError, ModelError, UsageError
from attrcert.loading import bundled, metadata
from attrcert.loading.architectures import build, is_safe_to_name
from attrcert.loading.files import capped, decoding, regular, sha256
from attrcert.networks.classifier import Classifier
from attrcert.registry import unknown
from attrcert.saved.files import readable
from attrcert.settings.sources import DEFAULT_MAX_INPUT, ModelSpec
from attrcert.vocabulary import shortened, some

DEEPEST = 4  # wrappers within wrappers
WRAPPERS = ("state_dict", "state", "net", "model", "model_state_dict")
PREFIXES = ("module.", "model.", "_orig_mod.")
TORCH_ENDINGS = (".pt", ".pth", ".th")
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)
USABLE = {
    *EIGHT_BITS, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
}  # fmt: skip


@dataclass(frozen=True)
class LoadedModel:
    """A classifier and what the manifest says of where it came from."""

    classifier: Classifier
    facts: Mapping[str, Any]


def load_model(spec: ModelSpec, *, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    """The classifier that `spec` names, on the device, or holds. The user's code runs only when the file has passed what can be checked
    without it.
    """
    given = spec.checkpoint
    if isinstance(given, Classifier):
        return LoadedModel(given, {})
    if isinstance(given, nn.Module):
        return LoadedModel(Classifier(given, spec.mean, spec.std, spec.output, spec.softplus_beta), {})
    if not isinstance(given, str):
        raise UsageError(f"a model must be a network, a Classifier, a file or a name, got {type(given).__name__}")
    path = bundled.models().get(spec.checkpoint) or Path(spec.checkpoint)
    weights, described = read_weights(path, spec.max_input)
    weights = checked(weights, path.name)
    mean, std = metadata.normalisation(described, path.name, spec.mean, spec.std)
    classifier = Classifier(nn.Identity(), mean, std, spec.output, spec.softplus_beta)
    classes = metadata.classes(described, path.name)
    arch, arguments, network = _network(spec, weights, described, path.name)
    fill(network, weights, path.name)
    network = network.to(device=device, dtype=dtype)
    overflown = [key for key, tensor in network.state_dict().items() if not _is_finite(tensor)]
    if overflown:
        raise CheckpointError(
            f"weights must fit into {str(dtype).removeprefix('torch.')}, but {path.name} has larger ones in {some(overflown)}"
        )
    facts = {
        "checkpoint": spec.checkpoint,
        "checkpoint_sha256": sha256(path),
        "arch": arch,
        "arch_args": dict(arguments),
        "arch_sha256": _arch_hash(arch),
        "mean": mean,
        "std": std,
        "output": spec.output,
        "classes": classes,
    }
    return LoadedModel(replace(classifier, network=network), facts)


def read_weights(path: Path, max_input: str = DEFAULT_MAX_INPUT) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a checkpoint and its metadata, by the kind of file it is."""
    if not path.suffix and path.parent == Path(".") and not os.path.lexists(path):
        raise unknown("checkpoint", str(path), bundled.models())
    size = regular(path, "checkpoint file", CheckpointError)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.suffix in TORCH_ENDINGS:
        return _read_torch(path, size, max_input), {}
    raise CheckpointError(f"a checkpoint must be .safetensors or {', '.join(TORCH_ENDINGS)}, got {path.name}")


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


def fill(network: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Load the weights strictly: every tensor of the network, none left over, of its shape and kind."""
    wanted = network.state_dict()
    given = _unprefixed(weights, wanted)
    optional = {key for key in wanted if key.endswith("num_batches_tracked")}
    common = [key for key in wanted if key in given]
    problems = {
        "missing": [key for key in wanted if key not in given and key not in optional],
        "unexpected": [key for key in given if key not in wanted],
        "of another shape": [
            f"{key} {tuple(given[key].shape)} instead of {tuple(wanted[key].shape)}"
            for key in common
            if given[key].shape != wanted[key].shape
        ],
        "of another kind": [
            f"{key} {given[key].dtype} instead of {wanted[key].dtype}"
            for key in common
            if given[key].is_floating_point() != wanted[key].is_floating_point() and key not in optional
        ],
    }
    if any(problems.values()):
        listed = "; ".join(f"{len(keys)} {kind}: {some(keys)}" for kind, keys in problems.items() if keys)
        raise CheckpointError(f"{name} does not fit the architecture: {listed}", hint="check --arch and --arch-arg")
    network.load_state_dict(dict(given), strict=False)


def _network(
    spec: ModelSpec, weights: Mapping[str, Tensor], described: Mapping[str, str], name: str
) -> tuple[str, Mapping[str, Any], nn.Module]:
    """The architecture's name, its arguments, and the network; what the user says goes before what the file says."""
    arch = spec.arch or metadata.named_architecture(described, name)
    if arch is None:
        raise UsageError(
            f"{name} does not say which architecture it belongs to",
            hint="give --arch torchvision:NAME, package.module:factory or path/to/file.py:factory",
        )
    # the file's arguments are those of the architecture that the file was made with
    its_own = described.get("attrcert.arch", arch) == arch
    theirs = metadata.arguments(described, name) if its_own and not spec.arch_args else {}
    arguments = theirs or spec.arch_args
    if not theirs and (spec.arch or not is_safe_to_name(arch)):
        return arch, arguments, build(arch, arguments)
    # first without memory, which shows what size it is; a few torchvision models can only be built for real
    if is_safe_to_name(arch):
        with suppress(ModelError), metadata.justified_by(weights, name), torch.device("meta"):
            build(arch, arguments)
    with metadata.justified_by(weights, name):
        return arch, arguments, build(arch, arguments)


def _oddity(tensor: Tensor) -> str:
    """What keeps a tensor from being used as weights."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        return "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
    if tensor.device.type != "cpu":
        return f"on the device {tensor.device.type}"
    return "" if tensor.dtype in USABLE else str(tensor.dtype).removeprefix("torch.")


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(
            f"safetensors reads files with names in UTF-8 only, got {path}", hint="rename it"
        ) from error
    otherwise = f"{path.name} is not a readable safetensors file"
    with decoding(otherwise, CheckpointError), safe_open(path, framework="pt") as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}


def _read_torch(path: Path, size: int, max_input: str) -> dict[str, Tensor]:
    with readable(path), path.open("rb") as stream:
        head = stream.read(2)
    if head != b"PK" and head[:1] != b"\x80":  # a zip archive, or a pickle
        raise CheckpointError(f"{path.name} is not a readable torch checkpoint: it is neither an archive nor a pickle")
    try:
        if head == b"PK":
            with zipfile.ZipFile(path) as archive:
                declared = sum(member.file_size for member in archive.infolist())
            capped(declared, max_input, path.name, CheckpointError, on_disk=size)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path.name} holds more than tensors, and attrcert never runs code from a checkpoint",
            hint="save it again with torch.save(model.state_dict(), path), or as .safetensors",
        ) from error
    except Exception as error:
        reason = shortened(str(error).partition(". ")[0])  # torch goes on with advice that is not for here
        raise CheckpointError(
            f"{path.name} is not a readable torch checkpoint: {type(error).__name__}: {reason}"
        ) from error
    weights = _state(content, path.name)
    # a view can be larger than what it views
    filled = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    capped(filled, max_input, path.name, CheckpointError, on_disk=size)
    return weights


def _state(content: Any, name: str) -> dict[str, Tensor]:
    """The state dict in whatever it was wrapped in."""
    for _ in range(DEEPEST):
        if not isinstance(content, Mapping) or _is_state(content):
            break
        inner = [key for key in WRAPPERS if isinstance(content.get(key), Mapping)]
        if not inner:
            entries = some([key for key in content if isinstance(key, str)]) or "none that is named"
            raise CheckpointError(f"{name} holds no weights under {', '.join(WRAPPERS)}; its entries are {entries}")
        content = content[inner[0]]
    if not isinstance(content, Mapping) or not _is_state(content):
        raise CheckpointError(f"{name} must hold a state dict, got {type(content).__name__}")
    return dict(content)


def _is_state(content: Mapping[Any, Any]) -> bool:
    return bool(content) and all(isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items())


def _unprefixed(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights without the prefixes that wrappers put before every key."""
    for _ in range(DEEPEST):
        if weights.keys() & wanted.keys():
            break
        prefix = next((p for p in PREFIXES if weights and all(key.startswith(p) for key in weights)), None)
        if prefix is None:
            break
        weights = {key.removeprefix(prefix): tensor for key, tensor in weights.items()}
    return weights


def _arch_hash(arch: str) -> str | None:
    place = Path(arch.rpartition(":")[0])
    return sha256(place) if place.suffix == ".py" else None
