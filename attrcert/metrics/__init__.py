"""Metrics between an attribution map and the map that a perturbation moved it to."""

from attrcert.metrics.cosine import Cosine, Degrees
from attrcert.metrics.euclidean import Euclidean
from attrcert.metrics.kendall import Kendall
from attrcert.metrics.mass_centre import MassCentre
from attrcert.metrics.metric import Metric
from attrcert.metrics.pearson import Pearson
from attrcert.metrics.spearman import Spearman
from attrcert.metrics.ssim import SSIM
from attrcert.metrics.top_k import TopK, TopKMass
from attrcert.registry import Family

METRICS: Family[Metric] = Family(
    "metric",
    {
        "euclidean": Euclidean,
        "cosine": Cosine,
        "degrees": Degrees,
        "top-k": TopK,
        "top-k-mass": TopKMass,
        "kendall": Kendall,
        "spearman": Spearman,
        "pearson": Pearson,
        "mass-centre": MassCentre,
        "ssim": SSIM,
    },
)
