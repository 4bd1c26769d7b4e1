"""What is asked of a library of models, and what it says of a model beside its weights."""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.vision import torchvision

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Preparation:
    """How a model's pixels are to be prepared, and what its classes are called; None where its configuration does not say."""

    source: str  # whose configuration
    mean: Numbers | None = None
    std: Numbers | None = None
    resize: int | None = None  # of the shorter side
    crop: int | None = None
    interpolation: str = "bilinear"
    classes: tuple[str, ...] | None = None
    squashed: bool = False  # whether the configuration changes an image's proportions


class Library(Protocol):
    """Builds its models; knows where their weights are, and how they are put in."""

    def network(self, name: str, arguments: Mapping[str, Any]) -> nn.Module:
        """Without weights."""

    def weight_files(self, name: str, *, download: bool) -> tuple[Path, ...]:
        """On this machine, fetched only where that is allowed."""

    def with_weights(self, name: str, weights: Mapping[str, Tensor], arguments: Mapping[str, Any]) -> nn.Module:
        """The network with the library's own weights, read from its files; they may be called otherwise than in the network."""

    def in_files(self, network: nn.Module) -> Mapping[str, Tensor]:
        """The tensors of its network by the names that its files have for them."""
        return network.state_dict()

    def preparation(self, name: str) -> Preparation:
        """What the configuration says."""


def extra(module: str, package: str) -> ModuleType:
    """A library that not everybody has."""
    torchvision()  # timm and transformers import it
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise UsageError(
            f"{package}: models need {module.partition('.')[0]}", hint=f"pip install 'attrcert[{package}]'"
        ) from error


def fetched(url: str, what: str, *, download: bool) -> Path:
    """A file of torch's cache, which is fetched where that is allowed."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]
    if not path.exists():
        if not download:
            raise not_cached(what, f"there is no {path}")
        path.parent.mkdir(parents=True, exist_ok=True)
        match = torch.hub.HASH_REGEX.search(path.name)
        try:
            torch.hub.download_url_to_file(url, str(path), match.group(1) if match else None)
        except (OSError, RuntimeError) as error:
            raise CheckpointError(f"the weights of {what} cannot be fetched from {url}: {error}") from error
    return path


def not_cached(what: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"the weights of {what} must be on this machine, but {why}",
        hint=f"add --download, or give a file of weights with --arch {what}",
    )
