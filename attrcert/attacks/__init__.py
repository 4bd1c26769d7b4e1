"""Attacks that try to reach the bounds: each moves an attribution as far as it can while the label stays."""

from attrcert.attacks.ascent import Attack
from attrcert.attacks.cosine import Cosine
from attrcert.attacks.euclidean import Euclidean
from attrcert.attacks.manipulate import Manipulate
from attrcert.attacks.mass_centre import MassCentre
from attrcert.attacks.random_search import RandomSearch
from attrcert.attacks.top_k import TopK
from attrcert.registry import Family

ATTACKS: Family[Attack] = Family(
    "attack",
    {
        "random": RandomSearch,
        "euclidean": Euclidean,
        "cosine": Cosine,
        "top-k": TopK,
        "mass-centre": MassCentre,
        "manipulate": Manipulate,
    },
)
