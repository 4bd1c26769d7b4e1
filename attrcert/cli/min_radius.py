"""`attrcert min-radius`: the smallest smoothing radius at which a threshold is certified, per sample."""

from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.execution import execute, say
from attrcert.cli.groups import with_groups
from attrcert.cli.smoothing import DEFAULTS, SMOOTHING, GridGroup, SmoothGroup
from attrcert.errors import UsageError


@with_groups
def min_radius(
    smoothing: SmoothGroup,
    grid: GridGroup,
    method: options.MethodGroup,
    model: options.ModelGroup,
    data: options.DataGroup,
    run: options.RunGroup,
    results: options.OutputGroup,
    checkpoint: options.Checkpoint = None,
    dataset: options.Dataset = None,
    published: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Print the published closed form for this |h|/M instead: not an answer, since |h| depends on the radius.",
            show_default=False,
            rich_help_panel=SMOOTHING,
        ),
    ] = None,
) -> None:
    """Find, for each sample, the smallest radius (or sigma) of a grid at which the smoothed attribution keeps --min-cosine within eps.

    The attribution that is certified changes with the radius, so radii are tried, never extrapolated: the answer is a radius at
    which the certificate was shown to hold, with confidence; `infeasible` where none of the grid does.
    """
    for name, given in (("--radius", method.radius), ("--sigma", method.sigma)):
        if given:
            raise UsageError(
                f"{name} means nothing here: min-radius finds it", hint="--radii or --max-radius make the grid"
            )
    noise = smoothing.smooth or DEFAULTS.smooth
    config = smoothing.config("min-radius", method, run, spread=grid.grid(noise), search=grid.search)
    spec = data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT)
    if published is None:
        execute(config, model.spec(checkpoint, data.max_input), spec, run, results)
        return
    if noise != "uniform":
        raise UsageError(f"--published is for uniform noise, got {noise}")
    from attrcert.running.evaluating.smoothing import published_radii
    from attrcert.running.opening.runs import input_size

    found, promise = published_radii(config, input_size(spec), published), "published; not a certificate"
    say(
        [
            {"eps": eps, "threshold": T, "ratio": published, "radius": radius, "guarantee": promise}
            for eps, T, radius in found
        ],
        [
            f"eps {eps:g}, cosine >= {T:g}, |h|/M = {published:g}: R = {radius:.6g} ({promise})"
            for eps, T, radius in found
        ],
        results,
    )
