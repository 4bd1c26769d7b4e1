"""`attrcert max-eps`: the largest perturbation that keeps a threshold, per sample."""

from attrcert.cli.execution import execute, say
from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError
from attrcert.settings.bounding import Thresholds
from attrcert.settings.explaining import Averaging
from attrcert.settings.output import Global, Output
from attrcert.vocabulary import round_down


@command("max-eps", example="attrcert max-eps model.safetensors data/val --max-angle 30 --out largest.csv")
def max_eps(asked: Asked) -> None:
    """Find, for each sample, the largest eps at which a bound keeps a threshold.

    With --max-deviation, --max-cosine-distance or --max-angle it inverts the first-order bound, an estimate that attacks can exceed,
    or with --proved the bound that none can.

    With --smooth and --min-cosine it inverts the certificate of the smoothed attribution, which holds with confidence;
    --radius best (--sigma best) takes the best of a grid for each sample.
    """
    F = asked.part(Global).smoothgrad_lipschitz
    if F is None:
        execute(asked)
    else:
        asked.only("smoothgrad_lipschitz", "sigma", "max_deviation", "format", "json", "quiet", "require")
        _global(F, asked.part(Averaging).sigma, asked.part(Thresholds).max_deviation, asked.part(Output))


def _global(F: float, sigma: float, deviations: tuple[float, ...], results: Output) -> None:
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
