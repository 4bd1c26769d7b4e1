"""`attrcert bound`: per sample and eps, how far the attribution can be moved."""

from typing import Annotated

import typer

from attrcert.cli import options
from attrcert.cli.execution import execute
from attrcert.cli.groups import Context, with_groups
from attrcert.cli.smoothing import SmoothGroup
from attrcert.errors import UsageError
from attrcert.running.settings.config import BoundConfig, RunConfig
from attrcert.vocabulary import parse_indices


@with_groups
def bound(
    context: Context,
    method: options.MethodGroup,
    smoothing: SmoothGroup,
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
    save_jacobian: Annotated[
        str | None,
        typer.Option(
            metavar="INDICES",
            help="Keep the attribution's Jacobian at these samples, e.g. 3 or 3,17, in a file beside --out (d up to 4096).",
            show_default=False,
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
) -> None:
    """Bound, for each sample, how far its attribution can be moved by a perturbation of size eps.

    The figures are first-order: they bound the linearised attribution, and are estimates for the true one that
    attacks can exceed. With --proved a bound stands beside them that holds for every perturbation in the ball. With
    --smooth the attribution is averaged over noise, and the cosine that it keeps within eps holds with confidence.
    Without arguments it bounds 64 images of the bundled Fashion-MNIST sample with the bundled natural model.
    """
    jacobians = parse_indices(save_jacobian) if save_jacobian else ()
    if jacobians and results.out is None:
        raise UsageError("--save-jacobian needs --out", hint="the matrices go into a file beside it")
    config: RunConfig
    if smoothing.smooth is None:
        smoothing.unused(context)
        config = BoundConfig(**method.single(), **run.settings(), loss_hessian=loss_hessian)
    else:
        if loss_hessian:
            raise UsageError("--loss-hessian is a first-order bound and does not go with --smooth")
        config = smoothing.config("bound", method, run)
    spec = data.spec(dataset, bundled_limit=options.BUNDLED_LIMIT)
    execute(config, model.spec(checkpoint, data.max_input), spec, run, results, jacobians=jacobians)
