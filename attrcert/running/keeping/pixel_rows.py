"""A row per sample that says how many of its pixels are certified."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from attrcert.bounds.smoothed.pixels import common_radius, number_marked
from attrcert.columns import Cell, Row
from attrcert.running.evaluating.samples import Failed, failed_rows, sample_cells
from attrcert.running.opening.runs import Run
from attrcert.settings.certifying import SmoothConfig
from attrcert.vocabulary import Guarantee, Side, Status


def pixel_rows(run: Run, maps: Mapping[str, Any], failed: Sequence[Failed]) -> list[Row]:
    """In the data's order, with those of samples that have no map."""
    config = run.config
    assert isinstance(config, SmoothConfig)
    assert config.pixels.certify_pixels is not None
    (sigma,), level = config.spread, config.pixels.pixel_level
    common: dict[str, Cell] = {
        "status": Status.OK.value,
        "guarantee": Guarantee.CONFIDENCE.value,
        "noise": config.smoothing.smooth,
        "radius": sigma,
        "samples": config.smoothing.looks[-1],
        "pixels_marked": number_marked(prod(run.shape[1:]), config.pixels.certify_pixels),
        "pixel_radius": common_radius(sigma, level),
        "failure": config.arithmetic.failure,
        "seed": config.arithmetic.seed,
    }
    rows = {one.index: {**failed_rows(one, config)[0], "seed": config.arithmetic.seed} for one in failed}
    told = zip(*(maps[name] for name in ("index", "label", "predicted", "target", "pixel_side")), strict=True)
    for index, label, predicted, target, side in told:
        sample = sample_cells(config, int(index), None if label < 0 else int(label), int(predicted), int(target))
        rows[int(index)] = {**sample, **common, **_counts(side, int(common["pixels_marked"] or 0))}
    return [{**rows[index], **run.named(rows[index])} for index in run.data.indices]


def _counts(side: Any, marked: int) -> dict[str, Cell]:
    top, outside, abstained = (int((side == one).sum()) for one in (Side.TOP, Side.NOT_TOP, Side.ABSTAINED))
    # fewer than marked / level can be on that side with probability above it, which may be more than are marked
    share = min(1.0, top / marked)
    return {"pixels_top": top, "pixels_not": outside, "pixels_abstained": abstained, "pixels_share": share}
