"""The figures of a report, from rows alone: what attacks reach against what was bounded, distributions, curves, counts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from attrcert.columns import COLUMNS, Column, declared, verdicts
from attrcert.reporting.pages.drawing import (
    around_diagonal,
    cases,
    colour,
    curves,
    lines_with_bands,
    points,
    positive,
)
from attrcert.reporting.pages.paper_figures import paper_figures
from attrcert.reporting.pages.plots import LINE, STYLES, Plot, legend_below
from attrcert.reporting.pages.score_figures import score_figures
from attrcert.reporting.pages.worst import RunRows
from attrcert.reporting.summaries.attacks import summarise_attacks
from attrcert.reporting.summaries.statistics import on_maps
from attrcert.vocabulary import Guarantee, Status

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


def plots(runs: Sequence[RunRows]) -> tuple[Plot, ...]:
    """Those that the runs have figures for."""
    named = [replace(run, name=_legible(run.name)) for run in runs]
    moved = [replace(run, rows=on_maps(run.rows)) for run in named]
    makers = (_distributions, _angles, _tightness)
    found = (
        *_scatters(moved),
        *(make(moved) for make in makers),
        _accuracies(named),
        _statuses(named),
        *paper_figures(moved),
        *score_figures(named),
    )
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
    series = positive(points(runs, bound, reached))
    if not series:
        return None
    draw = around_diagonal(series, f"bound {bound}", f"reached {reached}", f"{reached} = {bound}")
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
                    [values[0], *values], heights, where="post", label=label, color=colour(place), linestyle=style
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
        for case, (label, rows) in enumerate(cases(run)):
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


def _angles(runs: Sequence[RunRows]) -> Plot | None:
    """Medians over samples with the middle half, for figures of at least two eps."""
    columns = sorted((column for column in COLUMNS["attack"] if column.curve), key=lambda one: one.rank)
    found = curves(runs, {column.curve: column for column in columns})
    if not found:
        return None
    caption = (
        "Medians over samples, and the middle half. A sample without a bound counts as 180 degrees; of several attacks the "
        "strongest on each sample counts."
    )
    size = (7.2, 3.9 + LINE * len(found))
    return Plot("angles", "Angle against eps", caption, lines_with_bands(found, "angle, degrees"), size)


def _tightness(runs: Sequence[RunRows]) -> Plot | None:
    series = {label: found[:, 0] for label, found in points(runs, "tightness").items()}
    if not series:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        largest = max(1.0, *(max(values) for values in series.values()))
        axes.hist(
            list(series.values()),
            bins=np.linspace(0, largest * 1.02, 25).tolist(),
            label=list(series),
            color=[colour(place) for place in range(len(series))],
        )
        axes.axvline(1, color=mpl.rcParams["text.color"], linewidth=1)
        axes.set(xlabel="T_hat_e / T_e", ylabel="rows")
        legend_below(axes)

    caption = "How much of the first-order bound the attack reached; right of 1 it exceeded it."
    return Plot("tightness", "Tightness", caption, draw, (7.2, 3.9 + LINE * len(series)))


def _accuracies(runs: Sequence[RunRows]) -> Plot | None:
    """Of attacks on the prediction, at two eps at least."""
    lines: dict[str, list[tuple[float, float, float, float]]] = {}
    for run in (run for run in runs if run.command == "attack"):
        for part in summarise_attacks(run.rows):
            if one := part.predictions:
                name = f"{run.name}: {part.attack}" if len(runs) > 1 else part.attack
                lines.setdefault(name, []).append((part.eps, one.accuracy_attacked, one.low, one.high))
    found = [
        (name, STYLES[0], place, sorted(line)) for place, (name, line) in enumerate(lines.items()) if len(line) > 1
    ]
    if not found:
        return None
    caption = "The share of samples that are right under the attack: a stronger one may leave fewer. The bands are its 95% intervals."
    draw, size = lines_with_bands(found, "accuracy under attack"), (7.2, 3.9 + LINE * len(found))
    return Plot("accuracy", "Accuracy under attack", caption, draw, size)


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
