"""How much the map changes for what changes in the input, the logits and inside the network: relative stability [agarwal2022rethinking].

Over random x' of the ball, within the input range, that keep the prediction, the largest of |(g(x) - g(x')) / g(x)|_2, divided by

    RIS: max(|(x - x') / x|_2, e),  ROS: max(|f(x) - f(x')|_2, e), f the logits,  RRS: max(|(L(x) - L(x')) / L(x)|_2, e),

L the output of an inner layer: `--inner-layer`, or the last convolution that is called, or, where there is none, what comes before the last
linear layer. Quotients are taken entry by entry; an entry that is 0 divides as if it were e = 1e-6. So entries near 0 rule all three
figures, and so do black pixels of x, since x counts in pixel units: compare these figures of one data set and one kind of map alone.

Departures: as the paper has it, a draw that changes the prediction does not count; Quantus gives no figure of such a sample. Quantus takes
all layers together, one-sided noise of .02 to .2 and 200 draws, and divides by inputs after normalisation.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from attrcert.ascent.balls import Ball
from attrcert.errors import UsageError
from attrcert.metrics.metric import cells_of, measurable
from attrcert.networks.classifier import Classifier
from attrcert.networks.tracing import outputs_by_module
from attrcert.registry import unknown
from attrcert.scores.local_robustness import length
from attrcert.scores.sight import Cells, Score, Sight
from attrcert.types import Figures, Inputs

LEAST = 1e-6
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NAMES = ("ris", "ros", "rrs")


@dataclass(frozen=True)
class RelativeStability(Score):
    """The largest relative change of the map at random points, by that of the input, the logits and an inner layer: RIS, ROS, RRS."""

    random_draws: int = 10
    inner_layer: str | None = None

    def check(self, f: Classifier, x: Inputs, maps: tuple[int, ...]) -> None:
        if self.inner_layer is not None:
            _run(f, x[:1], self._layer(f, x))

    def __call__(self, seen: Sight) -> Sequence[Cells]:
        return [self._within(ball, seen) for ball in seen.balls]

    def _within(self, ball: Ball, seen: Sight) -> Cells:
        layer = self._layer(seen.f, seen.x)
        before = _run(seen.f, seen.x, layer)
        most = torch.full((len(NAMES), len(seen.x)), -torch.inf, dtype=torch.float64)
        for j in range(self.random_draws):
            delta = ball.random(seen.draws, f"stability-{j}")
            logits, inside = _run(seen.f, seen.x + delta.view_as(seen.x), layer)
            moved = _relative(measurable(seen.g), measurable(seen.maps(delta)))
            by = [
                _relative(measurable(seen.x.flatten(1)), measurable(seen.x.flatten(1) + delta)),
                length(logits - before[0]),
            ]
            by.append(torch.full_like(moved, torch.nan) if layer is None else _relative(before[1], inside))
            kept = logits.argmax(dim=1) == before[0].argmax(dim=1)
            ratios = moved / torch.stack(by).clamp_min(LEAST)
            most = torch.maximum(most, torch.where(kept, ratios, -torch.inf))
        return {name: cells_of(figures, len(seen.x)) for name, figures in zip(NAMES, most, strict=True)}

    def _layer(self, f: Classifier, x: Inputs) -> str | None:
        """Its name in the network."""
        modules = dict(f.network.named_modules())
        if self.inner_layer is not None:
            if self.inner_layer not in modules or not self.inner_layer:
                raise unknown("--inner-layer", self.inner_layer, [name for name in modules if name], where="")
            return self.inner_layer
        with outputs_by_module(f.network) as seen, torch.no_grad():
            f(x[:1])
        called = list(seen)
        inner = [name for name in called if isinstance(modules[name], CONVOLUTIONS)]
        linear = [place for place, name in enumerate(called) if isinstance(modules[name], nn.Linear)]
        before = [called[linear[-1] - 1]] if linear and linear[-1] else []
        return next(reversed(inner or before), None)


def _relative(before: Float64[Tensor, "b n"], after: Float64[Tensor, "b n"]) -> Figures:
    """The length of the change, each entry in units of itself."""
    return ((before - after) / torch.where(before == 0, LEAST, before)).norm(dim=1)


def _run(f: Classifier, x: Inputs, layer: str | None) -> tuple[Tensor, Tensor]:
    """The logits, and the layer's output, flattened."""
    with _noted(f.network, layer) as noted, torch.no_grad():
        logits = measurable(f(x))
    if layer is not None and not noted:
        raise UsageError(
            f"--inner-layer {layer} gives no tensor when the network runs", hint="choose a layer that is called"
        )
    return logits, measurable(noted[-1].flatten(1)) if noted else logits


@contextmanager
def _noted(network: nn.Module, layer: str | None) -> Iterator[list[Tensor]]:
    """What the layer gives while the network runs."""
    noted: list[Tensor] = []
    if layer is None:
        yield noted
        return
    module = network.get_submodule(layer)
    handle = module.register_forward_hook(lambda _m, _i, out: noted.append(out) if isinstance(out, Tensor) else None)
    try:
        yield noted
    finally:
        handle.remove()
