"""Attacks that try to reach the bounds: each moves an attribution as far as it can while the label stays."""

from typing import TYPE_CHECKING

from attrcert.registry import Family

if TYPE_CHECKING:
    from attrcert.ascent.loop import Attack

ATTACKS: "Family[Attack]" = Family(
    "attack",
    {
        "random": "attrcert.attacks.random_search:RandomSearch",
        "euclidean": "attrcert.attacks.euclidean:Euclidean",
        "cosine": "attrcert.attacks.cosine:Cosine",
        "top-k": "attrcert.attacks.top_k:TopK",
        "mass-centre": "attrcert.attacks.mass_centre:MassCentre",
        "manipulate": "attrcert.attacks.manipulate:Manipulate",
    },
)
