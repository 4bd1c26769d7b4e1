"""Confidence bounds and distributions."""

from typing import TYPE_CHECKING

from attrcert.registry import Family

if TYPE_CHECKING:
    from attrcert.statistics.confidence import Confidence

CONFIDENCES: "Family[Confidence]" = Family(
    "confidence bound",
    {
        "betting": "attrcert.statistics.confidence:Betting",
        "empirical-bernstein": "attrcert.statistics.confidence:EmpiricalBernstein",
        "mcdiarmid": "attrcert.statistics.confidence:McDiarmid",
    },
)
