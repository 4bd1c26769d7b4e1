"""The map that a targeted attack aims at: a frame, the map of another sample, or a picture file."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attrcert.attacks.manipulate import frame, heat, normalised
from attrcert.draws import Draws
from attrcert.errors import DataError, UsageError
from attrcert.loading.datasets import Images
from attrcert.loading.pictures import decoded
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.methods import Layout, explainer
from attrcert.settings.sources import DEFAULT_MAX_INPUT
from attrcert.settings.tasks import AttackConfig


def target_map(
    config: AttackConfig,
    f: Classifier,
    images: Images,
    shape: tuple[int, ...],
    like: Tensor,
    max_input: str = DEFAULT_MAX_INPUT,
) -> Tensor | None:
    """The map that `manipulate` aims at: a frame, the map of another sample, or a picture file."""
    if "manipulate" not in config.attacking.attack:
        return None
    if len(shape) < 3:
        raise UsageError(f"manipulate needs images with channels, height and width, got inputs of shape {shape}")
    word, _, rest = config.attacking.target_map.partition(":")
    if config.attacking.target_map == "frame":
        return frame(shape, like=like)
    if word == "sample":
        return _sample_map(rest, config, f, images, shape, like)
    return _picture_map(Path(config.attacking.target_map), shape, like, max_input)


def _sample_map(
    number: str, config: AttackConfig, f: Classifier, images: Images, shape: tuple[int, ...], like: Tensor
) -> Tensor:
    if not number.isdecimal() or int(number) >= len(images):
        raise UsageError(f"target map sample:N needs a sample number below {len(images)}, got {number!r}")
    x = images[int(number)][0].to(like)[None]
    if tuple(x.shape[1:]) != shape:
        raise DataError(f"the target map's sample must have the shape {shape}, got {tuple(x.shape[1:])}")
    with torch.no_grad():
        y = f(x).argmax(dim=1)
    return heat(
        explainer(config, f.mean, Layout()).value(f, x, y, Draws(config.arithmetic.seed, (int(number),))), shape
    )[0]


def _picture_map(path: Path, shape: tuple[int, ...], like: Tensor, max_input: str) -> Tensor:
    try:
        picture = decoded(path, "L", max_input).resize((shape[-1], shape[-2]))
    except DataError as error:
        raise DataError(
            f"target map {path} cannot be read as an image: {error.message}",
            hint=error.hint or "--target-map takes frame, sample:N, or an image file",
        ) from error
    values = torch.from_numpy(np.asarray(picture, dtype=np.float64)).to(like).flatten()
    if not values.sum() > 0:
        raise DataError(f"target map {path} is black: a map needs some mass")
    return normalised(values[None])[0]
