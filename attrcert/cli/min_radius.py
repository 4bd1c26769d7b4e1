"""`attrcert min-radius`: the smallest smoothing radius at which a threshold is certified, per sample."""

from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError
from attrcert.settings.declared import declared
from attrcert.settings.sources import DataSpec


@command(
    "min-radius", example="attrcert min-radius model.safetensors data/val --eps 0.1 --min-cosine 0.9 --radii 0.5,1,2,4"
)
def min_radius(asked: Asked) -> None:
    """Find, for each sample, the smallest radius (or sigma) of a grid at which the smoothed attribution keeps --min-cosine within eps.

    The attribution that is certified changes with the radius, so radii are tried, never extrapolated: the answer is a radius at
    which the certificate was shown to hold, with confidence; `infeasible` where none of the grid does.
    """
    from attrcert.settings.output import ClosedForm

    published = asked.part(ClosedForm).published
    if published is None:
        from attrcert.cli.execution import execute

        execute(asked)
    else:
        names = ("published", "smooth", "min_cosine", "eps", "format", "json", "quiet", "require")
        asked.only(*names, *declared(DataSpec))
        _closed_form(asked, published)


def _closed_form(asked: Asked, ratio: float) -> None:
    """What the paper prints for a given |h|/M."""
    from attrcert.cli.closed_forms import say
    from attrcert.settings.certifying import MinRadiusConfig

    task = asked.task()
    assert isinstance(task, MinRadiusConfig)
    if task.smoothing.smooth != "uniform":
        raise UsageError(f"--published is for uniform noise, got {task.smoothing.smooth}")

    from attrcert.running.evaluating.smoothing import published_radii
    from attrcert.running.opening.opening import input_size

    found, promise = published_radii(task, input_size(asked.data()), ratio), "published; not a certificate"
    say(
        asked,
        [{"eps": e, "threshold": T, "ratio": ratio, "radius": R, "guarantee": promise} for e, T, R in found],
        "eps {eps:g}, cosine >= {threshold:g}, |h|/M = {ratio:g}: R = {radius:.6g} ({guarantee})".format_map,
    )
