"""What the figures of a report have in common: colours, lines, and rows as series of points."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from attrcert.columns import Column, Row
from attrcert.reporting.pages.plots import COLOURS, STYLES, legend_below
from attrcert.reporting.pages.worst import RunRows
from attrcert.reporting.summaries.statistics import grouped

MARKERS = "osD^v<>P"
RASTER = 2000  # points beyond which a scatter is drawn as pixels
Curve = tuple[
    str, str, int, list[tuple[float, float, float, float]]
]  # a name, a style, a colour; eps, median and quartiles


def colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def cases(run: RunRows) -> Iterable[tuple[str, list[Row]]]:
    """Rows by what makes a bound of the run: eps, threshold, radius."""
    chosen = any(row.get("radii_tried") for row in run.rows)
    keys = ("eps", "threshold_kind", "threshold", *(() if chosen else ("radius",)))
    for case, rows in grouped(run.usable, lambda row: tuple(row.get(key) for key in keys)).items():
        told: dict[str, Any] = dict(zip(keys, case, strict=True))
        kind = told.pop("threshold_kind") or "threshold"
        words = [
            f"{kind if key == 'threshold' else key} {value:.6g}" for key, value in told.items() if value is not None
        ]
        yield ", ".join(words), rows


def points(runs: Sequence[RunRows], *names: str) -> dict[str, np.ndarray]:
    """Of the rows that have all of these figures, a point each: by run where several have attacks, else by attack."""
    having = [run for run in runs if any(row.get("attack") is not None for row in run.rows)]
    parts = {run.name: run.usable for run in having}
    if len(having) == 1:
        parts = grouped(having[0].usable, lambda row: str(row.get("attack")))
    found = {label: [[row.get(name) for name in names] for row in rows] for label, rows in parts.items()}
    full = {label: [cells for cells in lines if None not in cells] for label, lines in found.items()}
    return {label: np.array(cells, dtype=float) for label, cells in full.items() if cells}


def positive(series: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What can be drawn on a logarithmic scale."""
    kept = {label: found[(found > 0).all(axis=1)] for label, found in series.items()}
    return {label: found for label, found in kept.items() if len(found)}


def curves(runs: Sequence[RunRows], columns: Mapping[str, Column]) -> list[Curve]:
    """Of figures at two eps at least, by what they are called; a colour is a run's, or a figure's of one run."""
    found = []
    for place, run in enumerate(runs):
        for number, (name, column) in enumerate(columns.items()):
            along = _along(run.usable, column)
            if len(along) > 1:
                label = f"{run.name}: {name}" if len(runs) > 1 else name
                found.append((label, STYLES[number % len(STYLES)], place if len(runs) > 1 else number, along))
    return found


def _along(rows: Sequence[Row], column: Column) -> list[tuple[float, float, float, float]]:
    """eps, median and quartiles; of each sample the worst of the attacks."""
    worst: dict[Any, dict[Any, float]] = {}
    if not any(row.get(column.name) is not None for row in rows):
        return []
    for row in rows:
        cell = column.lacking if row.get(column.name) is None else row[column.name]
        if row.get("eps") is not None and isinstance(cell, int | float):
            of_eps = worst.setdefault(row["eps"], {})
            of_eps[row["index"]] = max(of_eps.get(row["index"], -np.inf), float(cell))
    found = [(eps, np.percentile(list(figures.values()), [50, 25, 75])) for eps, figures in sorted(worst.items())]
    return [(float(eps), float(middle), float(low), float(high)) for eps, (middle, low, high) in found]


def lines_with_bands(
    drawn: Sequence[Curve], ylabel: str, *, scale: str = "linear", bottom: float | None = 0
) -> Callable[[Figure], None]:
    """Medians against eps, and the middle half; a linear scale begins at `bottom`, or where the figures do."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for label, style, place, along in drawn:
            eps, middle, low, high = np.array(along).T
            axes.plot(eps, middle, style, color=colour(place), label=label, marker="o", markersize=3.5)
            axes.fill_between(eps, low, high, color=colour(place), alpha=0.12, linewidth=0)
        axes.set(xlabel="eps", ylabel=ylabel, xscale=scale, yscale=scale)
        if scale != "linear":
            _plain_powers(axes)
        elif bottom is not None:
            axes.set_ylim(bottom, None)
        legend_below(axes)

    return draw


def around_diagonal(
    series: Mapping[str, np.ndarray], xlabel: str, ylabel: str, diagonal: str
) -> Callable[[Figure], None]:
    """Points on logarithmic scales that are the same in both directions."""

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, (label, found) in enumerate(series.items()):
            x, y = found.T
            axes.scatter(
                x, y, s=16, alpha=0.65, label=label, color=colour(place), marker=MARKERS[place % len(MARKERS)],
                linewidths=0, rasterized=len(found) > RASTER,
            )  # fmt: skip
        whole = np.concatenate(list(series.values()))
        low, high = whole.min() / 1.3, whole.max() * 1.3
        axes.plot([low, high], [low, high], color=mpl.rcParams["text.color"], linewidth=1, label=diagonal)
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), xlabel=xlabel, ylabel=ylabel)
        _plain_powers(axes)
        legend_below(axes)

    return draw


def _plain_powers(axes: Axes) -> None:
    """Numbers as they are written beside logarithmic scales, as many as there is room for."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
