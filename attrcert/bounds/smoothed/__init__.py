"""Bounds of attributions averaged over noise, which hold with confidence or for any network."""

from typing import TYPE_CHECKING

from attrcert.registry import Family

if TYPE_CHECKING:
    from attrcert.bounds.smoothed.averaged import CosineRule

RULES: "Family[CosineRule]" = Family(
    "rule",
    {
        "auto": "attrcert.bounds.smoothed.covariance_rule:Best",
        "moments": "attrcert.bounds.smoothed.covariance_rule:Moments",
        "tight": "attrcert.bounds.smoothed.cosine_bounds:Tight",
        "tangent": "attrcert.bounds.smoothed.cosine_bounds:Tangent",
        "published": "attrcert.bounds.smoothed.cosine_bounds:Published",
    },
)
