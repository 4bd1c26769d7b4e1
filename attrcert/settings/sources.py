"""Where the model and the data come from."""

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attrcert.errors import UsageError
from attrcert.settings.declared import DATA, MODEL, Settings, setting
from attrcert.sizes import parse_bytes
from attrcert.vocabulary import SOFTPLUS_BETA, Kind, number_or, parse_indices, parse_number, parse_shard

DEFAULT_MODEL, DEFAULT_SAMPLE = "fashion-natural", "fashion-test"
# of bundled models that take other samples than the default one
SAMPLES: Mapping[str, Mapping[str, Any]] = {"wine": {"dataset": "wine-test", "feature_scale": "std"}}
DEFAULT_MAX_INPUT = "2GB"
BUNDLED_LIMIT = 64
RANGES = ("none", "data")  # what --input-range can be beside two numbers
UNLABELLED = "none"  # as --label-column


def parse_argument(text: str, name: str) -> tuple[str, Any]:
    """`key=value` with the value read as a Python literal where it is one."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"{name} must look like key=value, got {text!r}")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def _numbers(text: str, name: str) -> tuple[float, ...]:
    """Separated by commas."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{name} must be numbers such as 0.49,0.48,0.45, got {text!r}") from error
    if not all(math.isfinite(value) for value in values):
        raise UsageError(f"{name} must be finite numbers, got {text}")
    return values


def _range(text: str, name: str) -> str | tuple[float, float]:
    """`LO,HI`, or a word that stands for a range."""
    if text in RANGES:
        return text
    try:
        low, high = (parse_number(part) for part in text.split(","))
    except (ValueError, UsageError) as error:
        raise UsageError(f"{name} must be LO,HI such as 0,1, or {' or '.join(RANGES)}, got {text!r}") from error
    return low, high


def _versions(betas: Iterable[float | None]) -> float | tuple[float, ...] | None:
    """One beta as it is; several, each once."""
    given = tuple(betas)
    numbers = tuple(beta for beta in given if beta is not None)
    if len(given) == 1:
        return given[0]
    if not given or len(set(numbers)) < len(given):
        told = ", ".join("none" if beta is None else f"{beta:g}" for beta in given) or "nothing"
        raise UsageError(f"--softplus-beta must be none, a number, or several numbers, each once, got {told}")
    return numbers


def _size(text: str, name: str) -> tuple[int, ...]:
    """`N`, or `H,W`."""
    sides = text.split(",")
    if not (len(sides) <= 2 and all(side.strip().isdecimal() and int(side) for side in sides)):
        raise UsageError(f"{name} must be a number of pixels such as 256, or H,W such as 224,320, got {text!r}")
    return tuple(map(int, sides))


@dataclass(frozen=True)
class Capped(Settings):
    """What comes from strangers: what it may fill, and whether it is fetched."""

    max_input: str = setting(
        DEFAULT_MAX_INPUT, "Refuse a compressed checkpoint or .npz, or a picture, that would fill more memory than this, e.g. 8GB.",
        DATA, kw_only=True,
    )  # fmt: skip

    download: bool = setting(
        False,
        "Let torchvision download the dataset, and fetch the weights of timm:NAME or torchvision:NAME.",
        DATA,
        kw_only=True,
    )

    def check(self) -> None:
        parse_bytes(self.max_input, "--max-input")


@dataclass(frozen=True)
class ModelSpec(Capped):
    """How a user names a model, or the network itself; what is None is taken from the checkpoint's metadata."""

    checkpoint: Any = setting(
        DEFAULT_MODEL,
        "A bundled model's name, a file of weights (safetensors or torch, whatever it is called), or a model with its own weights: "
        "timm:NAME, torchvision:NAME, hf:FOLDER.", MODEL, argument=True, basic=True,
    )  # fmt: skip
    arch: str | None = setting(
        None,
        "bundled name, torchvision:NAME, timm:NAME, hf:FOLDER, package.module:factory, path/to/file.py:factory, or export for a program "
        "of torch.export (.pt2). The last three run that code.", MODEL, basic=True,
    )  # fmt: skip
    arch_args: Mapping[str, Any] = setting(
        dict, "Argument of the architecture; repeatable.",
        MODEL, read=parse_argument, many=True, whole=True, collect=dict, flags=("--arch-arg",), metavar="KEY=VALUE",
    )  # fmt: skip
    output: str | None = setting(None, "Which entry of a tuple or dict output holds the logits.", MODEL)
    mean: tuple[float, ...] | None = setting(
        None, "Per-channel mean that the model's normalisation subtracts, e.g. 0.49,0.48,0.45.", MODEL, read=_numbers, basic=True,
    )  # fmt: skip
    std: tuple[float, ...] | None = setting(
        None, "Per-channel standard deviation, e.g. 0.25,0.24,0.26.", MODEL, read=_numbers, basic=True
    )
    softplus_beta: float | tuple[float, ...] | None = setting(
        SOFTPLUS_BETA,
        "Run ReLUs as softplus with this beta (their Hessian is zero otherwise); 'none' runs the network as it is. Smooth networks "
        "are not changed. Repeatable: rows for each, and how close it is to the ReLU network.",
        MODEL, read=number_or("none", None), many=True, collect=_versions, positive=True,
    )  # fmt: skip
    checkpoint_key: str | None = setting(
        None, "Which entry of CHECKPOINT holds the weights, e.g. model_ema.", MODEL, unsaid="the one that fits best"
    )

    @property
    def betas(self) -> tuple[float, ...]:
        """The softplus versions, where there are several."""
        return self.softplus_beta if isinstance(self.softplus_beta, tuple) else ()

    @property
    def beta(self) -> float | None:
        """The only one."""
        if isinstance(self.softplus_beta, tuple):
            told = ", ".join(f"{beta:g}" for beta in self.betas)
            raise UsageError(
                f"there can be one --softplus-beta here, got {told}", hint="bound, attack and max-eps compare several"
            )
        return self.softplus_beta


@dataclass(frozen=True)
class DataSpec(Capped):
    """How a user names data, or the arrays or dataset themselves, and which part of it."""

    dataset: Any = setting(
        DEFAULT_SAMPLE,
        "A bundled sample's name, an .npz (images, signals or features, and labels), an .npy, a .csv or .parquet, a folder of images, "
        "torchvision:NAME:SPLIT (MNIST:test, ImageNet:val), cub:FOLDER:SPLIT, or module:factory.",
        DATA, argument=True, basic=True,
    )  # fmt: skip
    data_kind: str | None = setting(
        None, "What a sample is.", DATA, choices=tuple(Kind), unsaid="told by the arrays' shape and name, and by the model",
    )  # fmt: skip
    input_range: str | tuple[float, float] | None = setting(
        None, "What inputs can be: LO,HI, none, or data (the least and largest value of each feature). Attacks stay inside.",
        DATA, read=_range, metavar="LO,HI|none|data", unsaid="0,1 for images, none otherwise",
    )  # fmt: skip
    feature_scale: str | None = setting(
        None, "Divide each feature by its standard deviation or its range in the data: eps and maps are then in these units.",
        DATA, choices=("none", "std", "range"), unsaid="none",
    )  # fmt: skip
    labels: str | None = setting(None, "The labels of an .npy: another .npy, of class numbers.", DATA, metavar="FILE")
    label_column: str | None = setting(
        None, f"The column of a .csv or .parquet that holds the labels; '{UNLABELLED}': it has none.", DATA,
        unsaid="label, target or class, where one of them is there",
    )  # fmt: skip
    classes: str | None = setting(
        None, "The names of the classes in the order of their numbers, for class folders and labels that are words: a name a line, or a "
        "JSON list.", DATA, metavar="FILE", unsaid="the model's own, or those of the data in alphabetic order",
    )  # fmt: skip
    data_root: str = setting("data", "Folder of torchvision datasets.", DATA)
    resize: int | tuple[int, ...] | None = setting(
        None, "Resize the shorter side to this many pixels, or both sides: H,W.", DATA, read=_size, least=1, basic=True, metavar="N|H,W",
    )  # fmt: skip
    crop: int | None = setting(None, "Crop the centre to this many pixels.", DATA, least=1, basic=True)
    channels: int | None = setting(
        None, "1 decodes image files as grey, 3 as RGB.", DATA, least=1, most=3, unsaid="what the model takes"
    )
    skip: int = setting(0, "Skip this many samples.", DATA, least=0)
    limit: int | None = setting(
        None, "Use at most this many samples.", DATA, least=1, unsaid=f"all; {BUNDLED_LIMIT} where DATASET is omitted", basic=True,
    )  # fmt: skip
    indices: tuple[int, ...] | None = setting(
        None, "Use these samples, each once, e.g. 3,17,100-199.", DATA, read=parse_indices
    )
    shard: tuple[int, int] | None = setting(
        None, "Use every N-th of these samples, from the I-th: one of N runs, whose CSVs `attrcert merge` joins.",
        DATA, read=parse_shard, metavar="I/N",
    )  # fmt: skip

    def check(self) -> None:
        super().check()
        if isinstance(self.resize, tuple):
            if len(self.resize) > 2:
                raise UsageError(f"--resize takes one side or H,W, got {len(self.resize)} numbers")
            object.__setattr__(self, "resize", self.resize[0] if len(self.resize) == 1 else self.resize)
        if self.feature_scale == "none":  # as where nothing is said
            object.__setattr__(self, "feature_scale", None)
        if isinstance(self.input_range, tuple):
            ends = self.input_range
            if len(ends) != 2 or not (all(map(math.isfinite, ends)) and ends[0] < ends[1]):
                raise UsageError(f"--input-range must be LO,HI, finite and LO below HI, got {','.join(map(str, ends))}")
        if self.indices is not None:
            object.__setattr__(self, "indices", tuple(dict.fromkeys(self.indices)))


def usual_data(model: Any, dataset: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the data; where nothing is said of them, a part of the bundled sample that the model is for is taken."""
    if dataset is not None or "dataset" in given:
        return dict(given)
    own = SAMPLES.get(model, {}) if isinstance(model, str) else {}
    limit = {} if {"limit", "indices"} & set(given) else {"limit": BUNDLED_LIMIT}
    return {**own, **limit, **given}
