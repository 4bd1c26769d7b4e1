"""The columns of maps that are certified pixel by pixel."""

from attrcert.columns.column import Column, figure
from attrcert.columns.smoothed import SMOOTH
from attrcert.vocabulary import Guarantee

PROMISED = Guarantee.CONFIDENCE
_NOISE = {column.name: column for column in SMOOTH}
COUNTS = (
    Column("pixels_marked", int, "how many pixels are the largest K % (--certify-pixels K%)", least=1),
    Column("pixels_top", int, "pixels certified to stay among the largest K % for most of the noise", PROMISED, "down", least=0),
    Column("pixels_not", int, "pixels certified to stay outside", PROMISED, "down", least=0),
    Column("pixels_abstained", int, "pixels of which nothing is certified", worse="up", least=0),
    figure(
        "pixels_share", PROMISED, "pixels_top / pixels_marked, at most 1: the share of the largest K % that is certified",
        worse="down", most=1, headline=True, rank=16, axis="certified share of the largest pixels", compared=("mean", "min"), place=22,
        leads=True,
    ),
    figure(
        "pixel_radius", PROMISED, "|delta|_2 within which every certified pixel keeps its side: sigma Phi^-1(--pixel-level)",
        worse="down", place=23,
    ),
)  # fmt: skip
PIXELS = (*(_NOISE[name] for name in ("noise", "radius", "samples")), *COUNTS, _NOISE["failure"])
