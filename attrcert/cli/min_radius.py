"""`attrcert min-radius`: the smallest smoothing radius at which a threshold is certified, per sample."""

from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.execution import execute
from attrcert.cli.groups import with_groups
from attrcert.cli.smoothing import SMOOTHING, GridGroup, SmoothGroup


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
    """Find, for each sample, the smallest radius of a grid at which the smoothed attribution keeps --min-cosine within eps.

    The attribution that is certified changes with the radius, so radii are tried, never extrapolated: the answer is a radius at
    which the certificate was shown to hold, with confidence; `infeasible` where none of the grid does.
    """
    config = smoothing.config("min-radius", method, run, spread=grid.grid(), search=grid.search)
    spec = data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT)
    if published is None:
        execute(config, model.spec(checkpoint), spec, run, results)
        return
    from attrcert.running.runs import input_size
    from attrcert.running.smoothing import published_radii

    for eps, T, radius in published_radii(config, input_size(spec), published):
        typer.echo(
            f"eps {eps:g}, cosine >= {T:g}, |h|/M = {published:g}: R = {radius:.6g} (published; not a certificate)"
        )
