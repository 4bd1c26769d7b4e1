"""The bound of each of several softplus versions against how close the version is to the ReLU network."""

from collections.abc import Sequence
from itertools import chain

from matplotlib.figure import Figure

from attrcert.columns import column_named
from attrcert.reporting.pages.drawing import MARKERS, colour
from attrcert.reporting.pages.plots import LINE, STYLES, Plot, legend_below
from attrcert.reporting.pages.worst import RunRows
from attrcert.reporting.summaries.fidelity import BOUNDED, Closeness, closeness
from attrcert.reporting.summaries.statistics import grouped, spoken

Line = list[tuple[float, float, float, float]]  # beta, share of labels kept, cosine of the maps, median of the bound


def trade_offs(runs: Sequence[RunRows]) -> tuple[Plot, ...]:
    """A figure for each bound that the runs have at several betas."""
    found = {run.name: closeness(run.rows) for run in runs}
    names = dict.fromkeys(one.figure for one in chain(*found.values()))
    return tuple(_plot(name, found, apart=len(runs) > 1) for name in names)


def _plot(figure: str, found: dict[str, tuple[Closeness, ...]], *, apart: bool) -> Plot:
    lines = {
        ", ".join([*([run] if apart else []), *words, case]): _line(versions, case, figure)
        for run, whole in found.items()
        for words, versions in grouped(whole, _others).items()
        for case in dict.fromkeys(case for one in versions if one.figure == figure for case in one.medians)
    }

    def draw(drawn: Figure) -> None:
        left, right = drawn.subplots(1, 2, sharey=True)
        for axes, place, name in ((left, 1, "share of labels kept"), (right, 2, "mean cosine of the maps")):
            for number, (label, line) in enumerate(lines.items()):
                x, y = [point[place] for point in line], [point[3] for point in line]
                style = {"marker": MARKERS[number % len(MARKERS)], "linestyle": STYLES[number % len(STYLES)]}
                axes.plot(x, y, color=colour(number), label=label, markersize=5, **style)
                for point, along, up in zip(line, x, y, strict=True):
                    axes.annotate(f"{point[0]:g}", (along, up), (4, 4), textcoords="offset points", fontsize=8)
            axes.set(xlabel=name)
            axes.margins(0.15)
        left.set(ylabel=f"median {figure}", ylim=(0, None))
        legend_below(left)

    caption = (
        f"Median {figure} of each softplus version, against how close the version is to the ReLU network; the numbers are its beta. To the "
        "right it is closer. Where half of the samples have no bound, it is drawn as the worst there is."
    )
    return Plot(f"trade-off-{figure}", "Bound against fidelity", caption, draw, (7.2, 3.9 + LINE * len(lines)))


def _others(one: Closeness) -> tuple[str, ...]:
    """The attribution and the norm, where the run has several."""
    return tuple(spoken({name: cell for name, cell in one.of.items() if name != "softplus_beta"}))


def _line(versions: Sequence[Closeness], case: str, figure: str) -> Line:
    """From the smallest beta on."""
    column = column_named(figure, BOUNDED[figure])
    worst = (column.lacking if column else None) or 0.0
    points = []
    for one in sorted(versions, key=lambda one: one.beta):
        if case in one.medians and one.map_cosine is not None:
            median = one.medians[case]
            points.append((one.beta, one.kept / one.samples, one.map_cosine, worst if median is None else median))
    return points
