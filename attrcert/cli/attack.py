"""`attrcert attack`: how far attacks do move the attribution, beside how far the bound says they can."""

from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError


@command(
    "attack",
    example="attrcert attack model.safetensors data/val --attack top-k --norm linf --eps 8/255 --out attacks.csv",
)
def attack(asked: Asked) -> None:
    """Attack each sample's attribution: move it as far as possible while the predicted label stays, and put that beside the
    bound of the same sample, attribution and ball.

    With --smooth the attribution averaged over noise is certified as `bound --smooth` does, and the attack turns that: by the same
    draws at x and at x + delta, wherever in the ball, whatever becomes of the label.

    What an attack reaches (T_hat) is a lower bound of the worst case. Where it exceeds a first-order T_e, that is counted and shown;
    exit code 1 is for bounds that are proved or hold with confidence.
    """
    from attrcert.settings.output import Campaigning, Output

    extra, out = asked.part(Campaigning), asked.part(Output).out
    task = asked.task(extra.meant)
    if extra.auc and task.command != "attack":
        raise UsageError("--auc means nothing with --smooth", hint="it is for the metrics of plain attacks")
    if extra.auc and len(task.perturbation.eps) < 2:
        raise UsageError("--auc needs at least two values of eps", hint="e.g. --eps 2/255 --eps 4/255 --eps 8/255")
    if extra.save_deltas is not None and extra.save_deltas.suffix != ".safetensors":
        raise UsageError(f"--save-deltas must name a .safetensors file, got {extra.save_deltas}")
    if extra.save_deltas is not None and out == extra.save_deltas:
        raise UsageError("--out and --save-deltas must name two files, got the same")
    from attrcert.cli.execution import execute

    with extra.blamed(asked.given):
        execute(asked, task, deltas=extra.save_deltas, auc=extra.auc)
