"""`attrcert max-eps`: the largest perturbation that keeps a threshold, per sample."""

from attrcert.cli.options import Asked, command
from attrcert.errors import UsageError
from attrcert.vocabulary import round_down


@command("max-eps", example="attrcert max-eps model.safetensors data/val --max-angle 30 --out largest.csv")
def max_eps(asked: Asked) -> None:
    """Find, for each sample, the largest eps at which a bound keeps a threshold.

    With --max-deviation, --max-cosine-distance or --max-angle it inverts the first-order bound, an estimate that attacks can exceed,
    or with --proved the bound that none can.

    With --smooth and --min-cosine it inverts the certificate of the smoothed attribution, which holds with confidence;
    --radius best (--sigma best) takes the best of a grid for each sample.
    """
    from attrcert.settings.output import Global

    F = asked.part(Global).smoothgrad_lipschitz
    if F is None:
        from attrcert.cli.execution import execute

        execute(asked)
    else:
        asked.only("smoothgrad_lipschitz", "sigma", "max_deviation", "format", "json", "quiet", "require")
        _global(asked, F)


def _global(asked: Asked, F: float) -> None:
    """The Lipschitz bound of SmoothGrad, which needs neither a model nor data."""
    from attrcert.cli.closed_forms import say
    from attrcert.settings.bounding import Thresholds
    from attrcert.settings.explaining import Averaging

    sigma, deviations = asked.part(Averaging).sigma, asked.part(Thresholds).max_deviation
    if not deviations or not F > 0:
        raise UsageError("--smoothgrad-lipschitz needs F > 0 and at least one --max-deviation")

    from attrcert.bounds.smoothed.smoothgrad_lipschitz import SmoothGradLipschitz

    bound, promise = SmoothGradLipschitz(F, sigma), "proved for the exact expectation"
    about = {"bound_of_f": F, "sigma": sigma, "guarantee": promise}
    say(
        asked,
        [{"threshold": most, "eps_max": bound.largest_eps(most), **about} for most in deviations],
        lambda fact: (
            f"deviation <= {fact['threshold']:g} within eps = {round_down(fact['eps_max'], 6)} "
            f"({promise}; |f| <= {F:g}, sigma {sigma:g})"
        ),
    )
