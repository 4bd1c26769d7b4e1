"""Do the pixels that a map calls important make the prediction? Insertion and deletion [petsiuk2018rise] [joo2023towards].

Pixels are ranked by h, |g| summed over channels. The curve is p_y(x_s), the probability of the explained class: x_s has the first share s
of the pixels of x and `fill` elsewhere (insertion), or `fill` at those and x elsewhere (deletion). The figure is the area below it, by the
trapezoid rule, over the shares of pixels that were really exchanged.

Pixels with the same h are ranked at random, by the sample's own stream: a constant map scores as a random order does.

Departures: RISE exchanges 224 pixels a step, and here it is a share; its blur sees black beyond the border, and here weights sum to one
there. Published code of joo2023towards stops at a share of .95, fills by the mean colour (`--fill mean`), and puts in no pixel whose h
equals the threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from torch.nn.functional import interpolate

from attrcert.attributions.baselines import Baseline, Blurred, Constant
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.networks.classifier import Classifier
from attrcert.scores.sight import Cells, Score, Sight, mass
from attrcert.types import Flat, Inputs

BLACK = Constant((0.0,))


@dataclass(frozen=True)
class Exchange(Score):
    """Pixels of x in the place of `fill`, in `shares` steps from none to all."""

    fill: Baseline = BLACK
    shares: int = 20

    def check(self, f: Classifier, x: Inputs, maps: tuple[int, ...]) -> None:
        self.fill(x[:1])  # a blur is for images
        inputs, places = tuple(x.shape[1:]), len(maps[1:] or maps)  # a map of one dimension has no channels
        if places != len(inputs[1:] or inputs) or (len(inputs) == 1 and maps != inputs):
            raise UsageError(
                f"insertion and deletion of inputs of shape {inputs} need maps that rank their pixels, got maps of shape {maps}"
            )

    def along(self, seen: Sight, g: Flat, *, into: bool) -> "Exchanged":
        """The curve in the order of the maps g, putting pixels of x into `fill` or taking them out."""
        rank = ranks(spread(mass(g, seen.shape), seen.x), seen.draws).to(seen.x.device)
        n, b = rank[0].numel(), len(rank)
        counts = torch.tensor(sorted({round(i * n / self.shares) for i in range(self.shares + 1)}), device=rank.device)
        fill, found = self.fill(seen.x), []
        for points in torch.arange(b * len(counts), device=rank.device).split(seen.chunk):
            rows, first = points // len(counts), counts[points % len(counts)]
            exchanged = (rank[rows] < first.view(-1, *[1] * (rank.ndim - 1))) == into
            mask = exchanged if seen.x.ndim == 2 else exchanged[:, None]
            found.append(seen.probability(torch.where(mask, seen.x[rows], fill[rows]), rows))
        return Exchanged(counts.double().cpu() / n, torch.cat(found).double().cpu().view(b, -1))


@dataclass(frozen=True)
class Insertion(Exchange):
    """The area under the class's probability as pixels are put in, the most important first."""

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        return [self.along(seen, seen.g, into=True).cells("insertion")]


@dataclass(frozen=True)
class Deletion(Exchange):
    """The area under the class's probability as pixels are taken out, the most important first."""

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        return [self.along(seen, seen.g, into=False).cells("deletion")]


@dataclass(frozen=True)
class Exchanged:
    """The probability of each sample's class at each share of the pixels."""

    shares: Float64[Tensor, " points"]
    probability: Float64[Tensor, "b points"]

    @property
    def area(self) -> list[float]:
        """Below the curve, by the trapezoid rule."""
        return torch.trapezoid(self.probability, self.shares, dim=1).tolist()

    def cells(self, name: str) -> Cells:
        """The area, under this name, and the curve as text."""
        shares = self.shares.tolist()
        curves = [zip(shares, one, strict=True) for one in self.probability.tolist()]
        texts = ["; ".join(f"{share:.4g}: {p:.4g}" for share, p in curve) for curve in curves]
        return {name: self.area, "curve": texts}


def ranks(h: Float64[Tensor, "b *pixels"], draws: Draws) -> Int64[Tensor, "b *pixels"]:
    """The place of each pixel when the largest come first, and equal ones in random order."""
    flat = h.flatten(1)
    shuffled = draws.normal("ties", flat.shape[1], like=flat).argsort(dim=1)
    order = shuffled.gather(1, flat.gather(1, shuffled).argsort(dim=1, descending=True, stable=True))
    return order.argsort(dim=1).view(h.shape)


def spread(h: Float64[Tensor, "b *pixels"], x: Inputs) -> Float64[Tensor, "b *places"]:
    """Maps that are coarser than the inputs, as Grad-CAM's are, made as large, linearly."""
    size = tuple(x.shape[2:])
    if x.ndim == 2 or tuple(h.shape[1:]) == size:
        return h
    mode = {1: "linear", 2: "bilinear"}.get(len(size), "nearest")
    return interpolate(h[:, None], size, mode=mode)[:, 0]


def filling(word: str, mean: tuple[float, ...] | None) -> Baseline:
    """What stands where no pixel of x does: `zero`, `mean` (what the model's normalisation maps to 0), or `blur`, as RISE has it."""
    if word == "blur":
        return Blurred(5.0, taps=11)
    if word == "mean" and mean is None:
        raise UsageError(
            "--fill mean is the colour that the model's normalisation maps to 0, and this model has none",
            hint="give --mean, or --fill zero",
        )
    return Constant(mean if word == "mean" and mean else BLACK.values)
