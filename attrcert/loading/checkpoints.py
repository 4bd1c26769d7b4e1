"""Weights from a file into a network, strictly and without ever unpickling code."""

import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading import bundled
from attrcert.loading.architectures import BUNDLED, build
from attrcert.loading.classifier import Classifier
from attrcert.registry import unknown
from attrcert.vocabulary import some

DEEPEST = 4  # wrappers within wrappers
WRAPPERS = ("state_dict", "state", "net", "model", "model_state_dict")
PREFIXES = ("module.", "model.", "_orig_mod.")
TORCH_ENDINGS = (".pt", ".pth", ".th")


@dataclass(frozen=True)
class ModelSpec:
    """How a user names a model; what is None is taken from the checkpoint's metadata."""

    checkpoint: str = bundled.DEFAULT_MODEL
    arch: str | None = None
    arch_args: Mapping[str, Any] = field(default_factory=dict)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    output: str | None = None
    beta: float | None = None


@dataclass(frozen=True)
class LoadedModel:
    """A classifier and what the manifest says of where it came from."""

    classifier: Classifier
    facts: Mapping[str, Any]


def load_model(spec: ModelSpec, *, device: torch.device, dtype: torch.dtype) -> LoadedModel:
    """The classifier named by `spec`, on the device."""
    path = bundled.models().get(spec.checkpoint) or Path(spec.checkpoint)
    weights, metadata = read_weights(path)
    arch = spec.arch or _named_architecture(metadata, path.name)
    if arch is None:
        raise UsageError(
            f"{path.name} does not say which architecture it belongs to",
            hint="give --arch torchvision:NAME, package.module:factory or path/to/file.py:factory",
        )
    arguments = spec.arch_args or _described(metadata, "arch_args", path.name) or {}
    if not isinstance(arguments, Mapping):
        raise CheckpointError(f"the metadata attrcert.arch_args of {path.name} must be an object, got {arguments!r}")
    network = build(arch, arguments)
    fill(network, weights, path.name)
    mean = spec.mean or _described(metadata, "mean", path.name, numbers=True)
    std = spec.std or _described(metadata, "std", path.name, numbers=True)
    network = network.to(device=device, dtype=dtype)
    facts = {
        "checkpoint": spec.checkpoint,
        "checkpoint_sha256": sha256(path),
        "arch": arch,
        "arch_args": dict(arguments),
        "arch_sha256": _arch_hash(arch),
        "mean": mean,
        "std": std,
        "output": spec.output,
        "classes": _described(metadata, "classes", path.name),
    }
    return LoadedModel(Classifier(network, mean, std, spec.output, spec.beta), facts)


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a checkpoint and its metadata, by the kind of file it is."""
    if not path.is_file():
        if path.suffix or path.parent != Path("."):
            raise CheckpointError(f"there is no checkpoint file {path}")
        raise unknown("checkpoint", str(path), bundled.models())
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.suffix in TORCH_ENDINGS:
        return _read_torch(path), {}
    raise CheckpointError(f"a checkpoint must be .safetensors or {', '.join(TORCH_ENDINGS)}, got {path.name}")


def fill(network: nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Load the weights strictly: every tensor of the network, none left over, all finite."""
    wanted = network.state_dict()
    given = _unprefixed(weights, wanted)
    optional = {key for key in wanted if key.endswith("num_batches_tracked")}
    problems = {
        "missing": [key for key in wanted if key not in given and key not in optional],
        "unexpected": [key for key in given if key not in wanted],
        "of another shape": [
            f"{key} {tuple(given[key].shape)} instead of {tuple(wanted[key].shape)}"
            for key in wanted
            if key in given and given[key].shape != wanted[key].shape
        ],
    }
    if any(problems.values()):
        listed = "; ".join(f"{len(keys)} {kind}: {some(keys)}" for kind, keys in problems.items() if keys)
        raise CheckpointError(f"{name} does not fit the architecture: {listed}", hint="check --arch and --arch-arg")
    broken = [key for key, tensor in given.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if broken:
        raise CheckpointError(f"weights must be finite, but {name} has NaN or infinity in {some(broken)}")
    network.load_state_dict(dict(given), strict=False)


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path.name} is not a safetensors file: {error}") from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as stream:
        head = stream.read(2)
    if head != b"PK" and head[:1] != b"\x80":  # a zip archive, or a pickle
        raise CheckpointError(f"{path.name} is not a readable torch checkpoint: it is neither an archive nor a pickle")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path.name} holds more than tensors, and attrcert never runs code from a checkpoint",
            hint="save it again with torch.save(model.state_dict(), path), or as .safetensors",
        ) from error
    except Exception as error:
        raise CheckpointError(
            f"{path.name} is not a readable torch checkpoint: {type(error).__name__}: {error}"
        ) from error
    for _ in range(DEEPEST):
        if not isinstance(content, Mapping) or _is_state(content):
            break
        inner = [key for key in WRAPPERS if isinstance(content.get(key), Mapping)]
        if not inner:
            raise CheckpointError(
                f"{path.name} holds no weights under {', '.join(WRAPPERS)}; its entries are {some([str(key) for key in content])}"
            )
        content = content[inner[0]]
    if not isinstance(content, Mapping) or not _is_state(content):
        raise CheckpointError(f"{path.name} must hold a state dict, got {type(content).__name__}")
    return dict(content)


def _is_state(content: Mapping[Any, Any]) -> bool:
    return bool(content) and all(isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items())


def _unprefixed(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights without the prefixes that wrappers put before every key."""
    while not weights.keys() & wanted.keys():
        prefix = next((p for p in PREFIXES if weights and all(key.startswith(p) for key in weights)), None)
        if prefix is None:
            break
        weights = {key.removeprefix(prefix): tensor for key, tensor in weights.items()}
    return weights


def _described(metadata: Mapping[str, str], key: str, name: str, *, numbers: bool = False) -> Any:
    """A metadata entry that holds JSON; None where there is none."""
    text = metadata.get(f"attrcert.{key}")
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise CheckpointError(f"the metadata attrcert.{key} of {name} must be JSON, got {text!r}") from error
    if numbers and not (isinstance(value, list) and all(isinstance(part, int | float) for part in value)):
        raise CheckpointError(f"the metadata attrcert.{key} of {name} must be a list of numbers, got {text!r}")
    return tuple(float(part) for part in value) if numbers else value


def _named_architecture(metadata: Mapping[str, str], name: str) -> str | None:
    """What the file says of itself; a file may not name code to run."""
    arch = metadata.get("attrcert.arch")
    if arch is not None and arch not in BUNDLED and not arch.startswith("torchvision:"):
        raise CheckpointError(
            f"{name} names the code {arch!r} as its architecture, and attrcert runs code only where the user names it",
            hint=f"if you trust it, give --arch {arch}",
        )
    return arch


def _arch_hash(arch: str) -> str | None:
    place = Path(arch.rpartition(":")[0])
    return sha256(place) if place.suffix == ".py" else None
