"""`attrcert max-eps`: the largest perturbation that keeps a threshold, per sample."""

from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.execution import execute
from attrcert.cli.groups import with_groups
from attrcert.cli.smoothing import SmoothGroup, ThresholdGroup
from attrcert.errors import UsageError
from attrcert.running.config import MaxEpsConfig, RunConfig
from attrcert.vocabulary import round_down


@with_groups
def max_eps(
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

    With --max-deviation, --max-cosine-distance or --max-angle it inverts the first-order bound, an estimate that attacks can exceed.
    With --smooth and --min-cosine it inverts the certificate of the smoothed attribution, which holds with confidence;
    --radius best takes the best of a grid of radii for each sample.
    """
    if smoothgrad_lipschitz is not None:
        _global(smoothgrad_lipschitz, method.single()["sigma"], thresholds.settings()["max_deviation"])
        return
    spec = data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT)
    config: RunConfig
    if smoothing.smooth is None:
        smoothing.unused()
        config = MaxEpsConfig(**method.single(), **thresholds.settings(), **run.settings())
    else:
        if any(thresholds.settings().values()):
            raise UsageError("--smooth goes with --min-cosine, not with a first-order threshold")
        best = method.radius == ["best"]
        radii = {"spread": options.BEST_RADII, "best": True} if best else {}
        config = smoothing.config("max-eps", method.without_best(), run, **radii)
    execute(config, model.spec(checkpoint), spec, run, results)


def _global(F: float, sigma: float, deviations: tuple[float, ...]) -> None:
    """The Lipschitz bound of SmoothGrad, which needs neither a model nor data."""
    if not deviations or not F > 0:
        raise UsageError("--smoothgrad-lipschitz needs F > 0 and at least one --max-deviation")

    from attrcert.certificates.smoothgrad_lipschitz import SmoothGradLipschitz

    bound = SmoothGradLipschitz(F, sigma)
    for deviation in deviations:
        eps = round_down(bound.largest_eps(deviation), 6)
        said = f"proved for the exact expectation; |f| <= {F:g}, sigma {sigma:g}"
        typer.echo(f"deviation <= {deviation:g} within eps = {eps} ({said})")
