"""The map that a targeted attack aims at: a frame, the map of another sample, or a picture file."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attrcert.attacks.manipulate import frame, heat, normalised
from attrcert.draws import Draws
from attrcert.errors import DataError, UsageError
from attrcert.loading.pictures import decoded
from attrcert.running.evaluating.methods import Layout, explainer
from attrcert.running.evaluating.work import Scene
from attrcert.settings.tasks import AttackConfig


def target_map(config: AttackConfig, scene: Scene) -> Tensor | None:
    """The map that `manipulate` aims at: a frame, the map of another sample, or a picture file."""
    if "manipulate" not in config.attacking.attack:
        return None
    shape = scene.map_shape
    if len(shape) < 3:
        raise UsageError(f"manipulate needs maps with channels, height and width, got maps of shape {shape}")
    word, _, rest = config.attacking.target_map.partition(":")
    if config.attacking.target_map == "frame":
        return frame(shape, like=scene.x)
    if word == "sample":
        return _sample_map(rest, config, scene, shape)
    return _picture_map(Path(config.attacking.target_map), shape, scene)


def _sample_map(number: str, config: AttackConfig, scene: Scene, maps: tuple[int, ...]) -> Tensor:
    if not number.isdecimal() or int(number) >= len(scene.data.images):
        raise UsageError(f"target map sample:N needs a sample number below {len(scene.data.images)}, got {number!r}")
    shape, x = tuple(scene.x.shape[1:]), scene.data.images[int(number)][0].to(scene.x)[None]
    if tuple(x.shape[1:]) != shape:
        raise DataError(f"the target map's sample must have the shape {shape}, got {tuple(x.shape[1:])}")
    with torch.no_grad():
        y = scene.f(x).argmax(dim=1)
    draws = Draws(config.arithmetic.seed, (int(number),))
    return heat(explainer(config, scene.f.mean, Layout()).value(scene.f, x, y, draws), maps)[0]


def _picture_map(path: Path, shape: tuple[int, ...], scene: Scene) -> Tensor:
    try:
        picture = decoded(path, "L", scene.data.max_input).resize((shape[-1], shape[-2]))
    except DataError as error:
        raise DataError(
            f"target map {path} cannot be read as an image: {error.message}",
            hint=error.hint or "--target-map takes frame, sample:N, or an image file",
        ) from error
    values = torch.from_numpy(np.asarray(picture, dtype=np.float64)).to(scene.x).flatten()
    if not values.sum() > 0:
        raise DataError(f"target map {path} is black: a map needs some mass")
    return normalised(values[None])[0]
