"""timm's models by name, without and with the weights that timm has for them."""

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.libraries.library import Library, Preparation, extra, fetched, not_cached
from attrcert.vocabulary import did_you_mean

WEIGHT_ARGUMENTS = ("pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path", "cache_dir")
INTERPOLATIONS = ("nearest", "bilinear", "bicubic")
FILES = ("model.safetensors", "pytorch_model.bin")


class Timm(Library):
    """timm builds, and says how its weights are put in; attrcert reads them."""

    def network(self, name: str, arguments: Mapping[str, Any]) -> nn.Module:
        for key in WEIGHT_ARGUMENTS:
            if key in arguments:
                raise UsageError(
                    f"weights come from the checkpoint: --arch-arg {key} must not be given with timm:{name}"
                )
        self._configuration(name)
        return extra("timm", "timm").create_model(name, pretrained=False, **arguments)

    def weight_files(self, name: str, *, download: bool) -> tuple[Path, ...]:
        known, what = self._configuration(name), f"timm:{name}"
        if known.custom_load or not (known.hf_hub_id or known.url):
            raise CheckpointError(f"timm has no weights for {name}", hint=f"give a file and --arch {what}")
        if not known.hf_hub_id:
            return (fetched(known.url, what, download=download),)
        hub = extra("huggingface_hub", "timm")
        repository, _, revision = known.hf_hub_id.partition("@")
        files = (known.hf_hub_filename,) if known.hf_hub_filename else FILES
        for file in files:  # `hf_hub_download` asks the network even for what is here
            cached = hub.try_to_load_from_cache(repository, file, revision=revision or None)
            if isinstance(cached, str):
                return (Path(cached),)
        if not download:
            raise not_cached(what, f"the cache has no {repository}")
        reason: Exception | None = None
        for file in files:
            try:
                return (Path(hub.hf_hub_download(repository, file, revision=revision or None)),)
            except (OSError, ValueError) as error:  # of the hub's errors all are one of these
                reason = error
        raise CheckpointError(f"the weights of {what} cannot be fetched from {repository}: {reason}") from reason

    def with_weights(self, name: str, weights: Mapping[str, Tensor], arguments: Mapping[str, Any]) -> nn.Module:
        if "num_classes" in arguments:
            raise UsageError(
                f"the weights of timm:{name} come with their classes: --arch-arg num_classes must not be given"
            )
        given = {"state_dict": dict(weights)}  # timm renames what its older weights call otherwise
        return extra("timm", "timm").create_model(name, pretrained=True, pretrained_cfg_overlay=given, **arguments)

    def preparation(self, name: str) -> Preparation:
        known = self._configuration(name)
        how = extra("timm.data", "timm").resolve_data_config(pretrained_cfg=known.to_dict())
        size = how["input_size"][-1]
        return Preparation(
            f"timm's configuration of {name}",
            tuple(how["mean"]),
            tuple(how["std"]),
            math.floor(size / how["crop_pct"]),
            size,
            how["interpolation"] if how["interpolation"] in INTERPOLATIONS else "bilinear",
            self._classes(known),
            squashed=how["crop_mode"] == "squash",
        )

    def _classes(self, known: Any) -> tuple[str, ...] | None:
        if known.label_names:
            return tuple(known.label_names)
        data = extra("timm.data", "timm")
        subset = data.infer_imagenet_subset(known.to_dict())
        if subset is None:
            return None
        info = data.ImageNetInfo(subset)
        return tuple(info.index_to_description(index) for index in range(info.num_classes()))

    def _configuration(self, name: str) -> Any:
        timm = extra("timm", "timm")
        known = None
        with suppress(RuntimeError):  # of a model that it knows with weights that it does not
            known = timm.get_pretrained_cfg(name) if timm.is_model(name) else None
        if known is None:
            names = [*timm.list_models(), *timm.list_models(pretrained=True)]
            raise UsageError(
                f"timm has no model {name!r}", hint=did_you_mean(name, names, "see timm.list_models(pretrained=True)")
            )
        return known
