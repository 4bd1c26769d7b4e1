"""torchvision's models by name, without and with the weights that torchvision has for them."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.libraries.library import Library, Preparation, fetched
from attrcert.loading.vision import torchvision
from attrcert.registry import unknown

# With these torchvision downloads and unpickles; `progress` is of the download.
WEIGHT_ARGUMENTS = ("weights", "weights_backbone", "pretrained", "pretrained_backbone", "progress")
# what its builders set beside the weights
BESIDE_WEIGHTS = {"googlenet": {"transform_input": True}, "inception_v3": {"transform_input": True}}


class Torchvision(Library):
    """Every builder is kept from downloading; weights are read by attrcert alone."""

    def network(self, name: str, arguments: Mapping[str, Any]) -> nn.Module:
        models = torchvision("models")
        self._check(name)
        for key in WEIGHT_ARGUMENTS:
            if arguments.get(key) is not None:
                raise UsageError(
                    f"weights come from the checkpoint: --arch-arg {key} must not be given with torchvision:{name}"
                )
        builder = models.get_model_builder(name)
        none = {key: None for key in ("weights", "weights_backbone") if key in inspect.signature(builder).parameters}
        return builder(**{key: value for key, value in arguments.items() if key not in WEIGHT_ARGUMENTS}, **none)

    def weight_files(self, name: str, *, download: bool) -> tuple[Path, ...]:
        weights = self._weights(name)
        if weights is None:
            raise CheckpointError(
                f"torchvision has no weights for {name}", hint=f"give a file and --arch torchvision:{name}"
            )
        return (fetched(weights.url, f"torchvision:{name}", download=download),)

    def with_weights(self, name: str, weights: Mapping[str, Tensor], arguments: Mapping[str, Any]) -> nn.Module:
        network = self.network(name, {**BESIDE_WEIGHTS.get(name, {}), **arguments})
        network.load_state_dict(dict(weights))
        return network

    def preparation(self, name: str) -> Preparation:
        weights, source = self._weights(name), f"torchvision's weights of {name}"
        steps: Any = weights.transforms() if weights else None
        if not hasattr(steps, "mean") or not hasattr(steps, "crop_size"):
            return Preparation(source)
        return Preparation(
            source,
            tuple(steps.mean),
            tuple(steps.std),
            steps.resize_size[0],
            steps.crop_size[0],
            steps.interpolation.value,
            tuple(weights.meta["categories"]) if "categories" in weights.meta else None,
        )

    def _weights(self, name: str) -> Any:
        """Those that torchvision has for it by default."""
        self._check(name)
        known = list(torchvision("models").get_model_weights(name))
        return type(known[0]).DEFAULT if known else None

    def _check(self, name: str) -> None:
        models = torchvision("models")
        if name not in models.list_models():
            raise unknown("torchvision model", name, models.list_models())
