"""`attrcert score`: how good and how stable attributions are, by the papers' metrics."""

from attrcert.cli.options import Asked, command


@command(
    "score",
    example="attrcert score model.safetensors data/val --metric insertion,rps --attribution saliency,ig --out scores.csv",
)
def score(asked: Asked) -> None:
    """Measure attributions by the papers' metrics, a row per sample, metric and eps.

    insertion, deletion and adv-insertion say whether the pixels that a map calls important make the prediction; rps (random-perturbation
    similarity), stability (Quantus' RIS, ROS and RRS), crc (the cosine criterion) and local-robustness how much the map changes
    when the input does.

    The figures are measured, but for the bounds beside crc and local-robustness, which say what they promise. How far a map can be moved
    at worst is said by `attrcert attack` and `attrcert bound`.
    """
    from attrcert.cli.execution import execute

    execute(asked)
