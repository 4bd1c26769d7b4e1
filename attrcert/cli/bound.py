"""`attrcert bound`: per sample and eps, how far the attribution can be moved."""

from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.execution import execute
from attrcert.cli.groups import with_groups
from attrcert.running.config import BoundConfig


@with_groups
def bound(
    method: options.MethodGroup,
    model: options.ModelGroup,
    data: options.DataGroup,
    run: options.RunGroup,
    results: options.OutputGroup,
    checkpoint: options.Checkpoint = None,
    dataset: options.Dataset = None,
    loss_hessian: Annotated[
        bool,
        typer.Option(
            "--loss-hessian",
            help="Bound the gradient of the cross-entropy loss of a ReLU network, in closed form, without softplus.",
            rich_help_panel=options.METHOD,
        ),
    ] = options.DEFAULTS.loss_hessian,
) -> None:
    """Bound, for each sample, how far its attribution can be moved by a perturbation of size eps.

    The figures are first-order: they bound the linearised attribution, and are estimates for the true one that
    attacks can exceed. Without arguments it bounds 64 images of the bundled Fashion-MNIST sample with the bundled
    natural model.
    """
    config = BoundConfig(**method.settings(), **run.settings(), loss_hessian=loss_hessian)
    execute(config, model.spec(checkpoint), data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT), run, results)
