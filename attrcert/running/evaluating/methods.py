"""From a task's words to the attribution and the theorems they name."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.attributions import ATTRIBUTIONS, is_own
from attrcert.attributions.baselines import parse_baseline
from attrcert.attributions.differentiated import Differentiated
from attrcert.attributions.loss_gradient import PiecewiseLossGradient
from attrcert.attributions.own import Own
from attrcert.attributions.unit import Direction
from attrcert.bounds.first_order.ce_hessian import CrossEntropyHessian
from attrcert.bounds.first_order.enclosed import Certifier
from attrcert.bounds.first_order.l2_spectral import L2Spectral
from attrcert.bounds.first_order.linf_corollary import LinfCorollary
from attrcert.bounds.first_order.linf_row_sums import LinfRowSums
from attrcert.bounds.first_order.linf_scaled import LinfScaled
from attrcert.errors import UsageError
from attrcert.linalg.enclosure import ROUNDING, TopSingularValue
from attrcert.running.evaluating.own_maps import own_function
from attrcert.settings.explaining import Explanation, Precision
from attrcert.settings.tasks import BoundConfig, Task
from attrcert.types import Attribution
from attrcert.vocabulary import NormKind


@dataclass(frozen=True)
class Layout:
    """What a run computes together, as it fits and is fastest; no result depends on it: points differentiated together, of how many the
    graphs are kept, and vectors of a sample that are multiplied together where there are few samples.
    """

    chunk: int | None = None
    held: int | None = None
    copies: int = 1


PLAIN = Layout()


def torch_dtype(precision: Precision) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, precision.dtype)
    return dtype


def network_rounding(config: Task, beta: float | None) -> float:
    """What rounding inside a network does to xi_max, relative.

    In float32 it grows with the sharpness of the activations: against float64, errors of 1e-4 were measured at beta 50 and of 3e-4
    at beta 200 (third-party networks); twice that is allowed for.
    """
    return 1e-9 if config.arithmetic.dtype == "float64" else max(1e-4, 5e-6 * (beta or 0.0))


def solver(config: BoundConfig, allowance: float | None) -> TopSingularValue:
    """`allowance` is for rounding in the network; None where that is measured."""
    rounding, bounding = ROUNDING[torch_dtype(config.arithmetic)] if allowance is None else allowance, config.bounding
    if bounding.slack < 4 * rounding:
        raise UsageError(
            f"--slack must be at least {4 * rounding:g} in {config.arithmetic.dtype} at this softplus beta, got {bounding.slack}",
            hint="a smaller slack needs --dtype float64",
        )
    return TopSingularValue(
        slack=bounding.slack, failure=config.arithmetic.failure, max_steps=bounding.max_steps, rounding=rounding
    )


def explainer(config: Task, mean: tuple[float, ...] | None, layout: Layout) -> Attribution:
    """The attribution; `mean` is the model's, which a baseline may name."""
    if config.of_loss:
        return PiecewiseLossGradient(chunk=layout.chunk)
    noise = config.averaged
    if noise is None:
        return _made(config.explanation, mean, layout)
    base = _made(noise.base(config.explanation), mean, layout)
    return _made(
        config.explanation,
        mean,
        layout,
        sigma=noise.sigma,
        radius=noise.radius,
        samples=noise.noise_draws,
        base=Direction(base) if noise.smooth_unit else base,
    )


def differentiated_part(config: Task, layout: Layout = PLAIN) -> Differentiated | None:
    """The map that is explained, or that is averaged over noise, where autograd differentiates it: what it is must be looked at."""
    explanation = config.averaged.base(config.explanation) if config.averaged else config.explanation
    name = explanation.attribution
    if config.of_loss or not (is_own(name) or issubclass(ATTRIBUTIONS.member(name), Differentiated)):
        return None
    made = _made(explanation, None, layout)
    assert isinstance(made, Differentiated)
    return made


def _made(explanation: Explanation, mean: tuple[float, ...] | None, layout: Layout, **smoothing: Any) -> Attribution:
    if is_own(explanation.attribution):
        return Own(own_function(explanation), explanation.label, layout.chunk, layout.held)
    integrated = explanation.attribution == "integrated-gradients"
    return ATTRIBUTIONS.make(
        explanation.attribution,
        steps=explanation.ig_steps,
        quadrature=explanation.quadrature,
        **({"baseline": parse_baseline(explanation.baseline, mean)} if integrated else {}),
        rule=explanation.lrp_rule,
        stabiliser=explanation.lrp_stabiliser,
        layer=explanation.layer,
        chunk=layout.chunk,
        held=layout.held,
        **smoothing,
    )


def certifiers(
    config: BoundConfig, allowance: float | None, layout: Layout, first: Float[Tensor, "b m"] | None = None
) -> tuple[Certifier, ...]:
    """The theorems to apply; the smallest of their bounds is reported. `allowance` as in `solver`, `first` as in L2Spectral."""
    norm = config.perturbation.delta_norm
    if norm.kind is not NormKind.LINF:
        return (CrossEntropyHessian(norm) if config.of_loss else L2Spectral(norm, solver(config, allowance), first),)
    made: dict[str, Certifier] = {
        "scaled": LinfScaled(solver(config, allowance), copies=layout.copies),
        "row-sums": LinfRowSums(rounding=allowance, copies=layout.copies),
        "corollary": LinfCorollary(solver(config, allowance)),
    }
    return tuple(made[method] for method in dict.fromkeys(config.bounding.linf_method))
