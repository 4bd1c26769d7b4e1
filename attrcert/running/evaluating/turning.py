"""`attack --smooth`: how far a search turns the smoothed attributions, beside what is certified of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.attacks.turning import directed, turn
from attrcert.attributions.bounded import Bounding, bounded, make_bounding, pulled_back
from attrcert.bounds.smoothed.jacobian import TurningJacobian
from attrcert.columns import TURN, Cell
from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.metrics import METRICS
from attrcert.metrics.metric import cells_of
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.derivatives import curvature
from attrcert.running.checks.findings import Level
from attrcert.running.checks.own_maps import differentiable
from attrcert.running.evaluating.drawing import Drawing, Group
from attrcert.running.evaluating.methods import differentiated_part, explainer
from attrcert.running.evaluating.samples import picked
from attrcert.running.evaluating.smoothing import Certificates
from attrcert.running.evaluating.work import Deltas, Rows, Scene
from attrcert.saved.arrays import delta_key, input_key, map_key, moved_map_key
from attrcert.settings.certifying import CertifiedAttackConfig, Certifying
from attrcert.settings.smoothing import CHUNK
from attrcert.statistics.paired_cosine import CosineEstimate, PairedMeans
from attrcert.types import Batch
from attrcert.vocabulary import SOFTPLUS_BETA

FEW = 8  # fresh draws in a step of the ascent
RACED = 10  # a random start climbs one in so many steps before it is compared
CHOOSING = 10  # chunks of draws that the candidates are compared on
MEASURING = 40  # chunks of fresh draws that the best is measured on, at least; as many as the certificate took, if those are more
BLOCKS = 20  # of the jackknife
ERRORS = 2.0  # standard errors that are taken off what was reached
LOOSE = TopSingularValue(slack=0.1, settled=0.01, max_steps=40)  # a start needs no more


@dataclass(frozen=True)
class Turns(Certificates):
    """Rows of certificates with what the attack reached; `twin` leads the ascent where the network has one."""

    twin: Classifier | None = None

    @classmethod
    def ready(cls, config: Certifying, scene: Scene) -> "Turns":
        made, twin = super().ready(config, scene), replace(scene.f, beta=SOFTPLUS_BETA)
        assert isinstance(made, Turns)
        own = differentiated_part(config)
        seen = differentiable(own, twin, scene.x[:4]) if own else curvature(twin, scene.x)
        return replace(made, twin=twin) if seen.level is Level.OK else made

    def rows(self, f: Classifier, batch: Batch, logits: Tensor, save: Deltas | None) -> Rows:
        drawn, rows = self.drawing(f, batch, logits), Rows()
        for group in drawn.finished():
            search = Search.among(drawn, group, self.twin)
            found = {eps: search(eps) for eps in self.config.perturbation.eps}
            for j, (i, seen) in enumerate(zip(group.places, group.seen, strict=True)):
                certified = [
                    {**case, **cells} for case, cells in zip(self.config.cases, self.cells(drawn, seen), strict=True)
                ]
                reached = [one.cells(j, cells) for one, cells in zip(found.values(), certified, strict=True)]
                rows[batch.indices[i]] = [
                    {**drawn.common(i), **cells, **more} for cells, more in zip(certified, reached, strict=True)
                ]
            if save:
                for eps, one in found.items():
                    save(one.kept(eps, search.drawn))
        return rows


@dataclass(frozen=True)
class Turned:
    """The perturbation found for each sample, what found it, how far it turns the map by fresh draws, and the two maps."""

    delta: Float[Tensor, "b n"]
    source: list[str]
    estimate: CosineEstimate
    sampled: list[float]
    maps: tuple[Tensor, Tensor]
    draws: int
    relabelled: Bool[Tensor, " b"]
    k: int

    @cached_property
    def _angles(self) -> list[float]:
        return self.estimate.turned(ERRORS)

    @cached_property
    def _in_both(self) -> list[Cell]:
        """Of the k largest entries."""
        still, moved = self.maps
        return cells_of(METRICS.make("top-k", k=self.k)(moved, still, tuple(still.shape[1:])), len(still))

    def cells(self, j: int, certified: dict[str, Cell]) -> dict[str, Cell]:
        reached, limit = self._angles[j], certified["angle_deg"]
        cosine, error = float(self.estimate.cosine[j]), float(self.estimate.error[j])
        return {
            "T_hat_c_deg": reached,
            "cosine_hat": cosine if isfinite(cosine) else None,
            "cosine_error": error if isfinite(error) else None,
            "top_k": self._in_both[j],
            "T_sampled_c_deg": self.sampled[j],
            "tightness": reached / float(limit) if limit else None,
            "violated_certified": None if limit is None else reached > float(limit),
            "found_by": self.source[j],
            "label_changed": bool(self.relabelled[j]),
            "delta_norm": float(self.delta[j].double().norm()),
            "fresh_samples": self.draws,
        }

    def kept(self, eps: float, drawn: Drawing) -> dict[str, Tensor]:
        """The perturbations by name, and what a picture of them needs."""
        kept: dict[str, Tensor] = {}
        old, new = (maps.to(self.delta).view(-1, *drawn.map_shape) for maps in self.maps)
        for j, (index, image) in enumerate(zip(drawn.batch.indices, drawn.batch.images, strict=True)):
            case = (index, eps, TURN)
            kept |= {delta_key(*case): self.delta[j].view_as(image), moved_map_key(*case): new[j]}
            kept |= {input_key(index): image, map_key(index): old[j]}
        return {name: tensor.cpu() for name, tensor in kept.items()}


@dataclass(frozen=True)
class Search:
    """For perturbations of samples that have their certificate; `h` are their smoothed attributions as estimated there."""

    drawn: Drawing
    twin: Classifier | None
    bounding: Bounding
    M: Float[Tensor, " b"]
    h: Float[Tensor, "b m"]
    leading: Float[Tensor, "b n"] | None
    draws: int

    @staticmethod
    def among(drawn: Drawing, group: Group, twin: Classifier | None) -> "Search":
        (estimate,), rows = group.estimates.values(), torch.tensor(group.rows, device=drawn.logits.device)
        own = replace(drawn, batch=picked(drawn.batch, group.places), logits=drawn.logits[group.places])
        bounding, h = make_bounding(drawn.config.smoothing.bounded), estimate.mean[rows].to(drawn.batch.images.dtype)
        return Search(own, twin, bounding, estimate.M[rows], h, _leading(own, group), estimate.count)

    @property
    def config(self) -> CertifiedAttackConfig:
        assert isinstance(self.drawn.config, CertifiedAttackConfig)
        return self.drawn.config

    @property
    def spread(self) -> float:
        return self.config.spread[0]

    def __call__(self, eps: float) -> Turned:
        sources, candidates = self._candidates(eps)
        delta, best, compared = self._best(candidates, "turn-choice")
        chunks = max(MEASURING, -(-self.draws // CHUNK))
        (found,) = self._measured(delta[None], chunks, "turn-measure")
        with torch.no_grad():
            labels = self.drawn.f(self._moved(delta)).argmax(dim=1)
        return Turned(
            delta,
            [sources[place] for place in best.tolist()],
            found.estimate(),
            compared[sources.index("random")].estimate().turned(0.0),
            found.means,
            chunks * CHUNK,
            labels != self.drawn.logits.argmax(dim=1),
            self.config.largest.of(self.h.shape[1]),
        )

    def _candidates(self, eps: float) -> tuple[list[str], Float[Tensor, "candidates b n"]]:
        """Both signs of the leading direction, where the ascent gets from there and from a random start, and a random one; all inside the
        ball.
        """
        ball, flat = Ball.whole(self._x, self.config.perturbation.delta_norm, eps), self._x.flatten(1)
        streams = Draws(self.config.arithmetic.seed, self.drawn.batch.indices)
        random = eps * directed(streams.normal("turn-random", flat.shape[1], like=flat))
        first = random if self.leading is None else eps * self.leading
        sources, found = ["random"], [random]
        if self.leading is not None:
            sources, found = [*sources, "jacobian", "jacobian"], [*found, first, -first]
        if self.twin is not None and self.config.turning.steps:
            starts = [first, -first, *self._raced(eps, ball)]
            ends = self._climbed(torch.cat(starts), eps, self.config.turning.steps)
            sources, found = [*sources, *["ascent"] * len(starts)], [*found, *ends.chunk(len(starts))]
        return sources, torch.stack([ball.project(delta) for delta in found])

    def _climbed(self, starts: Float[Tensor, "rows n"], eps: float, steps: int) -> Float[Tensor, "rows n"]:
        return turn(self._look, self.h.repeat(len(starts) // len(self._x), 1), starts, eps=eps, steps=steps)

    def _raced(self, eps: float, ball: Ball) -> list[Float[Tensor, "b n"]]:
        """Where the best of the random starts is after a part of the steps; the others climb no further."""
        config = self.config.turning
        if not config.restarts:
            return []
        streams, flat = Draws(self.config.arithmetic.seed, self.drawn.batch.indices), self._x.flatten(1)
        random = streams.normal("turn-start", config.restarts, flat.shape[1], like=flat)
        starts = [eps * directed(one) for one in random.unbind(dim=1)]
        ends = self._climbed(torch.cat(starts), eps, max(1, config.steps // RACED))
        return [self._best(torch.stack([ball.project(end) for end in ends.chunk(len(starts))]), "turn-race")[0]]

    def _best(
        self, candidates: Float[Tensor, "c b n"], purpose: str
    ) -> tuple[Float[Tensor, "b n"], Int64[Tensor, " b"], list[PairedMeans]]:
        """The candidate that turns each sample's map farthest, which one it is, and what was measured of all."""
        compared = self._measured(candidates, CHOOSING, purpose)
        cosines = torch.stack([one.estimate().cosine for one in compared])
        best = cosines.nan_to_num(nan=torch.inf).argmin(dim=0)
        return candidates[best, torch.arange(len(best), device=best.device)], best, compared

    def _look(
        self, t: int, delta: Float[Tensor, "rows n"], u: Float[Tensor, "rows m"]
    ) -> tuple[Float[Tensor, "rows m"], Float[Tensor, "rows n"]]:
        """Of the twin; a ReLU network's own gradient has no derivative to follow."""
        assert self.twin is not None
        signs, unit = len(delta) // len(self._x), self.drawn.unit(FEW, t, "turn-ascent")
        still = self._bounded(replace(self.drawn, f=self.twin), unit).mean(dim=1).repeat(signs, 1)
        x, y = self._x.flatten(1).repeat(signs, 1) + delta, self.drawn.target.repeat(signs)
        points = (x[:, None] + self.spread * unit).view(-1, *self._x.shape[1:])
        owners = torch.arange(len(delta), device=delta.device).repeat_interleave(FEW)
        parts = [
            self._pulled(z, y[rows], self.M.repeat(signs)[rows], u[rows])
            for z, rows in zip(points.split(self.drawn.points), owners.split(self.drawn.points), strict=True)
        ]
        moved, slope = (torch.cat(part).view(len(delta), FEW, -1).mean(dim=1) for part in zip(*parts, strict=True))
        return moved - still, slope

    def _pulled(
        self, z: Float[Tensor, "p *shape"], y: Int64[Tensor, " p"], M: Float[Tensor, " p"], u: Float[Tensor, "p m"]
    ) -> tuple[Float[Tensor, "p m"], Float[Tensor, "p n"]]:
        """The bounded attributions at some points, and J^T u of each."""
        assert self.twin is not None
        explained = explainer(self.config, self.twin.mean, self.drawn.layout).explain(self.twin, z, y)
        g = explained.value[:, None]
        back = pulled_back(u[:, None], g, self.bounding, M)[:, 0].to(z.dtype)
        slope = explained.jacobian.rmatvec(back).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        return bounded(g, self.bounding, M)[:, 0].to(z.dtype), slope

    def _measured(self, deltas: Float[Tensor, "c b n"], chunks: int, purpose: str) -> list[PairedMeans]:
        """The maps at x and at each x + delta, by the same draws."""
        found = [PairedMeans(min(BLOCKS, chunks), like=self.h) for _ in deltas]
        moved = [replace(self.drawn, batch=replace(self.drawn.batch, images=self._moved(delta))) for delta in deltas]
        for unit in self._units(chunks, purpose):
            still = self._bounded(self.drawn, unit).double()
            for one, there in zip(found, moved, strict=True):
                one.add(still, self._bounded(there, unit).double())
        return found

    def _units(self, chunks: int, purpose: str) -> Iterator[Float[Tensor, "m n"]]:
        return (self.drawn.unit(CHUNK, number, purpose) for number in range(chunks))

    def _bounded(self, drawn: Drawing, unit: Float[Tensor, "m n"]) -> Float[Tensor, "b m k"]:
        everyone = torch.arange(len(self._x), device=self._x.device)
        return bounded(drawn.maps(everyone, self.spread * unit), self.bounding, self.M)

    @property
    def _x(self) -> Float[Tensor, "b *shape"]:
        return self.drawn.batch.images

    def _moved(self, delta: Float[Tensor, "b n"]) -> Float[Tensor, "b *shape"]:
        return self._x + delta.view_as(self._x)


def _leading(drawn: Drawing, group: Group) -> Float[Tensor, "b n"] | None:
    """The direction in which the smoothed map turns fastest, by the certificate's own draws where they were kept."""
    ((spread, estimate),) = group.estimates.items()
    kept = None if estimate.scatter is None else estimate.scatter.kept
    if kept is None or not kept.shape[1]:
        return None
    units = [drawn.unit(CHUNK, number) for number in range(-(-estimate.count // CHUNK))]
    noise = torch.cat(units)[estimate.piloted : estimate.count].to(kept)
    J = TurningJacobian(kept, noise, directed(estimate.mean).to(kept), spread)
    if len(group.rows) < len(kept):
        J = J.select(torch.tensor(group.rows, device=kept.device))
    draws = Draws(drawn.config.arithmetic.seed, drawn.batch.indices)
    return LOOSE(J, draws, purpose="turn").vector.to(drawn.batch.images.dtype)
