"""`attrcert min-radius`: the smallest smoothing radius at which a threshold is certified, per sample."""

from dataclasses import dataclass

from attrcert.cli.execution import COMPUTING, execute, say
from attrcert.cli.options import Asked, command
from attrcert.cli.output import Output
from attrcert.errors import UsageError
from attrcert.settings.certifying import MinRadiusConfig
from attrcert.settings.declared import SMOOTHING, Settings, setting


@dataclass(frozen=True)
class ClosedForm(Settings):
    """What the paper prints."""

    published: float | None = setting(
        None, "Print the published closed form for this |h|/M instead: not an answer, since |h| depends on the radius.",
        SMOOTHING, least=0, most=1,
    )  # fmt: skip


@command(
    "min-radius",
    *COMPUTING,
    ClosedForm,
    example="attrcert min-radius model.safetensors data/val --eps 0.1 --min-cosine 0.9 --radii 0.5,1,2,4",
)
def min_radius(asked: Asked) -> None:
    """Find, for each sample, the smallest radius (or sigma) of a grid at which the smoothed attribution keeps --min-cosine within eps.

    The attribution that is certified changes with the radius, so radii are tried, never extrapolated: the answer is a radius at
    which the certificate was shown to hold, with confidence; `infeasible` where none of the grid does.
    """
    published = asked.part(ClosedForm).published
    if published is None:
        execute(asked)
        return
    task = asked.task()
    assert isinstance(task, MinRadiusConfig)
    if task.smoothing.smooth != "uniform":
        raise UsageError(f"--published is for uniform noise, got {task.smoothing.smooth}")
    from attrcert.running.evaluating.smoothing import published_radii
    from attrcert.running.opening.opening import input_size

    found, promise = published_radii(task, input_size(asked.data()), published), "published; not a certificate"
    say(
        [
            {"eps": eps, "threshold": T, "ratio": published, "radius": radius, "guarantee": promise}
            for eps, T, radius in found
        ],
        [
            f"eps {eps:g}, cosine >= {T:g}, |h|/M = {published:g}: R = {radius:.6g} ({promise})"
            for eps, T, radius in found
        ],
        asked.part(Output),
    )
