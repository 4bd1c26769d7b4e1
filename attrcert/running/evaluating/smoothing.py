"""`bound --smooth`, `max-eps --smooth` and `min-radius`: what the draws of each sample certify."""

from dataclasses import dataclass
from math import inf

from torch import Tensor

from attrcert.bounds.smoothed import RULES
from attrcert.bounds.smoothed.averaged import Averaged
from attrcert.bounds.smoothed.noise_overlap import UniformBall
from attrcert.bounds.smoothed.scatter import SKETCH
from attrcert.columns import Cell
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.drawing import Drawing, meets
from attrcert.running.evaluating.evidence import Seen
from attrcert.running.evaluating.work import Deltas, Rows, Scene, Work
from attrcert.settings.certifying import Certifying
from attrcert.settings.smoothing import CHUNK
from attrcert.types import Batch
from attrcert.vocabulary import COSINE, Status

MOST_NOISY = 16  # samples whose noise is drawn together: the sums of more leave the cache
FOR_ROWS = 2  # the part of the memory, one in so many, for draws that are kept
TO_TRY = "no radius of the grid passed: try larger ones, more samples, a smaller eps or a lower cosine"


@dataclass(frozen=True)
class Certificates(Work[Certifying]):
    """The cosine kept within each eps at each radius; `points` are differentiated at once, `samples` are those of the whole run."""

    points: int
    samples: int
    rows_kept: int

    @classmethod
    def ready(cls, config: Certifying, scene: Scene) -> "Certificates":
        most, entries = config.smoothing.looks[-1], scene.x[0].numel() * len(config.spread)
        fitting = most if 4 * most * entries <= scene.memory // FOR_ROWS else min(most, SKETCH)
        return cls(config, scene.layout, scene.points, len(scene.data.selected), fitting)

    def batch_size(self, scene: Scene) -> int:
        """Samples whose chunks of noise, noisy images and attributions fit, summed in double precision, and the draws that are kept."""
        n, kept = (
            scene.x[0].numel(),
            self.rows_kept * len(self.config.spread) if self.config.smoothing.covariance else 0,
        )
        fitting = min(scene.memory // (8 * CHUNK * n * 8), scene.memory // (FOR_ROWS * 4 * max(1, kept) * n))
        return max(1, min(fitting, MOST_NOISY))

    def drawing(self, f: Classifier, batch: Batch, logits: Tensor) -> Drawing:
        return Drawing(f, batch, logits, self.config, self.layout, self.points, self.samples, self.rows_kept)

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        drawn = self.drawing(f, batch, logits)
        rows: Rows = {}
        for i, seen in drawn.samples():
            common, found = drawn.common(i), zip(self.config.cases, self.cells(drawn, seen), strict=True)
            rows[batch.indices[i]] = [{**common, **case, **cells} for case, cells in found]
        return rows

    def cells(self, drawn: Drawing, seen: dict[float, Seen]) -> list[dict[str, Cell]]:
        """One set per case, beside what tells the case."""
        return [self._at(drawn, seen[r], r, eps) for r in self.config.spread for eps in self.config.perturbation.eps]

    def _at(self, drawn: Drawing, seen: Seen, spread: float, eps: float) -> dict[str, Cell]:
        """The cosine kept at eps; with a threshold, whether it was met."""
        cosine = drawn.cosine(seen, spread, eps)
        cells = {
            **drawn.told(seen, spread, eps),
            **drawn.kept(seen, cosine, spread, eps),
            **drawn.instead(seen, spread, lambda known: drawn.rule.kept(known, eps) or 0.0),
        }
        if self.config.smoothing.min_cosine:
            T = max(self.config.smoothing.min_cosine)
            cells |= {"threshold_kind": COSINE, "threshold": T}
            if cosine is None or cosine < T:
                cells["status"] = Status.ABSTAINED.value
        elif cosine is None:
            cells["status"] = Status.VACUOUS.value
        return cells


class LargestEps(Certificates):
    """The largest eps within which a cosine is kept, at each radius or at the best."""

    def cells(self, drawn: Drawing, seen: dict[float, Seen]) -> list[dict[str, Cell]]:
        cosines = self.config.smoothing.min_cosine
        if self.config.best:
            return [self._best(drawn, seen, T) for T in cosines]
        return [self._largest(drawn, seen[r], r, T) for r in self.config.spread for T in cosines]

    def _largest(self, drawn: Drawing, seen: Seen, spread: float, T: float) -> dict[str, Cell]:
        """The largest eps at which the cosine stays at T or above."""
        eps = drawn.reach(seen, spread, T)
        cells = {
            **drawn.told(seen, spread, eps),
            **drawn.consequences(seen, spread, eps),
            **drawn.instead(seen, spread, lambda known: drawn.rule.reach(known, T)),
            "eps_max": eps if eps < inf else None,
        }
        return cells if eps > 0 else {**cells, "status": Status.ABSTAINED.value}

    def _best(self, drawn: Drawing, seen: dict[float, Seen], T: float) -> dict[str, Cell]:
        """The same at the radius of the grid where it is the largest."""
        tried = {r: self._largest(drawn, seen[r], r, T) for r in self.config.spread}
        texts = "; ".join(f"{r:g}: {_reach(cells):.6g}" for r, cells in tried.items())
        best = max(tried.values(), key=_reach)
        return {**best, "radii_tried": texts}


class SmallestRadius(Certificates):
    """The smallest radius at which a cosine is kept within eps."""

    def cells(self, drawn: Drawing, seen: dict[float, Seen]) -> list[dict[str, Cell]]:
        cosines = self.config.smoothing.min_cosine
        return [self._smallest(drawn, seen, eps, T) for eps in self.config.perturbation.eps for T in cosines]

    def _smallest(self, drawn: Drawing, seen: dict[float, Seen], eps: float, T: float) -> dict[str, Cell]:
        """The smallest radius of the grid at which the threshold was certified; where none was, the best cosine that was."""
        cosines = {r: drawn.cosine(one, r, eps) for r, one in sorted(seen.items())}
        if not self.config.choosing:  # descend
            cosines = _to_the_first_failure(cosines, T)
        passing = [r for r, cosine in cosines.items() if meets(cosine, T)]
        tried = "; ".join(f"{r:g}: {'none' if c is None else f'{c:.6g}'}" for r, c in cosines.items())
        cells: dict[str, Cell] = {"radii_tried": tried}
        known = {r: cosine for r, cosine in cosines.items() if cosine is not None}
        if not passing:
            best = max(known, key=lambda r: known[r]) if known else max(cosines)
            reached = {**drawn.told(seen[best], best, eps), "cosine": cosines[best]}
            return {**cells, **reached, "status": Status.INFEASIBLE.value, "message": TO_TRY}
        r = min(passing)
        return {**cells, "radius_min": r, **drawn.told(seen[r], r, eps), **drawn.kept(seen[r], known[r], r, eps)}


def _reach(cells: dict[str, Cell]) -> float:
    """The largest eps; an empty cell stands for every eps."""
    eps = cells["eps_max"]
    return inf if eps is None else float(eps)


def _to_the_first_failure(cosines: dict[float, float | None], T: float) -> dict[float, float | None]:
    """The radii from the first that fails, coming from the largest, upwards: no other was tested at the stated failure."""
    failing = [r for r, cosine in cosines.items() if not meets(cosine, T)]
    return {r: cosine for r, cosine in cosines.items() if not failing or r >= max(failing)}


def published_radii(config: Certifying, d: int, ratio: float) -> list[tuple[float, float, float]]:
    """(eps, T, R) of the published closed form at a given |h|/M: R = eps / (2 sqrt(I^-1_tau(1/2, (d+1)/2))).

    Not an answer: |h| depends on the radius. For comparison.
    """
    known = Averaged(ratio, 1.0, inf, UniformBall(1.0), d)
    reach = {T: RULES.make("published").reach(known, T) for T in config.smoothing.min_cosine}
    return [
        (eps, T, eps / reach[T] if reach[T] else inf)
        for eps in config.perturbation.eps
        for T in config.smoothing.min_cosine
    ]
