"""`attrcert max-eps`: the largest perturbation that keeps a threshold, per sample."""

from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.execution import execute, say
from attrcert.cli.groups import Context, said, with_groups
from attrcert.cli.smoothing import SmoothGroup, ThresholdGroup
from attrcert.errors import UsageError
from attrcert.running.settings.config import MaxEpsConfig, RunConfig
from attrcert.vocabulary import round_down


@with_groups
def max_eps(
    context: Context,
    thresholds: ThresholdGroup,
    smoothing: SmoothGroup,
    method: options.MethodGroup,
    model: options.ModelGroup,
    data: options.DataGroup,
    run: options.RunGroup,
    results: options.OutputGroup,
    checkpoint: options.Checkpoint = None,
    dataset: options.Dataset = None,
    smoothgrad_lipschitz: Annotated[
        float | None,
        typer.Option(
            metavar="F",
            help="The global bound for SmoothGrad of any function with |f| <= F (probabilities: 0.5), with --sigma and "
            "--max-deviation; no model or data are read.",
            show_default=False,
            rich_help_panel="Threshold",
        ),
    ] = None,
) -> None:
    """Find, for each sample, the largest eps at which a bound keeps a threshold.

    With --max-deviation, --max-cosine-distance or --max-angle it inverts the first-order bound, an estimate that attacks can exceed,
    or with --proved the bound that none can.
    With --smooth and --min-cosine it inverts the certificate of the smoothed attribution, which holds with confidence;
    --radius best (--sigma best) takes the best of a grid for each sample.
    """
    if said(context, "eps"):
        raise UsageError(
            "--eps means nothing here: max-eps finds it", hint="`attrcert bound --eps` bounds at a given eps"
        )
    if smoothgrad_lipschitz is not None:
        _global(smoothgrad_lipschitz, method.single()["sigma"], thresholds.settings()["max_deviation"], results)
        return
    spec = data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT)
    config: RunConfig
    if smoothing.smooth is None:
        smoothing.unused(context)
        config = MaxEpsConfig(**method.single(), **thresholds.settings(), **run.settings())
    else:
        if any(thresholds.settings().values()):
            raise UsageError("--smooth goes with --min-cosine, not with a first-order threshold")
        config = smoothing.config("max-eps", method, run)
    execute(config, model.spec(checkpoint, data.max_input), spec, run, results)


def _global(F: float, sigma: float, deviations: tuple[float, ...], results: options.OutputGroup) -> None:
    """The Lipschitz bound of SmoothGrad, which needs neither a model nor data."""
    if not deviations or not F > 0:
        raise UsageError("--smoothgrad-lipschitz needs F > 0 and at least one --max-deviation")

    from attrcert.bounds.smoothed.smoothgrad_lipschitz import SmoothGradLipschitz

    bound = SmoothGradLipschitz(F, sigma)
    found = [(deviation, bound.largest_eps(deviation)) for deviation in deviations]
    promise = "proved for the exact expectation"
    say(
        [
            {"threshold": deviation, "eps_max": eps, "bound_of_f": F, "sigma": sigma, "guarantee": promise}
            for deviation, eps in found
        ],
        [
            f"deviation <= {deviation:g} within eps = {round_down(eps, 6)} ({promise}; |f| <= {F:g}, sigma {sigma:g})"
            for deviation, eps in found
        ],
        results,
    )
