"""Figures of scores: insertion curves, similarity by eps, the cosine criterion against its bounds [joo2023towards]."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from matplotlib.figure import Figure

from attrcert.columns import METRIC, Cell, Row, column_named
from attrcert.reporting.pages.drawing import around_diagonal, colour, curves, lines_with_bands, positive
from attrcert.reporting.pages.plots import LINE, STYLES, Plot, legend_below
from attrcert.reporting.pages.worst import RunRows
from attrcert.reporting.summaries.statistics import figures, grouped, mean

SIMILARITIES = {"cosine": "rps_cosine", "Pearson": "rps_pearson", "SSIM": "rps_ssim"}
BOUNDS = {"published, first-order": "crc_published", "that holds": "crc_bound"}


def score_figures(runs: Sequence[RunRows]) -> Iterable[Plot | None]:
    """Those that the runs have rows for."""
    return (make(runs) for make in (_exchanged, _similarity, _criterion))


def _exchanged(runs: Sequence[RunRows]) -> Plot | None:
    """The mean curve of each metric that puts pixels in or takes them out."""
    drawn = [
        (place, number, f"{run.name}: {case}" if len(runs) > 1 else case, curve)
        for place, run in enumerate(runs)
        for number, (case, rows) in enumerate(_cases(run).items())
        if (curve := _mean_curve(rows))
    ]
    if not drawn:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, number, label, curve in drawn:
            ink, style = (place, STYLES[number % len(STYLES)]) if len(runs) > 1 else (number, STYLES[0])
            axes.plot(*zip(*curve, strict=True), style, color=colour(ink), label=label)
        axes.set(xlabel="share of the pixels", ylabel="probability of the explained class", xlim=(0, 1), ylim=(0, 1.02))
        legend_below(axes)

    caption = (
        "Means over samples as pixels are put in (insertion) or taken out (deletion), the most important first. A good map rises early, "
        "and falls early; adv-insertion has the order of the attacked map."
    )
    return Plot("insertion", "Insertion and deletion", caption, draw, (7.2, 3.9 + LINE * len(drawn)))


def _cases(run: RunRows) -> dict[str, list[Row]]:
    """Rows with a curve, by metric and eps."""
    having = [row for row in run.usable if row.get("curve") is not None]
    return grouped(having, lambda row: _case(row.get(METRIC.name), row.get("eps")))


def _case(metric: Cell, eps: Cell) -> str:
    return str(metric) if eps is None else f"{metric}, eps {eps:.4g}"


def _mean_curve(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Over the samples; a text that is no curve, as people may have written, has no points."""
    found: dict[float, list[float]] = {}
    for row in rows:
        for share, probability in _points(str(row["curve"])):
            found.setdefault(share, []).append(probability)
    return [(share, mean(found[share]) or 0.0) for share in sorted(found)]


def _points(text: str) -> list[tuple[float, float]]:
    try:
        pairs = [part.split(":") for part in text.split(";")]
        return [(float(share), float(probability)) for share, probability in pairs]
    except ValueError:
        return []


def _similarity(runs: Sequence[RunRows]) -> Plot | None:
    known = {words: column_named(name, "score") for words, name in SIMILARITIES.items()}
    found = curves(runs, {words: column for words, column in known.items() if column})
    caption = "Similarity of the maps at x and at random points beside it: medians over samples, and the middle half. 1: the map stayed."
    draw, size = lines_with_bands(found, "similarity", bottom=None), (7.2, 3.9 + LINE * len(found))
    return Plot("rps", "Random-perturbation similarity against eps", caption, draw, size) if found else None


def _criterion(runs: Sequence[RunRows]) -> Plot | None:
    """Figure 3b of joo2023towards, with the bound that holds beside the one that it has."""
    series = {
        f"{run.name}: {words}" if len(runs) > 1 else words: np.array(pairs)
        for run in runs
        for words, name in BOUNDS.items()
        if (pairs := [figures([row], name) + figures([row], "crc") for row in run.usable if _both(row, name)])
    }
    drawn = positive(series)
    if not drawn:
        return None
    caption = (
        "CRC = (1 - cosine) / 2 at the worst perturbation that was tried, a point per sample and eps. Published: |J delta| / |g(x+delta)|, "
        "the theorem without its remainder, which CRC may exceed. (1 - sqrt(1 - r^2)) / 2 holds, r the change of the map by the longer map."
    )
    draw: Callable[[Figure], None] = around_diagonal(drawn, "bound of CRC", "CRC", "CRC = its bound")
    return Plot("crc-bounds", "The cosine criterion against its bounds", caption, draw, (6.2, 5.2 + LINE * len(drawn)))


def _both(row: Row, name: str) -> bool:
    return row.get(name) is not None and row.get("crc") is not None
