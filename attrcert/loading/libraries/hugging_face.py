"""Image classifiers in a folder of Hugging Face's form (config.json, weights, preprocessor_config.json), read by transformers.

Nothing is fetched, and code that a folder brings along never runs.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from attrcert.errors import CheckpointError, UsageError
from attrcert.loading.files import decoding, regular
from attrcert.loading.libraries.library import Library, Numbers, Preparation, extra
from attrcert.vocabulary import some

CONFIGURATION, PREPROCESSING = "config.json", "preprocessor_config.json"
KINDS = ("model*.safetensors", "pytorch_model*.bin")
LONGEST = 10**8  # bytes of a configuration
INTERPOLATIONS = {0: "nearest", 2: "bilinear", 3: "bicubic"}  # by Pillow's numbers
SMALL_CONVNEXT = 384  # pixels, below which ConvNeXt's images are cropped


class HuggingFace(Library):
    """The folder is the name."""

    def network(self, name: str, arguments: Mapping[str, Any]) -> nn.Module:
        with _offline():
            configuration, kind = self._configuration(name, arguments)
            return kind(configuration)

    def weight_files(self, name: str, *, download: bool) -> tuple[Path, ...]:
        folder = _folder(name)
        found = next((files for kind in KINDS if (files := sorted(folder.glob(kind)))), [])
        if not found:
            raise CheckpointError(f"{folder} holds no weights ({' or '.join(KINDS)}); it has {some(_names(folder))}")
        return tuple(found)

    def with_weights(self, name: str, weights: Mapping[str, Tensor], arguments: Mapping[str, Any]) -> nn.Module:
        """transformers renames what files call otherwise than its modules; what it would make up is refused."""
        how = {"state_dict": dict(weights), "output_loading_info": True, "ignore_mismatched_sizes": True}
        with _offline():
            configuration, kind = self._configuration(name, arguments)
            with decoding(f"transformers cannot load {name}", CheckpointError):
                network, loaded = kind.from_pretrained(None, config=configuration, **how)
        wrong = {
            "missing": sorted(loaded["missing_keys"]),
            "unexpected": sorted(loaded["unexpected_keys"]),
            "of another shape": [str(one[0]) for one in loaded["mismatched_keys"]],
        }
        if any(wrong.values()):
            listed = "; ".join(f"{len(keys)} {what}: {some(keys)}" for what, keys in wrong.items() if keys)
            raise CheckpointError(f"the weights in {name} do not fit its {CONFIGURATION}: {listed}")
        return network

    def in_files(self, network: nn.Module) -> Mapping[str, Tensor]:
        """transformers renames some tensors when it loads a file, and back when it saves one."""
        conversions = extra("transformers.core_model_loading", "hf")
        with suppress(Exception):  # whatever its versions make of it: names of its own are names too
            return dict(conversions.revert_weight_conversion(network, network.state_dict()))
        return network.state_dict()

    def preparation(self, name: str) -> Preparation:
        folder = _folder(name)
        labels = _json(folder, CONFIGURATION).get("id2label")
        classes = None
        if isinstance(labels, dict) and all(str(key).isdecimal() for key in labels):
            classes = tuple(str(labels[key]) for key in sorted(labels, key=int))
        if not (folder / PREPROCESSING).exists():
            return Preparation(f"{CONFIGURATION} of {folder}", classes=classes)
        with decoding(f"{folder / PREPROCESSING} cannot be understood", CheckpointError):
            return _prepared(_json(folder, PREPROCESSING), f"{PREPROCESSING} of {folder}", classes)

    def _configuration(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """transformers' configuration and the class that it is for."""
        folder, transformers = _folder(name), extra("transformers", "hf")
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        given = _json(folder, CONFIGURATION)
        known = transformers.AutoModelForImageClassification._model_mapping
        if "auto_map" in given and given.get("model_type") not in transformers.CONFIG_MAPPING:
            raise CheckpointError(
                f"{folder} brings code of its own along, and attrcert never runs code from a checkpoint",
                hint="name its code with --arch package.module:factory, and give the file of weights",
            )
        with decoding(f"{folder / CONFIGURATION} cannot be read by transformers", CheckpointError):
            configuration = transformers.AutoConfig.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, **arguments
            )
        if type(configuration) not in known:
            raise CheckpointError(
                f"{folder} holds a {configuration.model_type}, of which transformers has no image classifier"
            )
        return configuration, known[type(configuration)]


@contextmanager
def _offline() -> Iterator[None]:
    """Whatever a configuration asks for: nothing is fetched."""
    constants: Any = extra("huggingface_hub.constants", "hf")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _prepared(given: Mapping[str, Any], source: str, classes: tuple[str, ...] | None) -> Preparation:
    mean, std = _normalisation(given)
    size, crop = given.get("size"), given.get("crop_size")
    sides = _sides(size) if given.get("do_resize", True) else None
    resize, squashed = min(sides) if sides else None, isinstance(size, dict) and "height" in size
    cropped = _sides(crop) if crop is not None and given.get("do_center_crop", True) else None
    share = given.get("crop_pct")  # ConvNeXt's own way
    if resize and share and resize < SMALL_CONVNEXT:
        cropped, resize = (resize, resize), int(resize / share)
    return Preparation(
        source,
        mean,
        std,
        resize,
        min(cropped) if cropped else resize,
        INTERPOLATIONS.get(given.get("resample", 2), "bilinear"),
        classes,
        squashed=squashed and not cropped,
    )


def _normalisation(given: Mapping[str, Any]) -> tuple[Numbers | None, Numbers | None]:
    """Of pixels in [0, 1], which a configuration may ask for at another scale."""
    scale = float(given.get("rescale_factor", 1 / 255)) * 255 if given.get("do_rescale", True) else 255.0
    if given.get("do_normalize", True) and given.get("image_mean") and given.get("image_std"):
        mean, std = (tuple(float(value) / scale for value in given[key]) for key in ("image_mean", "image_std"))
        return mean, std
    return (None, None) if _is_one(scale) else ((0.0,), (1 / scale,))


def _is_one(scale: float) -> bool:
    return abs(scale - 1) < 1e-6


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    if isinstance(size, dict) and "shortest_edge" in size:
        return int(size["shortest_edge"]), int(size["shortest_edge"])
    return (int(size["height"]), int(size["width"])) if isinstance(size, dict) and "height" in size else None


def _folder(name: str) -> Path:
    folder = Path(name)
    if not folder.is_dir():
        raise CheckpointError(
            f"hf: must be followed by a folder on this machine, got {name!r}",
            hint="fetch it with `hf download NAME --local-dir FOLDER`",
        )
    regular(folder / CONFIGURATION, "file", CheckpointError)
    return folder


def _json(folder: Path, file: str) -> dict[str, Any]:
    if regular(folder / file, "file", CheckpointError) > LONGEST:
        raise UsageError(f"{folder / file} must be a short text")
    with decoding(f"{folder / file} is not readable JSON", CheckpointError):
        found = json.loads((folder / file).read_text())
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__}")
        return found


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
