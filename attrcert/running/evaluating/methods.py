"""From a configuration's words to the attribution and the theorems they name."""

from dataclasses import asdict, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.attributions import ATTRIBUTIONS, SMOOTHED
from attrcert.attributions.baselines import parse_baseline
from attrcert.attributions.loss_gradient import LossGradient
from attrcert.attributions.unit import Direction
from attrcert.bounds.first_order.ce_hessian import CrossEntropyHessian
from attrcert.bounds.first_order.enclosed import Certifier
from attrcert.bounds.first_order.l2_spectral import L2Spectral
from attrcert.bounds.first_order.linf_corollary import LinfCorollary
from attrcert.bounds.first_order.linf_row_sums import LinfRowSums
from attrcert.bounds.first_order.linf_scaled import LinfScaled
from attrcert.errors import UsageError
from attrcert.linalg.enclosure import ROUNDING, TopSingularValue
from attrcert.running.settings.config import FILLED_IN, AttackConfig, BoundConfig, RunConfig, SmoothConfig
from attrcert.types import Attribution
from attrcert.vocabulary import NormKind


def torch_dtype(config: RunConfig) -> torch.dtype:
    return {"float32": torch.float32, "float64": torch.float64}[config.dtype]


def network_rounding(config: BoundConfig, beta: float | None) -> float:
    """What rounding inside a network does to xi_max, relative.

    In float32 it grows with the sharpness of the activations: against float64, errors of 1e-4 were measured at beta 50 and of 3e-4
    at beta 200 (third-party networks); twice that is allowed for.
    """
    return 1e-9 if config.dtype == "float64" else max(1e-4, 5e-6 * (beta or 0.0))


def solver(config: BoundConfig, allowance: float | None) -> TopSingularValue:
    """`allowance` is for rounding in the network; None where that is measured."""
    rounding = ROUNDING[torch_dtype(config)] if allowance is None else allowance
    if config.slack < 4 * rounding:
        raise UsageError(
            f"slack must be at least {4 * rounding:g} in {config.dtype} at this softplus beta, got {config.slack}",
            hint="a smaller slack needs --dtype float64",
        )
    return TopSingularValue(slack=config.slack, failure=config.failure, max_steps=config.max_steps, rounding=rounding)


def explainer(config: RunConfig, mean: tuple[float, ...] | None) -> Attribution:
    """The attribution; `mean` is the model's, which a baseline may name."""
    name = ATTRIBUTIONS.name(config.attribution)
    if isinstance(config, BoundConfig) and config.loss_hessian:
        if name != "saliency":
            raise UsageError(
                f"--loss-hessian bounds the gradient of the loss and takes no other attribution, got {name}"
            )
        return LossGradient()
    plain = {
        "steps": config.ig_steps,
        "quadrature": config.quadrature,
        "baseline": parse_baseline(config.baseline, mean),
        "chunk": config.chunk,
        "held": config.held,
    }
    return ATTRIBUTIONS.make(name, **plain, **(_smoothing(config, mean) if name in SMOOTHED else {}))


def _smoothing(config: RunConfig, mean: tuple[float, ...] | None) -> dict[str, Any]:
    """The parameters of a smoothed attribution."""
    if not isinstance(config, BoundConfig):
        raise UsageError(f"--smooth does the smoothing; the attribution must be a plain one, got {config.attribution}")
    if ATTRIBUTIONS.name(config.smooth_base) in SMOOTHED:
        raise UsageError(f"the smoothed attribution must not be a smoothed one itself, got {config.smooth_base}")
    base = explainer(replace(config, attribution=config.smooth_base), mean)
    return {
        "sigma": config.sigma,
        "radius": config.radius,
        "samples": config.noise_draws,
        "base": Direction(base) if config.smooth_unit else base,
    }


def canonical(config: RunConfig) -> RunConfig:
    """The same with every attribution by its full name, once."""
    config = replace(config, attribution=ATTRIBUTIONS.name(config.attribution))
    if isinstance(config, BoundConfig):
        config = replace(config, smooth_base=ATTRIBUTIONS.name(config.smooth_base))
    if isinstance(config, AttackConfig):
        return replace(config, transfer=tuple(dict.fromkeys(ATTRIBUTIONS.name(name) for name in config.transfer)))
    return config


def certifiers(
    config: BoundConfig, allowance: float | None, first: Float[Tensor, "b m"] | None = None
) -> tuple[Certifier, ...]:
    """The theorems to apply; the smallest of their bounds is reported. `allowance` as in `solver`, `first` as in L2Spectral."""
    if config.delta_norm.kind is not NormKind.LINF:
        return (
            CrossEntropyHessian(config.delta_norm)
            if config.loss_hessian
            else L2Spectral(config.delta_norm, solver(config, allowance), first),
        )
    made: dict[str, Certifier] = {
        "scaled": LinfScaled(solver(config, allowance), copies=config.copies),
        "row-sums": LinfRowSums(rounding=allowance, copies=config.copies),
        "corollary": LinfCorollary(solver(config, allowance)),
    }
    return tuple(made[method] for method in dict.fromkeys(config.linf_method))


def attribution_label(config: RunConfig) -> str:
    """The attribution cell: the method and the parameters that change its value."""
    if isinstance(config, SmoothConfig):
        return f"{_plain_label(config)}, {config.bounded}"
    return _plain_label(config)


def _plain_label(config: RunConfig) -> str:
    name = ATTRIBUTIONS.name(config.attribution)
    if isinstance(config, BoundConfig) and config.loss_hessian:
        return "loss-gradient"
    if isinstance(config, BoundConfig) and name in SMOOTHED:
        spread = f"sigma={config.sigma:g}" if name == "smooth-grad" else f"radius={config.radius:g}"
        base = _plain_label(replace(config, attribution=config.smooth_base))
        unit = ", unit" if config.smooth_unit else ""
        return f"{name}({spread}, draws={config.noise_draws}, base={base}{unit})"
    if name != "integrated-gradients":
        return name
    return f"{name}(steps={config.ig_steps}, quadrature={config.quadrature}, baseline={config.baseline})"


def configuration(config: RunConfig) -> dict[str, Any]:
    """Everything that a result depends on, for the manifest."""
    told = {name: value for name, value in asdict(config).items() if name not in FILLED_IN}
    return {**told, "attribution": attribution_label(config)}
