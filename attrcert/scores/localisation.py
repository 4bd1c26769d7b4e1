"""Does the map point at the object? Boxes around what the map marks against true boxes [singh2020attributional].

The map h is brought to the range 0 to 1. Its box is that around the largest connected part of the pixels above `--loc-threshold`, .2 in
the paper, and `loc_iou` its largest IoU with a true box. GT-known localisation is the share of samples where that is .5 or more; for Top-1
localisation the class must be right too. MaxBoxAcc is the share at the threshold that is best for all samples together, of 0, .001, ...,
.999. For MaxBoxAccV2 the box of any part may hit; it is the mean of the shares at IoU .3, .5 and .7, each at its own best threshold.

The plain map is |g|, summed over channels. That of singh2020attributional (`--loc-map art`) is the gradient of the predicted class's
cross-entropy: its absolute value, as a mean over channels, less its mean and divided by its standard deviation, clipped to its percentiles
2 and 98, averaged over 3 x 3 pixels, and smoothed by a Gaussian of sigma 3.

Departures: in the paper's code boxes that do not meet can have an IoU; here it is 0. Published code of MaxBoxAcc reads maps of 256 levels,
measures parts by the area inside their contours and counts a box's last row and column in; here a part is as large as it has pixels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from scipy.ndimage import gaussian_filter, uniform_filter
from torch import Tensor

from attrcert.attributions.loss_gradient import LossGradient
from attrcert.columns import Cell
from attrcert.columns.score import HITS, STEPS
from attrcert.errors import SampleError, UsageError
from attrcert.geometry.boxes import agreement, iou, largest, unit
from attrcert.networks.classifier import Classifier
from attrcert.scores.insertion import spread
from attrcert.scores.sight import Cells, Score, Sight, mass
from attrcert.types import Inputs
from attrcert.vocabulary import Status, indices_text

HIT = 0.5  # IoU from which on a box is right
CLIPPED, MEAN, SIGMA = (2.0, 98.0), 3, 3.0  # of the paper's map
TrueBoxes = Callable[[int], Float64[ndarray, "n 4"]]  # of a sample, in the pixels of the input; or a SampleError


@dataclass(frozen=True)
class Localisation(Score):
    """Whether the box around what the map marks is the object's: GT-known and Top-1 localisation, MaxBoxAcc and its second version."""

    boxes: TrueBoxes
    loc_threshold: float = 0.2
    loc_map: str = "plain"

    def check(self, f: Classifier, x: Inputs, maps: tuple[int, ...]) -> None:
        if x.ndim != 4 or len(maps) != 3:
            shapes = f"inputs of shape {tuple(x.shape[1:])} and maps of shape {maps}"
            raise UsageError(f"localisation needs images and maps with height and width, got {shapes}")

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        heats = np.stack([unit(one) for one in self._heats(seen).numpy()])
        samples = zip(heats, seen.batch.indices, seen.batch.labels, seen.predicted.tolist(), strict=True)
        rows = [self._of(h, index, None if label is None else label == top) for h, index, label, top in samples]
        names = dict.fromkeys(name for row in rows for name in row)
        return [{name: [row.get(name) for row in rows] for name in names}]

    def _heats(self, seen: Sight) -> Float64[Tensor, "b h w"]:
        """The maps as large as the images."""
        if self.loc_map == "plain":
            return spread(mass(seen.g, seen.shape), seen.x).cpu()
        g = LossGradient().value(seen.f, seen.x, seen.predicted, seen.draws)
        heats = mass(g, tuple(seen.x.shape[1:])).cpu()
        return torch.stack([torch.from_numpy(processed(one)) for one in heats.numpy()])

    def _of(self, h: Float64[ndarray, "h w"], index: int, right: bool | None) -> dict[str, Cell]:
        try:
            truths = self.boxes(index)
        except SampleError as error:
            return {"status": f"error:{error.kind}", "message": error.message}
        found, message = largest(h, self.loc_threshold), None
        if not len(truths):
            message = "nothing of its box is left in the crop"
        elif not len(found):
            message = "the map is the same everywhere, so it has no box"
        overlap = float(iou(found, truths).max()) if message is None else 0.0
        hit = overlap >= HIT
        return {
            "status": Status.OK.value,
            "loc_iou": overlap,
            "gt_known_loc": hit,
            "top1_loc": None if right is None else hit and right,
            "loc_box": ", ".join(f"{corner:g}" for corner in found[0]) if len(found) else None,
            "box_hits": hits(h, truths),
            "message": message,
        }


def processed(h: Float64[ndarray, "h w"]) -> Float64[ndarray, "h w"]:
    """As singh2020attributional has it."""
    z = (h - h.mean()) / (h.std() or 1.0)
    smoothed: Float64[ndarray, "h w"] = gaussian_filter(uniform_filter(z.clip(*np.percentile(z, CLIPPED)), MEAN), SIGMA)
    return smoothed


def hits(h: Float64[ndarray, "h w"], truths: Float64[ndarray, "n 4"]) -> str:
    """The thresholds at which the box of the largest part, and of any part, is a hit, at each of the figures' IoU."""
    least = min(level for _, level in HITS.values())
    found = dict(zip(("largest", "any"), agreement(h, truths, STEPS, least), strict=True)) if len(truths) else {}
    told = {name: np.flatnonzero(found[which] >= level) if found else () for name, (which, level) in HITS.items()}
    return "; ".join(f"{name}: {indices_text(map(int, places))}".rstrip() for name, places in told.items())
