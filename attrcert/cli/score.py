"""`attrcert score`: how good and how stable attributions are, by the papers' metrics."""

from attrcert.cli.options import Asked, command


@command(
    "score",
    example="attrcert score model.safetensors data/val --metric insertion,rps --attribution saliency,ig --out scores.csv",
)
def score(asked: Asked) -> None:
    """Measure attributions by metrics, a row per sample, metric and eps.

    Insertion and deletion say whether the pixels that a map calls important make the prediction; random-perturbation similarity (rps) how
    alike the map stays when the input is perturbed at random.

    The figures are measured, and no bounds. How far a map can be moved at worst is said by `attrcert attack` and `attrcert bound`.
    """
    from attrcert.cli.execution import execute

    execute(asked)
