"""Options that several commands share, and how their texts become values. Nothing here imports torch."""

import math
from typing import Annotated

import typer

from attrcert.errors import UsageError

MODEL, DATA, RUN, OUTPUT = "Model", "Data", "Run", "Output"

Checkpoint = Annotated[
    str | None,
    typer.Argument(
        help="A bundled model's name, a .safetensors file, or a .pt/.pth/.th state dict. Default: fashion-natural.",
        show_default=False,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Argument(
        help="A bundled sample's name, an .npz (images, labels), a folder of images, torchvision:NAME:SPLIT, or "
        "module:factory. Default: fashion-test.",
        show_default=False,
    ),
]
Arch = Annotated[
    str | None,
    typer.Option(
        help="bundled name, torchvision:NAME, package.module:factory or path/to/file.py:factory. The last two run that code.",
        rich_help_panel=MODEL,
    ),
]
ArchArg = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Argument of the architecture; repeatable.", rich_help_panel=MODEL),
]
ModelOutput = Annotated[
    str | None,
    typer.Option("--output", help="Which entry of a tuple or dict output holds the logits.", rich_help_panel=MODEL),
]
Mean = Annotated[
    str | None,
    typer.Option(
        help="Per-channel mean that the model's normalisation subtracts, e.g. 0.49,0.48,0.45.", rich_help_panel=MODEL
    ),
]
Std = Annotated[
    str | None, typer.Option(help="Per-channel standard deviation, e.g. 0.25,0.24,0.26.", rich_help_panel=MODEL)
]
SoftplusBeta = Annotated[
    str,
    typer.Option(
        help="Run ReLUs as softplus with this beta (their Hessian is zero otherwise); 'none' runs the network "
        "as it is. Smooth networks are not changed.",
        rich_help_panel=MODEL,
    ),
]
DataRoot = Annotated[str, typer.Option(help="Folder of torchvision datasets.", rich_help_panel=DATA)]
Download = Annotated[
    bool, typer.Option("--download", help="Let torchvision download the dataset.", rich_help_panel=DATA)
]
Resize = Annotated[
    int | None, typer.Option(min=1, help="Resize the shorter side to this many pixels.", rich_help_panel=DATA)
]
Crop = Annotated[int | None, typer.Option(min=1, help="Crop the centre to this many pixels.", rich_help_panel=DATA)]
Channels = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=3,
        help="1 decodes image files as grey, 3 as RGB. Default: what the model takes.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Skip = Annotated[int, typer.Option(min=0, help="Skip this many samples.", rich_help_panel=DATA)]
Limit = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Use at most this many samples. Default: all; 64 where DATASET is omitted.",
        show_default=False,
        rich_help_panel=DATA,
    ),
]
Indices = Annotated[str | None, typer.Option(help="Use these samples, e.g. 3,17,100-199.", rich_help_panel=DATA)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...", rich_help_panel=RUN)]
Dtype = Annotated[str, typer.Option(help="float32 or float64.", rich_help_panel=RUN)]
BatchSize = Annotated[
    str, typer.Option(help="Samples at once, or auto: as many as fit into --memory.", rich_help_panel=RUN)
]
Memory = Annotated[str, typer.Option(help="What --batch-size auto may fill.", rich_help_panel=RUN)]
Seed = Annotated[
    int, typer.Option(min=0, help="Random draws depend on this and the sample's index alone.", rich_help_panel=RUN)
]


def numbers(text: str | None, name: str) -> tuple[float, ...] | None:
    """Comma-separated numbers."""
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{name} must be numbers such as 0.49,0.48,0.45, got {text!r}") from error
    if not all(math.isfinite(value) for value in values):
        raise UsageError(f"{name} must be finite numbers, got {text}")
    return values


def beta(text: str) -> float | None:
    """A positive number, or none."""
    if text == "none":
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError(f"--softplus-beta must be a number or none, got {text!r}") from error
    if not 0 < value < math.inf:
        raise UsageError(f"--softplus-beta must be positive and finite, got {text}")
    return value


def size(text: str) -> int | None:
    """A whole number, or auto."""
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--batch-size must be auto or a whole number of at least 1, got {text!r}")
    return int(text)


def words(given: list[str]) -> tuple[str, ...]:
    """Repeated or comma-separated words."""
    return tuple(word.strip() for part in given for word in part.split(",") if word.strip())
