"""Attributions that are linear in gradients, as nodes with weights: sum_k w_k grad f(b + a_k D), times D where they have that factor."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from attrcert.attributions.baselines import Constant
from attrcert.attributions.gradient import Saliency
from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.errors import UsageError
from attrcert.types import Attribution


@dataclass(frozen=True)
class Path:
    """Nodes b + a_k D with weights w_k; `difference` is D, None where the attribution is the gradient itself."""

    points: tuple[Float[Tensor, "b *shape"], ...]
    weights: tuple[float, ...]
    steps: tuple[float, ...]
    difference: Float[Tensor, "b d"] | None


def path(attribution: Attribution, x: Float[Tensor, "b *shape"]) -> Path:
    """The nodes of an attribution that is linear in gradients."""
    if isinstance(attribution, Saliency):
        return Path((x,), (1.0,), (1.0,), None)
    if isinstance(attribution, InputTimesGradient):
        return Path((x,), (1.0,), (1.0,), x.flatten(1))
    if isinstance(attribution, IntegratedGradients) and isinstance(attribution.baseline, Constant):
        base = attribution.baseline(x)
        nodes, weights = (part.tolist() for part in attribution.rule(x))
        points = tuple(base + a * (x - base) for a in nodes)
        return Path(points, tuple(weights), tuple(nodes), (x - base).flatten(1))
    if isinstance(attribution, IntegratedGradients):
        raise UsageError("proved bounds of integrated-gradients need a constant baseline", hint="--baseline 0 or mean")
    raise UsageError(
        "proved bounds are for saliency, input-x-gradient and integrated-gradients, not for "
        + getattr(attribution, "name", "smoothed attributions"),
        hint="--smooth uniform has a certificate of its own",
    )
