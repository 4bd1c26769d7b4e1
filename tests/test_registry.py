"""Families: their names are known without torch, their members are there, and a name is taken once."""

import dataclasses
import subprocess
import sys
from dataclasses import dataclass

import pytest

from attrcert.attacks import ATTACKS
from attrcert.attributions import ATTRIBUTIONS, BOUNDINGS
from attrcert.bounds.smoothed import RULES
from attrcert.errors import UsageError
from attrcert.metrics import METRICS
from attrcert.registry import Family
from attrcert.scores import SCORES
from attrcert.statistics import CONFIDENCES

FAMILIES = {family.kind: family for family in (ATTACKS, ATTRIBUTIONS, BOUNDINGS, RULES, METRICS, CONFIDENCES, SCORES)}


@dataclass(frozen=True)
class Shape:
    corners: int = 3


def shapes() -> Family[Shape]:
    return Family("shape", {"triangle": Shape}, {"tri": "triangle"})


@pytest.mark.parametrize("package", ["attacks", "attributions", "bounds.smoothed", "metrics", "scores", "statistics"])
def test_the_names_of_a_family_are_known_without_torch(package):
    code = f"import sys, attrcert.{package}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, family in FAMILIES.items() for name in family])
def test_every_name_of_a_family_leads_to_a_class_with_fields_and_a_meaning(kind, name):
    member = FAMILIES[kind].member(name)
    assert dataclasses.is_dataclass(member)
    assert member.__doc__


def test_a_registered_member_is_made_by_its_name_and_its_aliases():
    family = shapes()
    family.register("polygon", Shape, ["poly", "many"])
    assert list(family) == ["triangle", "polygon"]
    assert (
        family.make("poly", corners=5)
        == family.make("many", corners=5)
        == family.make("polygon", corners=5)
        == Shape(5)
    )
    assert family.aliases("polygon") == ("poly", "many")


@pytest.mark.parametrize(
    ("name", "aliases"), [("triangle", ()), ("tri", ()), ("new", ("tri",)), ("new", ("triangle",))]
)
def test_a_name_that_is_taken_is_refused_and_nothing_is_registered(name, aliases):
    family = shapes()
    with pytest.raises(UsageError, match="is there already"):
        family.register(name, Shape, aliases)
    assert list(family) == ["triangle"]
    assert family.aliases("triangle") == ("tri",)
