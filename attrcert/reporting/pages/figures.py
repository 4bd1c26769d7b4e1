"""The figures of a report, from rows alone: what attacks reach against what was bounded, distributions, curves, counts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from attrcert.columns import COLUMNS, Column, Row, declared, verdicts
from attrcert.reporting.pages.plots import LINE, Plot, legend_below
from attrcert.reporting.pages.worst import RunRows
from attrcert.reporting.summaries.statistics import grouped
from attrcert.vocabulary import Guarantee, Status

# on white and on black
COLOURS = (
    "#3f87c6", "#e0813c", "#2fa37c", "#b65fa5", "#c7a02c", "#7b80d4", "#d3566a", "#57a8a0", "#9a7453", "#52a7cf", "#94a03a",
    "#d67fb0",
)  # fmt: skip
STATUS_COLOURS = {
    Status.EVERYWHERE: "#3f87c6",
    Status.OK: "#2fa37c",
    Status.VACUOUS: "#e0813c",
    Status.ABSTAINED: "#b65fa5",
    Status.INFEASIBLE: "#7b80d4",
    Status.LABEL_CHANGED: "#57a8a0",
    Status.NOT_CONVERGED: "#d3566a",
}
ERROR_COLOUR = "#8a3040"
STYLES = ("-", "--", ":", "-.")
MARKERS = "osD^v<>P"
RASTER = 2000  # points beyond which a scatter is drawn as pixels


def plots(runs: Sequence[RunRows]) -> tuple[Plot, ...]:
    """Those that the runs have figures for."""
    makers = (_distributions, _angles, _tightness, _statuses)
    named = [replace(run, name=_legible(run.name)) for run in runs]
    found = (*_scatters(named), *(make(named) for make in makers))
    return tuple(plot for plot in found if plot is not None)


def _legible(name: str) -> str:
    """Without what is no text; a name that begins with _ would not be in legends."""
    text = name.encode(errors="replace").decode()
    return f" {text}" if text.startswith("_") else text


ABOVE = {  # what points above the diagonal say of a bound
    Guarantee.PROVED: "{} holds for every perturbation in the ball: no point may lie above the diagonal.",
    Guarantee.FIRST_ORDER: "Above the diagonal the attack exceeded {}: it bounds the linearised attribution only.",
}
ESTIMATED = "Above the diagonal the attack exceeded {}: it is an estimate."


def _scatters(runs: Sequence[RunRows]) -> Iterable[Plot | None]:
    """Every drawn bound of how far a map moves, against that."""
    drawn = [bound for _, bound in verdicts() if bound.axis]
    for number, bound in enumerate(drawn):
        name = "scatter" if not number else f"scatter-{bound.name.removeprefix('T_').replace('_', '-')}"
        yield _against(runs, bound, name)


def _against(runs: Sequence[RunRows], column: Column, name: str) -> Plot | None:
    bound, reached, promised = column.name, column.bounds, column.promised
    above = ABOVE.get(promised, ESTIMATED) if promised else ESTIMATED
    series = {label: points[(points > 0).all(axis=1)] for label, points in _points(runs, bound, reached).items()}
    series = {label: points for label, points in series.items() if len(points)}
    if not series:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for place, (label, points) in enumerate(series.items()):
            x, y = points.T
            axes.scatter(
                x, y, s=16, alpha=0.65, label=label, color=_colour(place), marker=MARKERS[place % len(MARKERS)],
                linewidths=0, rasterized=len(points) > RASTER,
            )  # fmt: skip
        whole = np.concatenate(list(series.values()))
        low, high = whole.min() / 1.3, whole.max() * 1.3
        axes.plot([low, high], [low, high], color=mpl.rcParams["text.color"], linewidth=1, label=f"{reached} = {bound}")
        axes.set(
            xscale="log",
            yscale="log",
            xlim=(low, high),
            ylim=(low, high),
            xlabel=f"bound {bound}",
            ylabel=f"reached {reached}",
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        legend_below(axes)

    title = f"What attacks reach, against the {column.guarantee} bound"
    return Plot(
        name, title, f"A point per sample, eps and attack. {above.format(bound)}", draw, (6.2, 5.2 + LINE * len(series))
    )


def _distributions(runs: Sequence[RunRows]) -> Plot | None:
    drawn = {column.name: column for column in sorted(declared(), key=lambda one: one.rank) if column.axis}
    others = {column.name for column in declared() if not column.axis}  # an attack's cosine is no bound
    found = {}
    for name, column in drawn.items():
        having = [run for run in runs if name not in others or column in COLUMNS[run.command]]
        if series := _values(having, name):
            found[name] = series
    told = {drawn[name].follows for name in found}  # by the angle that follows from it
    panels = {drawn[name]: series for name, series in found.items() if name not in told}
    if not panels:
        return None

    def draw(figure: Figure) -> None:
        grid = figure.subplots(-(-len(panels) // 2), min(2, len(panels)), squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.remove()
        for axes, (column, series) in zip(grid.flat, panels.items(), strict=False):
            for label, (place, style, values, total) in series.items():
                below = column.worse == "down" and column.lacking is not None  # where a sample without it counts
                missing = total - len(values) if below else 0
                heights = (missing + np.arange(len(values) + 1)) / total
                axes.step(
                    [values[0], *values], heights, where="post", label=label, color=_colour(place), linestyle=style
                )
            axes.set(xlabel=column.axis, ylabel="share of samples", ylim=(0, 1.02))
            legend_below(axes)

    caption = (
        "The share of samples whose figure is at most x. A curve that ends below 1 has samples without it: vacuous, infeasible, or with "
        "an eps that nothing limits."
    )
    names = max(map(len, panels.values()))
    return Plot("ecdf", "Distribution of the bounds", caption, draw, (7.2, (3.6 + LINE * names) * -(-len(panels) // 2)))


def _values(runs: Sequence[RunRows], column: str) -> dict[str, tuple[int, str, list[float], int]]:
    """By run and case: colour and style, the sorted figures, the number of samples. A colour is a run's, or a case's of one run."""
    found: dict[str, tuple[int, str, list[float], int]] = {}
    for number, run in enumerate(runs):
        for case, (label, rows) in enumerate(_cases(run)):
            by_sample = {row["index"]: row.get(column) for row in rows}  # attacks on a sample share its bound
            values = sorted(float(cell) for cell in by_sample.values() if isinstance(cell, int | float))
            name = ", ".join([run.name, label]) if len(runs) > 1 else label
            place, style = (number, STYLES[case % len(STYLES)]) if len(runs) > 1 else (case, STYLES[0])
            twin = next((other for other, one in found.items() if one[2:] == (values, len(by_sample))), None)
            if twin is not None:  # a bound and the attack on it: one curve, two names
                found[f"{twin} = {name}"] = found.pop(twin)
            elif values:
                found[name] = (place, style, values, len(by_sample))
    return found


def _cases(run: RunRows) -> Iterable[tuple[str, list[Row]]]:
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


def _angles(runs: Sequence[RunRows]) -> Plot | None:
    """Medians over samples with the middle half, for figures of at least two eps."""
    columns = sorted((column for column in COLUMNS["attack"] if column.curve), key=lambda one: one.rank)
    curves = []
    for place, run in enumerate(runs):
        for number, column in enumerate(columns):
            points = _curve(run.usable, column)
            if len(points) > 1:
                label = f"{run.name}: {column.curve}" if len(runs) > 1 else column.curve
                style = STYLES[number % len(STYLES)]
                curves.append((label, style, place if len(runs) > 1 else number, points))
    if not curves:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for label, style, place, points in curves:
            eps, middle, low, high = np.array(points).T
            axes.plot(eps, middle, style, color=_colour(place), label=label, marker="o", markersize=3.5)
            axes.fill_between(eps, low, high, color=_colour(place), alpha=0.12, linewidth=0)
        axes.set(xlabel="eps", ylabel="angle, degrees", ylim=(0, None))
        legend_below(axes)

    caption = (
        "Medians over samples, and the middle half. A sample without a bound counts as 180 degrees; of several attacks the "
        "strongest on each sample counts."
    )
    return Plot("angles", "Angle against eps", caption, draw, (7.2, 3.9 + LINE * len(curves)))


def _curve(rows: Sequence[Row], column: Column) -> list[tuple[float, float, float, float]]:
    """eps, median and quartiles; of each sample the worst of the attacks."""
    worst: dict[Any, dict[Any, float]] = {}
    if not any(row.get(column.name) is not None for row in rows):
        return []
    for row in rows:
        cell = column.lacking if row.get(column.name) is None else row[column.name]
        if row.get("eps") is not None and isinstance(cell, int | float):
            of_eps = worst.setdefault(row["eps"], {})
            of_eps[row["index"]] = max(of_eps.get(row["index"], 0.0), float(cell))
    found = [(eps, np.percentile(list(angles.values()), [50, 25, 75])) for eps, angles in sorted(worst.items())]
    return [(float(eps), float(middle), float(low), float(high)) for eps, (middle, low, high) in found]


def _tightness(runs: Sequence[RunRows]) -> Plot | None:
    series = {label: points[:, 0] for label, points in _points(runs, "tightness").items()}
    if not series:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        largest = max(1.0, *(max(values) for values in series.values()))
        axes.hist(
            list(series.values()),
            bins=np.linspace(0, largest * 1.02, 25).tolist(),
            label=list(series),
            color=[_colour(place) for place in range(len(series))],
        )
        axes.axvline(1, color=mpl.rcParams["text.color"], linewidth=1)
        axes.set(xlabel="T_hat_e / T_e", ylabel="rows")
        legend_below(axes)

    caption = "How much of the first-order bound the attack reached; right of 1 it exceeded it."
    return Plot("tightness", "Tightness", caption, draw, (7.2, 3.9 + LINE * len(series)))


def _statuses(runs: Sequence[RunRows]) -> Plot | None:
    counts = {run.name: Counter(str(row["status"]) for row in run.rows) for run in runs if run.rows}
    if not counts:
        return None
    order = [*Status, *sorted({status for count in counts.values() for status in count if status not in tuple(Status)})]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        left = np.zeros(len(counts))
        for status in order:
            widths = np.array([count[status] for count in counts.values()], dtype=float)
            if widths.any():
                colour = STATUS_COLOURS.get(status, ERROR_COLOUR)
                axes.barh(
                    list(counts), widths, left=left, color=colour, label=f"{status} ({int(widths.sum())})", height=0.6
                )
                left += widths
        axes.set(xlabel="rows")
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        legend_below(axes)

    return Plot("status", "How the rows ended", "Rows by status.", draw, (7.2, 2.0 + 0.4 * len(counts)))


def _points(runs: Sequence[RunRows], *names: str) -> dict[str, np.ndarray]:
    """Of the rows that have all of these figures, a point each: by run where several have attacks, else by attack."""
    having = [run for run in runs if any(row.get("attack") is not None for row in run.rows)]
    parts = {run.name: run.usable for run in having}
    if len(having) == 1:
        parts = grouped(having[0].usable, lambda row: str(row.get("attack")))
    found = {label: [[row.get(name) for name in names] for row in rows] for label, rows in parts.items()}
    full = {label: [cells for cells in lines if None not in cells] for label, lines in found.items()}
    return {label: np.array(cells, dtype=float) for label, cells in full.items() if cells}


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]
