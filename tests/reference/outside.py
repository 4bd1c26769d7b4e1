"""Somebody else's package: one attribution, attack, metric, score, option and bound more, each put into its place."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from attrcert.attacks import ATTACKS
from attrcert.attacks.euclidean import EuclideanAttack
from attrcert.attributions import ATTRIBUTIONS
from attrcert.attributions.gradient import Saliency
from attrcert.columns import Column, register
from attrcert.linalg.maps import ColumnScaled
from attrcert.metrics import register as register_metric
from attrcert.running.evaluating.attacking import Attacks
from attrcert.running.evaluating.bounding import Bounds
from attrcert.running.evaluating.cells import Bounded
from attrcert.saved.schemas import INTRODUCED
from attrcert.scores import About
from attrcert.scores import register as register_score
from attrcert.scores.sight import Score
from attrcert.settings.commands import COMMANDS
from attrcert.settings.declared import METHOD, Settings, setting
from attrcert.settings.tasks import AttackConfig, BoundConfig
from attrcert.vocabulary import Guarantee

PART = Column(
    "T_part", float, "a part of what was bounded, for a test", Guarantee.FIRST_ORDER, "up", least=0, bounds="T_hat_e", headline=True,
    axis="part of the bound", compared=("mean",), place=30,
)  # fmt: skip
FLAG = Column("violated_part", bool, "whether T_hat_e exceeds T_part", judges="T_part")
SPREAD = Column("spread", float, "largest entry of a map, by |.|", Guarantee.EMPIRICAL, "up", least=0, headline=True)
LARGEST = Column("largest", float, "largest difference of two entries", Guarantee.EMPIRICAL, "up", least=0)


@dataclass(frozen=True)
class Halved(Saliency):
    """Half of the gradient."""

    def value(self, f, x, y, draws=None):
        return super().value(f, x, y, draws) / 2

    def explain(self, f, x, y, draws=None):
        whole = super().explain(f, x, y, draws)
        half = torch.full_like(whole.value, 0.5)
        return replace(whole, value=whole.value / 2, jacobian=ColumnScaled(whole.jacobian, half))


@dataclass(frozen=True)
class Again(EuclideanAttack):
    """The Euclidean attack under another name."""


@dataclass(frozen=True)
class Largest:
    """The largest difference of two entries."""

    rising = True

    def __call__(self, moved, original, shape):
        return (moved - original).abs().amax(dim=1)


@dataclass(frozen=True)
class Spread(Score):
    """The largest entry of a map."""

    def __call__(self, seen):
        return [{"spread": seen.g.abs().amax(dim=1).tolist()}]


@dataclass(frozen=True)
class Parting(Settings):
    share: float = setting(0.5, "What T_part is of T_e [a share].", METHOD, positive=True, most=1)


@dataclass(frozen=True, init=False)
class PartBound(BoundConfig):
    parting: Parting
    work: ClassVar[str] = "reference.outside:PartBounds"


@dataclass(frozen=True, init=False)
class PartAttack(AttackConfig):
    parting: Parting
    work: ClassVar[str] = "reference.outside:PartAttacks"


class PartBounded(Bounded):
    def rows(self, eps):
        share = self.subject.config.parting.share
        return [{**row, "T_part": share * row["T_e"]} for row in super().rows(eps)]


class Parted:
    def bounded(self, subject):
        whole = super().bounded(subject)
        return PartBounded(subject, whole.found, whole.worst, whole.linearisation)


class PartBounds(Parted, Bounds):
    pass


class PartAttacks(Parted, Attacks):
    pass


def register_all() -> None:
    ATTRIBUTIONS.register("halved", Halved)
    ATTACKS.register("again", Again)
    register_metric("largest", Largest, LARGEST)
    register_score("spread", Spread, About(), SPREAD)
    register(PART, "bound", "attack")
    register(FLAG, "attack")
    COMMANDS["bound"] = replace(COMMANDS["bound"], plain=PartBound)
    COMMANDS["attack"] = replace(COMMANDS["attack"], plain=PartAttack)
    INTRODUCED["share"] = (1, 0.5)  # what runs did before there was such an option
