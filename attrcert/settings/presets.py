"""Attack settings as the papers published them, for `attrcert attack --preset NAME`. Torch-free.

They set the fields of AttackConfig that a paper states; whatever is given on the command line comes first. Starts and the choice of
the best iterate are always this program's: published code that restarts without randomness, or keeps the last iterate, is not repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """`meaning` says what it repeats and where it differs."""

    meaning: str
    settings: Mapping[str, Any]


IFIA = ("top-k", "mass-centre")


def _preset(meaning: str, **settings: Any) -> Preset:
    return Preset(meaning, settings)


PRESETS: dict[str, Preset] = {
    "ghorbani": _preset(
        "IFIA: sign steps on the top-k share and the mass centre; softplus beta 1 leads, the ReLU network is measured; "
        "with --attribution ig --ig-steps 100 for integrated gradients [ghorbani2019interpretation]",
        attack=IFIA, norm="linf", eps=(8 / 255,), steps=300, step_size=0.5 / 255, k=1000, direction_beta="1", measure_on="relu",
    ),
    **{
        f"chen-{data}": _preset(
            f"IG attack for {place}: top-k steps, lowest Kendall tau kept; 3 restarts, ours random [chen2019robust]",
            attribution="integrated-gradients", ig_steps=100, attack=("top-k",), keep="kendall", norm="linf", eps=(eps,), steps=steps,
            step_size=size, k=k, restarts=3,
        )
        for data, place, eps, steps, size, k in (
            ("mnist", "MNIST", 0.3, 100, 0.01, 200),
            ("fashion", "Fashion-MNIST", 0.1, 100, 0.01, 100),
            ("gtsrb", "GTSRB", 8 / 255, 50, 1 / 255, 100),
            ("flower", "Flower", 8 / 255, 100, 1 / 255, 1000),
        )
    },
    "singh": _preset(
        "IG attack: top-k steps led by softplus beta 50, lowest Kendall tau kept; --k 1000 for 128 pixels [singh2020attributional]",
        attribution="integrated-gradients", ig_steps=100, attack=("top-k",), keep="kendall", norm="linf", eps=(8 / 255,), steps=50,
        step_size=1 / 255, k=100, direction_beta="50",
    ),
    "dombrowski": _preset(
        "towards a target map by Adam, any valid pixels, softplus beta growing from 10 to 100; "
        "40 is its 1e11 for maps of mean 1 at 224 pixels [dombrowski2019explanations]",
        attack=("manipulate",), norm="linf", eps=(1.0,), steps=1500, step_size=2e-4, direction_beta="10:100", map_weight=40.0,
        output_weight=1e6,
    ),
    "joo": _preset(
        "towards a frame by Adam with rate 4 eps / steps, probabilities held, not logits; --eps 2/255 for ResNets [joo2023towards]",
        attack=("manipulate",), norm="linf", eps=(4 / 255,), steps=100, target_map="frame", map_weight=0.5, output_weight=0.5,
    ),
    "wang-2020": _preset(
        "top-k, manipulate and mass-centre over four eps; --auc for the areas, --k 80 (Flower), 1000 (ImageNet) [wang2020smoothed]",
        attack=("top-k", "manipulate", "mass-centre"), norm="linf", eps=(2 / 255, 4 / 255, 8 / 255, 16 / 255), steps=50, k=20,
    ),
    "wang-kong-l2": _preset(
        "the deviation itself, PGD-20, l2 from .1 to .5 [wang2023practical]",
        attack=("euclidean",), norm="l2", eps=(0.1, 0.2, 0.3, 0.4, 0.5), steps=20,
    ),
    "wang-kong-linf": _preset(
        "IFIA's top-k, 200 steps, linf; --k 1000 for large images [wang2023practical]",
        attack=("top-k",), norm="linf", eps=(8 / 255,), steps=200, k=100,
    ),
    "wang-kong-smooth": _preset(
        "the uniformly smoothed map beside its certificate, l2, 200 steps, 20 restarts; eps 0.5 and radius 1 are ours, and so is that the "
        "angle is climbed, where the paper climbs top-k, which is measured; --k 1000 for CIFAR [wang2024certified]",
        smooth="uniform", radius=(1.0,), eps=(0.5,), steps=200, restarts=20, k=100,
    ),
}  # fmt: skip
