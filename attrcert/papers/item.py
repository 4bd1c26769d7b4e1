"""Something that a paper states or uses, and where attrcert has it."""

from dataclasses import dataclass
from enum import StrEnum


class Sort(StrEnum):
    """What papers consist of."""

    THEOREM = "theorem"
    ATTRIBUTION = "attribution"
    ATTACK = "attack"
    METRIC = "metric"
    TRAINING = "training"
    FIGURE = "figure"
    TABLE = "table"
    NETWORK = "network"


@dataclass(frozen=True)
class Item:
    """`part` is its number or name in the paper, `module` its home in attrcert and `command` what shows it: both are empty where
    attrcert lacks it. `corrected` says what the paper, or its code, has wrong.
    """

    part: str
    sort: Sort
    says: str
    module: str = ""
    command: str = ""
    corrected: str = ""
