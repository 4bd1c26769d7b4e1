"""Figures as the papers have them: linearisation error, bounds less what was reached, cosine distances, box plots of metrics."""

from collections.abc import Iterable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from attrcert.columns import Row, column_named
from attrcert.reporting.pages.drawing import (
    around_diagonal,
    cases,
    colour,
    curves,
    lines_with_bands,
    points,
    positive,
)
from attrcert.reporting.pages.plots import LINE, STYLES, Plot, legend_below
from attrcert.reporting.pages.worst import RunRows
from attrcert.reporting.summaries.statistics import grouped

MOST_POINTS = 400  # of a curve; of more samples as many quantiles are drawn
MOST_BOXES = 40
LINEAR = 0.1  # share of a map's length up to which what is left of a bound is drawn on a linear scale
LETTERS = 28  # of a run's name beside a box
MOST_CURVES = 12  # of several runs; of more those at the largest eps
LINEARISED = {"worst found": "eta", "random": "eta_random"}
BOXED = {"kendall": "Kendall's tau", "top_k": "top-k intersection"}


def paper_figures(runs: Sequence[RunRows]) -> Iterable[Plot | None]:
    """Those that the runs have rows for."""
    return (make(runs) for make in (_linearisation, _slack, _criterion, _boxes))


def _linearisation(runs: Sequence[RunRows]) -> Plot | None:
    """Figure 3 of wang2023practical."""
    known = {words: column_named(name, "bound") for words, name in LINEARISED.items()}
    drawn = curves(runs, {words: column for words, column in known.items() if column})
    found = [one for one in drawn if np.min(one[3]) > 0]
    caption = (
        "eta = |g(x+delta) - g(x) - J delta|, what first-order figures leave out: medians over samples, and the middle half. Where it is "
        "not small beside T_e, first-order figures say little."
    )
    draw, size = lines_with_bands(found, "eta", scale="log"), (7.2, 3.9 + LINE * len(found))
    return Plot("eta", "Linearisation error against eps", caption, draw, size) if found else None


def _slack(runs: Sequence[RunRows]) -> Plot | None:
    """Figure 8 of wang2023practical."""
    series = {
        (place, rows[0].get("eps") or 0.0, number): (f"{run.name}, {case}" if len(runs) > 1 else case, left)
        for place, run in enumerate(runs)
        for number, (case, rows) in enumerate(cases(run))
        if len(left := _left(rows))
    }
    if not series:
        return None
    if len(series) > MOST_CURVES and len(runs) > 1:
        largest = {key[0]: key[1] for key in sorted(series)}
        series = {(*key[:2], 0): one for key, one in series.items() if largest[key[0]] == key[1]}

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for (place, _, number), (label, left) in series.items():
            style = STYLES[number % len(STYLES)] if len(runs) > 1 else STYLES[0]
            ink = colour(place if len(runs) > 1 else number)
            shares = np.linspace(0, 1, min(len(left), MOST_POINTS) + 1)
            values = np.quantile(left, shares, method="inverted_cdf")
            axes.step(values, shares, where="post", label=label, color=ink, linestyle=style)
        axes.axvline(0, color=mpl.rcParams["text.color"], linewidth=1)
        axes.set(xlabel="(T_e - T_hat_e) / |g|", ylabel="share of samples", ylim=(0, 1.02))
        axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.5)
        axes.xaxis.set_major_formatter("{x:g}")
        legend_below(axes)

    caption = (
        "What the first-order bound leaves above the strongest attack on each sample, as a share of the map's length; logarithmic beyond "
        f"{LINEAR:g}. Left of 0 the attack exceeded it. Of several runs with more than {MOST_CURVES} curves, those at each run's largest "
        "eps are drawn."
    )
    return Plot("slack", "First-order bound less what attacks reach", caption, draw, (7.2, 3.9 + LINE * len(series)))


def _left(rows: Sequence[Row]) -> np.ndarray:
    """T_e less the largest T_hat_e of each sample, in units of |g| and in order."""
    least: dict[object, float] = {}
    for row in rows:
        bound, reached, length = row.get("T_e"), row.get("T_hat_e"), row.get("g_norm")
        if isinstance(bound, float) and isinstance(reached, float) and isinstance(length, float) and length > 0:
            least[row["index"]] = min(least.get(row["index"], np.inf), (bound - reached) / length)
    return np.sort(np.array(list(least.values())))


def _criterion(runs: Sequence[RunRows]) -> Plot | None:
    """Figure 3b of joo2023towards, with the bound that follows from T_e."""
    turned = points(runs, "T_c_deg", "T_hat_c_deg")
    # (1 - cos) / 2 without cancellation
    series = positive({label: np.sin(np.radians(found) / 2) ** 2 for label, found in turned.items()})
    if not series:
        return None
    caption = (
        "CRC = (1 - cosine) / 2 at the attacked points, against (1 - sqrt(1 - r^2)) / 2 with r = T_e / |g|, which bounds it to first "
        "order: above the diagonal the attack exceeded T_e. Samples where T_e reaches |g| have no point."
    )
    draw = around_diagonal(series, "bound of CRC", "reached CRC", "CRC = its bound")
    return Plot("crc", "Cosine distance against its bound", caption, draw, (6.2, 5.2 + LINE * len(series)))


def _boxes(runs: Sequence[RunRows]) -> Plot | None:
    """Figure S2 of singh2020attributional."""
    groups = _boxed(runs)
    metrics = [name for name in BOXED if any(row.get(name) is not None for _, rows in groups for row in rows)]
    if not metrics:
        return None

    def draw(figure: Figure) -> None:
        grid = figure.subplots(1, len(metrics), sharey=True, squeeze=False)
        for axes, name in zip(grid.flat, metrics, strict=True):
            values = [[row[name] for row in rows if row.get(name) is not None] for _, rows in groups]
            lines = {"color": mpl.rcParams["text.color"], "linewidth": 1}
            boxes = axes.boxplot(
                values, orientation="horizontal", whis=(5, 95), showfliers=False, patch_artist=True, widths=0.6, manage_ticks=False,
                medianprops=lines, whiskerprops=lines, capprops=lines,
            )  # fmt: skip
            for place, box in enumerate(boxes["boxes"]):
                box.set(facecolor=colour(place), alpha=0.75, linewidth=0)
            axes.set(xlabel=BOXED[name], xlim=(None, 1.02))
        grid.flat[0].set_yticks(range(1, len(groups) + 1), [label for label, _ in groups])
        grid.flat[0].set_ylim(len(groups) + 0.5, 0.5)

    caption = (
        "Between the map at x and at the attacked point: the middle half of the samples, the median, and whiskers from the 5th to the 95th "
        f"percentile. 1 means that the order stayed. Of more than {MOST_BOXES} boxes, those at each run's largest eps are drawn, at most "
        f"{MOST_BOXES}."
    )
    return Plot("boxes", "Kendall's tau and top-k under attack", caption, draw, (7.2, 1.4 + 0.32 * len(groups)))


def _boxed(runs: Sequence[RunRows]) -> list[tuple[str, list[Row]]]:
    """Rows by run, eps and attack, named by what differs; where these are too many, the largest eps of each run."""
    having = [run for run in runs if any(row.get(name) is not None for row in run.usable for name in BOXED)]
    found = {
        (run.name, eps, attack): rows
        for run in having
        for (eps, attack), rows in grouped(run.usable, lambda row: (row.get("eps") or 0.0, row.get("attack"))).items()
    }
    if len(found) > MOST_BOXES:
        largest = {run.name: max(eps for name, eps, _ in found if name == run.name) for run in having}
        found = {key: rows for key, rows in found.items() if key[1] == largest[key[0]]}
    kept = dict(list(found.items())[:MOST_BOXES])
    several = [len({key[part] for key in kept}) > 1 for part in range(3)]
    return [
        (", ".join(word for word, differs in zip(words, several, strict=True) if differs) or words[0], rows)
        for (name, eps, attack), rows in kept.items()
        for words in [(_ends(name), f"eps {eps:.4g}", str(attack))]
    ]


def _ends(name: str) -> str:
    """Of a long name its beginning and its end, where runs differ."""
    half = LETTERS // 2
    return name if len(name) <= LETTERS else f"{name[: half - 1]}...{name[-half:]}"
