"""Attacks that try to reach the bounds: each moves an attribution as far as it can while the label stays. One changes the prediction."""

from typing import TYPE_CHECKING

from attrcert.registry import Family

if TYPE_CHECKING:
    from attrcert.ascent.attack import Attack

ATTACKS: "Family[Attack]" = Family(
    "attack",
    {
        "random": "attrcert.attacks.random_search:RandomSearch",
        "search": "attrcert.attacks.search:HopSearch",
        "euclidean": "attrcert.attacks.euclidean:EuclideanAttack",
        "cosine": "attrcert.attacks.cosine:CosineAttack",
        "top-k": "attrcert.attacks.top_k:TopKAttack",
        "mass-centre": "attrcert.attacks.mass_centre:MassCentreAttack",
        "manipulate": "attrcert.attacks.manipulate:Manipulate",
        "prediction": "attrcert.attacks.prediction:PredictionAttack",
    },
)
BLIND = ("random", "search")  # need values of the attribution alone
