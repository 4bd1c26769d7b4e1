"""Smoothed attributions as files: one .npz, and pictures of each map beside its input."""

import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from attrcert.errors import UsageError
from attrcert.pictures import coloured, grey_or_colour, picture
from attrcert.running.evaluating.drawing import Drawing
from attrcert.running.evaluating.samples import Failed
from attrcert.running.evaluating.smoothing import Certificates
from attrcert.running.opening.runs import Run
from attrcert.saved.files import check_target, make_folder, write_whole

SCALE = 8  # picture pixels per image pixel, for small images
LARGE = 128
PICTURE, BEGINNING = "attrcert smooth", 4096  # in every picture, within so many bytes: only those are replaced


def smoothed_maps(run: Run) -> tuple[dict[str, Any], list[Failed]]:
    """The maps of all usable samples, and the other samples."""
    parts: list[dict[str, list[Any]]] = []
    failed: list[Failed] = []
    assert isinstance(run.work, Certificates)
    with run.classifier.prepared():
        for indices in run.open_batches((), run.batch_size):
            batch, logits, others = run.usable(indices)
            failed += others
            parts += [_maps(run.work.drawing(run.classifier, batch, logits))] if batch else []
    return {name: np.array([one for part in parts for one in part[name]]) for name in NAMES}, failed


def write_maps(maps: dict[str, Any], path: Path) -> None:
    """One file of all maps."""
    write_whole(path, lambda part: _save(maps, part))


def _save(maps: dict[str, Any], part: Path) -> None:
    with part.open("wb") as stream:
        np.savez_compressed(stream, **maps)


def holds_maps(path: Path) -> bool:
    """Whether a file is one that `write_maps` wrote."""
    try:
        with zipfile.ZipFile(path) as whole:
            return sorted(whole.namelist()) == sorted(f"{name}.npy" for name in NAMES)
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


NAMES = ("index", "label", "predicted", "target", "image", "map", "standard_error", "C_hat", "C_lower", "M")


def _maps(drawn: Drawing) -> dict[str, list[Any]]:
    batch = drawn.batch
    mean, error, seen = drawn.smoothed(drawn.config.spread[0])
    return {
        "index": list(batch.indices),
        "label": [-1 if label is None else label for label in batch.labels],
        "predicted": drawn.logits.argmax(dim=1).tolist(),
        "target": drawn.target.tolist(),
        "image": list(batch.images.cpu().numpy()),
        "map": list(mean.view_as(batch.images).float().cpu().numpy()),
        "standard_error": list(error.view_as(batch.images).float().cpu().numpy()),
        "C_hat": [one.estimate for one in seen],
        "C_lower": [one.lower for one in seen],
        "M": [one.M for one in seen],
    }


def write_pictures(maps: dict[str, Any], folder: Path) -> None:
    """A picture per sample: the input, and beside it the map, red for what speaks for the class and blue for what speaks against it."""
    make_folder(folder)
    for index, image, heat in zip(maps["index"], maps["image"], maps["map"], strict=True):
        both = np.concatenate([grey_or_colour(image), coloured(heat.sum(axis=0))], axis=1)
        drawn = picture(both)
        if max(image.shape[1:]) < LARGE:
            drawn = drawn.resize((drawn.width * SCALE, drawn.height * SCALE), Image.Resampling.NEAREST)
        write_whole(folder / f"{index}.png", partial(drawn.save, format="PNG", pnginfo=_marked()))


def check_pictures(folder: Path, indices: Iterable[int]) -> None:
    """Pictures replace pictures of ours, and nothing else."""
    for index in indices:
        path = folder / f"{index}.png"
        check_target(path)
        if path.exists() and PICTURE.encode() not in path.read_bytes()[:BEGINNING]:
            raise UsageError(f"{path} exists and is not a picture that attrcert drew", hint="choose another --png")


def _marked() -> PngInfo:
    info = PngInfo()
    info.add_text("Software", PICTURE)
    return info
