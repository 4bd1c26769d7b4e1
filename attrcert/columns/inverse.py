"""The columns of thresholds, and of the largest eps that keeps one."""

from attrcert.columns.column import OF_ROW, Column, figure
from attrcert.vocabulary import COSINE, THRESHOLDS

INVERSE = (
    Column(
        "threshold_kind", str, "deviation, cosine-distance, angle, top-k, or cosine (smoothed)",
        words=(*THRESHOLDS, COSINE), case=True, place=7,
    ),
    Column("threshold", float, "what must not be exceeded, or the least cosine or share", least=0, case=True, place=8),
    figure(
        "eps_max", OF_ROW, "largest eps at which the bound keeps the threshold, rounded down",
        worse="down", bounds="threshold", rank=13, axis="largest eps that keeps the threshold", compared=("mean", "p5"), place=20,
        leads=True,
    ),
)  # fmt: skip
DEVIATION_ALLOWED = Column(
    "deviation_allowed",
    float,
    "the largest |g(x+delta) - g(x)|_2 that keeps the threshold; empty where every one does",
    least=0,
    since=3,
)
