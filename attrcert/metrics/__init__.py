"""Metrics between an attribution map and the map that a perturbation moved it to."""

from typing import TYPE_CHECKING

from attrcert.columns import METRIC_COLUMNS, Column
from attrcert.columns import register as add_column
from attrcert.registry import Family

if TYPE_CHECKING:
    from attrcert.metrics.metric import Metric

METRICS: "Family[Metric]" = Family(
    "metric",
    {
        "euclidean": "attrcert.metrics.euclidean:Euclidean",
        "cosine": "attrcert.metrics.cosine:Cosine",
        "degrees": "attrcert.metrics.cosine:Degrees",
        "top-k": "attrcert.metrics.top_k:TopK",
        "top-k-mass": "attrcert.metrics.top_k:TopKMass",
        "kendall": "attrcert.metrics.kendall:Kendall",
        "spearman": "attrcert.metrics.spearman:Spearman",
        "pearson": "attrcert.metrics.pearson:Pearson",
        "mass-centre": "attrcert.metrics.mass_centre:MassCentre",
        "ssim": "attrcert.metrics.ssim:SSIM",
    },
)


def register(name: str, member: "type[Metric]", column: Column) -> None:
    """One more metric, with the column that its figures stand in."""
    METRICS.register(name, member)
    METRIC_COLUMNS[name] = column
    add_column(column, "attack")
