"""Smoothed attributions as arrays, with the sides of their pixels where these are certified."""

from math import prod
from typing import Any

import numpy as np

from attrcert.bounds.smoothed.pixels import Marks, certified_pixels, least_draws
from attrcert.errors import UsageError
from attrcert.running.evaluating.drawing import Drawing
from attrcert.running.evaluating.samples import Failed
from attrcert.running.evaluating.smoothing import Certificates
from attrcert.running.opening.runs import Run
from attrcert.saved.map_files import NAMES, PIXEL_NAMES
from attrcert.settings.certifying import SmoothConfig
from attrcert.settings.smoothing import Pixels


def smoothed_maps(run: Run) -> tuple[dict[str, Any], list[Failed]]:
    """The maps of all usable samples, and the other samples."""
    parts: list[dict[str, list[Any]]] = []
    failed: list[Failed] = []
    assert isinstance(run.work, Certificates)
    assert isinstance(run.config, SmoothConfig)
    pixels = run.config.pixels
    with run.classifier.prepared():
        for indices in run.open_batches((), run.batch_size):
            batch, logits, others = run.usable(indices)
            failed += others
            parts += [_maps(run.work.drawing(run.classifier, batch, logits), pixels)] if batch else []
    names = NAMES + (PIXEL_NAMES if pixels.certify_pixels else ())
    return {name: np.array([one for part in parts for one in part[name]]) for name in names}, failed


def _maps(drawn: Drawing, pixels: Pixels) -> dict[str, list[Any]]:
    batch, marks = drawn.batch, _marks(drawn, pixels)
    mean, error, seen = drawn.smoothed(drawn.config.spread[0], marks.add if marks else None)
    return {
        "index": list(batch.indices),
        "label": [-1 if label is None else label for label in batch.labels],
        "predicted": drawn.logits.argmax(dim=1).tolist(),
        "target": drawn.target.tolist(),
        "image": list(batch.images.cpu().numpy()),
        "map": list(mean.view(-1, *drawn.map_shape).float().cpu().numpy()),
        "standard_error": list(error.view(-1, *drawn.map_shape).float().cpu().numpy()),
        "C_hat": [one.estimate for one in seen],
        "C_lower": [one.lower for one in seen],
        "M": [one.M for one in seen],
        **(_sides(drawn, marks, pixels.pixel_level) if marks else {}),
    }


def _marks(drawn: Drawing, pixels: Pixels) -> Marks | None:
    """What counts them, where they are asked for; too few draws to certify any pixel are refused before they are drawn."""
    if pixels.certify_pixels is None:
        return None
    if drawn.batch.images.ndim < 3:
        shape = tuple(drawn.batch.images.shape[1:])
        raise UsageError(f"--certify-pixels is for inputs with channels and places, got inputs of shape {shape}")
    marks = Marks(len(drawn.batch.indices), prod(drawn.map_shape[1:]), pixels.certify_pixels)
    draws, size = drawn.config.smoothing.looks[-1], marks.counts.shape[1]
    if draws < (least := least_draws(size, q=drawn.failure, level=pixels.pixel_level)):
        raise UsageError(
            f"{draws} draws can certify none of {size} pixels at level {pixels.pixel_level:g} and failure {drawn.failure:g}",
            hint=f"--samples must be at least {least}, and several times that to certify many",
        )
    return marks


def _sides(drawn: Drawing, marks: Marks, level: float) -> dict[str, list[Any]]:
    """Of the pixels of each map, in its shape."""
    (sigma,), shape = drawn.config.spread, drawn.map_shape[1:]
    maps = [
        certified_pixels(counts, marks.draws, sigma=sigma, q=drawn.failure, level=level)
        for counts in marks.counts.numpy()
    ]
    return {
        "pixel_side": [one.side.reshape(shape).astype(np.int8) for one in maps],
        "pixel_radius": [one.radius.reshape(shape) for one in maps],
    }
