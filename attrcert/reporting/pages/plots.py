"""A figure of a report: drawn as a file, or as an element of the page in the page's own ink."""

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from attrcert.vocabulary import shortened

INK, INLINE_INK = "#222222", "#0a1b2c"  # of lines and letters; in a page the second one becomes the page's own
MARK = "attrcert report"  # in every file, so that only its own are replaced
_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # that XML cannot hold
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a file's name may have dollars
    "axes.axisbelow": True,
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "axes.titlesize": 10,
    "savefig.transparent": True,
}


# on white and on black
COLOURS = (
    "#3f87c6", "#e0813c", "#2fa37c", "#b65fa5", "#c7a02c", "#7b80d4", "#d3566a", "#57a8a0", "#9a7453", "#52a7cf", "#94a03a",
    "#d67fb0",
)  # fmt: skip
STYLES = ("-", "--", ":", "-.")
LETTERS = 64  # of a name that fit below a figure
LINE = 0.19  # inches of a line of a legend


def legend_below(axes: Axes) -> None:
    """Every name on a line of its own, where it hides nothing."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    below = axes.transAxes + ScaledTranslation(0, -0.55, figure.dpi_scale_trans)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(
        handles,
        [shortened(name, LETTERS) for name in names],
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        borderaxespad=0,
        fontsize=8,
    )


@dataclass(frozen=True)
class Plot:
    """A figure to be drawn: a short name for files, a title, what it shows in words, and how it is drawn."""

    name: str
    title: str
    caption: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (7.2, 3.9)

    def render(self, format_: str, *, ink: str = INK) -> bytes:
        inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
        salt = {"svg.hashsalt": self.name}  # the same figure, the same file
        with mpl.rc_context(SETTINGS | dict.fromkeys(inked, ink) | salt), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box stands for it
            figure = Figure(figsize=self.size, layout="constrained")
            self.draw(figure)
            stream = io.BytesIO()
            if format_ == "svg":
                metadata = {**dict.fromkeys(("Date", "Format", "Type")), "Creator": MARK}
                figure.savefig(stream, format="svg", metadata=metadata)
            else:
                marked = {"Software": MARK}
                figure.savefig(stream, format=format_, dpi=160, facecolor="white", transparent=False, metadata=marked)
            return _CONTROLS.sub(b"?", stream.getvalue()) if format_ == "svg" else stream.getvalue()

    def inline(self) -> str:
        """An <svg> element in the page's own ink, whose names do not clash with those of other figures."""
        text = self.render("svg", ink=INLINE_INK).decode()
        text = text[text.index("<svg") :].replace(INLINE_INK, "currentColor")
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        for mark in (' id="', "url(#", 'href="#'):
            text = text.replace(mark, f"{mark}{self.name}-")
        label = f'<svg role="img" aria-label="{escape(f"{self.title}. {self.caption}")}" '
        return re.sub(r'(width|height)="[\d.]+pt" ', "", text.replace("<svg ", label, 1), count=2)
