"""`attrcert bound`: per sample and eps, how far the attribution can be moved."""

from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError


@command("bound", example="attrcert bound model.safetensors data/val --norm linf --eps 8/255 --out bounds.csv")
def bound(asked: Asked) -> None:
    """Bound, for each sample, how far its attribution can be moved by a perturbation of size eps.

    The figures are first-order: they bound the linearised attribution, and are estimates for the true one that
    attacks can exceed. With --proved a bound stands beside them that holds for every perturbation in the ball. With
    --smooth the attribution is averaged over noise, and the cosine that it keeps within eps holds with confidence.

    Without arguments it bounds 64 images of the bundled Fashion-MNIST sample with the bundled natural model.
    """
    from attrcert.settings.output import Keeping, Output

    jacobians = asked.part(Keeping).save_jacobian
    if jacobians and asked.part(Output).out is None:
        raise UsageError("--save-jacobian needs --out", hint="the matrices go into a file beside it")
    from attrcert.cli.execution import execute

    execute(asked, jacobians=jacobians)
