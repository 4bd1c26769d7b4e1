"""`bound --smooth centre`: what centre smoothing certifies of each sample."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, degrees

import torch
from jaxtyping import Float64
from torch import Tensor

from attrcert.bounds.smoothed.centre import LEAST_CANDIDATES, Shares, angles, chosen, largest_angle
from attrcert.columns import Cell
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.drawing import Drawing, meets
from attrcert.running.evaluating.smoothing import MOST_NOISY
from attrcert.running.evaluating.work import Deltas, Rows, Scene, Work
from attrcert.settings.certifying import CertifyConfig
from attrcert.settings.smoothing import CHUNK
from attrcert.types import Batch
from attrcert.vocabulary import CENTRE, COSINE, Guarantee, Status

BELOW = 1e-12  # of a cosine, towards the weaker claim


@dataclass(frozen=True)
class Centres(Work[CertifyConfig]):
    """The cosine that centres keep within each eps at each sigma; `points` are differentiated at once, `samples` are of the whole run."""

    points: int
    samples: int

    @classmethod
    def ready(cls, config: CertifyConfig, scene: Scene) -> "Centres":
        return cls(config, scene.layout, scene.points, len(scene.data.selected))

    def batch_size(self, scene: Scene) -> int:
        """Samples whose candidates and chunks of maps fit, in double precision."""
        held = LEAST_CANDIDATES + 4 * CHUNK
        return max(1, min(scene.memory // (8 * held * scene.entries), MOST_NOISY))

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        drawn = Drawing(f, batch, logits, self.config, self.layout, self.points, self.samples, rows=0)
        shares = Shares.of(self.config.smoothing.looks[-1], drawn.failure)
        found = {spread: _distances(drawn, shares, spread) for spread in self.config.spread}
        rows: Rows = {}
        for i, index in enumerate(batch.indices):
            cells = [
                self._at(drawn, found[spread][i], shares, spread, eps)
                for spread in self.config.spread
                for eps in self.config.perturbation.eps
            ]
            told = {**drawn.common(i), "noise": CENTRE, "rule": None, "confidence": "binomial"}
            rows[index] = [{**told, **case, **own} for case, own in zip(self.config.cases, cells, strict=True)]
        return rows

    def _at(
        self, drawn: Drawing, distances: Float64[Tensor, " m"], shares: Shares, spread: float, eps: float
    ) -> dict[str, Cell]:
        """The cosine kept at eps, below 0 where it is vacuous; with a threshold, whether it was met."""
        angle = largest_angle(distances, shares, eps / spread)
        cosine = None if angle is None else max(-1.0, cos(angle) - BELOW)
        cells: dict[str, Cell] = {
            "guarantee": Guarantee.CONFIDENCE.value,
            "samples": self.config.smoothing.looks[-1],
            "M": 1.0,
            "tau": drawn.noise(spread).tau(eps, drawn.d),
            "cosine": cosine,
            "angle_deg": None if angle is None else degrees(angle) * (1 + BELOW),
        }
        if self.config.smoothing.min_cosine:
            T = max(self.config.smoothing.min_cosine)
            cells |= {"threshold_kind": COSINE, "threshold": T}
            return cells if meets(cosine, T) else {**cells, "status": Status.ABSTAINED.value}
        vacuous = cosine is None or cosine <= 0
        return {**cells, "status": Status.VACUOUS.value} if vacuous else cells


def _distances(drawn: Drawing, shares: Shares, spread: float) -> Float64[Tensor, "b m"]:
    """Of fresh draws to each sample's centre."""
    everyone = torch.arange(len(drawn.batch.indices), device=drawn.logits.device)

    def maps(purpose: str, draws: int) -> Iterator[Tensor]:
        for number, start in enumerate(range(0, draws, CHUNK)):
            yield drawn.maps(everyone, spread * drawn.unit(min(CHUNK, draws - start), number, purpose))

    candidates = torch.cat(list(maps("centre", shares.candidates)), dim=1)
    choosing = [angles(g, candidates) for g in maps("centre-choice", shares.choosing)]
    centre = candidates[everyone, chosen(torch.cat(choosing, dim=2))][:, None]
    return torch.cat([angles(g, centre)[:, 0] for g in maps("centre-distance", shares.measuring)], dim=1)
