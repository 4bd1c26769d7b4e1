"""The papers' figures in a report: what is drawn is what the rows say, and a dozen runs stay readable."""

import base64
import io
import statistics
from dataclasses import replace
from itertools import pairwise
from math import radians, sin
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from attrcert.pictures import shaded
from attrcert.reporting.pages.figures import plots
from attrcert.reporting.pages.galleries import FIRST, jacobians
from attrcert.reporting.pages.paper_figures import MOST_BOXES, MOST_CURVES, MOST_POINTS
from attrcert.reporting.pages.plots import Plot
from attrcert.reporting.pages.worst import RunRows

ATTACKS, SIZES = ("euclidean", "top-k"), (0.1, 0.2)


def made_rows(samples: int = 7, sizes: tuple[float, ...] = SIZES, seed: int = 0) -> list[dict]:
    """Of an attack run; sample 0 has no bound's angle, as where T_e reaches |g|."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(samples):
        for eps in sizes:
            bound = {
                "T_e": eps * float(rng.uniform(2, 4)),
                "eta": eps**2 * float(rng.uniform(1, 2)),
                "eta_random": eps**3,
            }
            for attack in ATTACKS:
                angle = float(rng.uniform(1, 20))
                rows.append(
                    {
                        "index": index, "status": "ok", "eps": eps, "attack": attack, "g_norm": 2.0, **bound,
                        "T_hat_e": bound["T_e"] * float(rng.uniform(0.5, 1.2)), "T_hat_c_deg": angle,
                        **({"T_c_deg": 1.1 * angle} if index else {}),
                        "kendall": float(rng.uniform(0, 1)), "top_k": float(rng.uniform(0.5, 1)),
                    }
                )  # fmt: skip
    return rows


def shown(*runs: RunRows) -> dict[str, Plot]:
    return {plot.name: plot for plot in plots(list(runs))}


def drawn(plot: Plot) -> Figure:
    figure = Figure(figsize=plot.size)
    plot.draw(figure)
    return figure


@pytest.fixture
def rows() -> list[dict]:
    return made_rows()


@pytest.fixture
def one(rows) -> dict[str, Plot]:
    return shown(RunRows("one", "attack", rows))


def test_the_linearisation_error_is_a_median_over_samples_for_each_eps(one, rows):
    axes = drawn(one["eta"]).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    curves = {line.get_label(): line for line in axes.lines}
    for label, column in (("worst found", "eta"), ("random", "eta_random")):
        wanted = [
            statistics.median({row["index"]: row[column] for row in rows if row["eps"] == eps}.values())
            for eps in SIZES
        ]
        assert list(curves[label].get_xdata()) == list(SIZES)
        assert list(curves[label].get_ydata()) == pytest.approx(wanted)


def test_what_is_left_of_the_bound_is_that_above_the_strongest_attack(one, rows):
    figure = drawn(one["slack"])
    for line, eps in zip(figure.axes[0].lines, SIZES, strict=False):
        left = [
            min((row["T_e"] - row["T_hat_e"]) / 2 for row in rows if (row["index"], row["eps"]) == (index, eps))
            for index in range(7)
        ]
        assert line.get_label() == f"eps {eps}"
        assert list(line.get_xdata()[1:]) == pytest.approx(sorted(left))
        assert list(line.get_ydata()) == pytest.approx([share / 7 for share in range(8)])
    assert min(figure.axes[0].lines[0].get_xdata()) < 0  # some attack exceeded it


def test_a_point_lies_above_the_diagonal_where_the_attack_turned_the_map_farther(one, rows):
    found = {
        tuple(point)
        for collection in drawn(one["crc"]).axes[0].collections
        for point in np.asarray(collection.get_offsets()).round(12)
    }
    wanted = {
        tuple(np.round([sin(radians(row[name]) / 2) ** 2 for name in ("T_c_deg", "T_hat_c_deg")], 12))
        for row in rows
        if "T_c_deg" in row
    }
    assert found == wanted
    assert len(wanted) == 6 * 4


def test_a_box_has_the_median_of_its_rows(one, rows):
    left, right = drawn(one["boxes"]).axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == [f"eps {eps}, {attack}" for eps in SIZES for attack in ATTACKS]
    for axes, column in ((left, "kendall"), (right, "top_k")):
        # of each box: two whiskers, two caps, the median
        medians = [float(line.get_xdata()[0]) for line in axes.lines[4::5]]
        for median, name in zip(medians, names, strict=True):
            own = [row[column] for row in rows if name == f"eps {row['eps']}, {row['attack']}"]
            assert median == pytest.approx(statistics.median(own))


@pytest.mark.parametrize(
    ("column", "lost"),
    [("eta", ()), ("T_hat_e", ("slack",)), ("T_c_deg", ("crc",)), ("T_hat_c_deg", ("crc",)), ("kendall", ())],
)
def test_a_figure_whose_column_is_missing_is_not_drawn(rows, column, lost):
    fewer = shown(
        RunRows("one", "attack", [{name: cell for name, cell in row.items() if name != column} for row in rows])
    )
    assert {"eta", "slack", "crc", "boxes"} - set(fewer) == set(lost)
    if column == "kendall":
        assert len(drawn(fewer["boxes"]).axes) == 1


@pytest.mark.filterwarnings("error")
def test_a_run_without_a_metric_has_no_box_of_it_beside_one_that_has(rows):
    fewer = [{name: cell for name, cell in row.items() if name != "kendall"} for row in rows if row["eps"] == 0.1]
    left, right = drawn(shown(RunRows("one", "attack", rows), RunRows("two", "attack", fewer))["boxes"]).axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names[-2:] == [f"two, eps 0.1, {attack}" for attack in ATTACKS]
    assert [len(axes.patches) for axes in (left, right)] == [6, 6]
    assert [np.isnan(axes.lines[-1].get_xdata()).all() for axes in (left, right)] == [True, False]


def test_one_eps_has_no_curve_and_what_is_zero_no_logarithm(rows):
    assert "eta" not in shown(RunRows("one", "attack", [row for row in rows if row["eps"] == 0.1]))
    straight = [{**row, "eta": 0.0, "eta_random": 0.0} for row in rows]  # an affine attribution
    assert "eta" not in shown(RunRows("one", "attack", straight))


def test_a_dozen_runs_stay_readable():
    sizes = (0.05, 0.4, 0.1, 0.2)
    names = [f"a-rather-long-name-of-a-run-that-goes-on-and-on-{seed}" for seed in range(12)]
    runs = [RunRows(name, "attack", made_rows(4, sizes, seed)) for seed, name in enumerate(names)]
    found = shown(*runs)
    labels = [text.get_text() for text in drawn(found["slack"]).axes[0].get_legend().get_texts()]
    assert labels == [f"{name}, eps 0.4" for name in names]
    assert len(labels) <= MOST_CURVES
    boxes = drawn(found["boxes"])
    words = [label.get_text() for label in boxes.axes[0].get_yticklabels()]
    assert len(set(words)) == len(words) == 24 <= MOST_BOXES
    assert all(plot.size[1] < 16 for plot in found.values())
    boxes.draw_without_rendering()
    extents = [label.get_window_extent() for label in boxes.axes[0].get_yticklabels()]
    assert all(above.y0 >= below.y1 for above, below in pairwise(extents))


def test_a_curve_of_many_samples_has_few_points():
    big = made_rows(5 * MOST_POINTS, (0.1,))
    lines = drawn(shown(RunRows("one", "attack", big))["slack"]).axes[0].lines
    assert len(lines[0].get_xdata()) == MOST_POINTS + 1


def test_legends_lie_below_what_is_drawn(one):
    for name in ("eta", "slack", "crc"):
        figure = drawn(one[name])
        figure.draw_without_rendering()
        (axes,) = figure.axes
        assert axes.get_legend().get_window_extent().y1 < axes.get_window_extent().y0


def test_a_figure_is_told_to_those_who_cannot_see_it(one):
    quoted = replace(one["eta"], title='a "b" <c>').inline()
    assert 'aria-label="a &quot;b&quot; &lt;c&gt;. eta = |g(x+delta)' in quoted


def test_the_first_dimensions_of_a_jacobian_are_a_picture_of_their_own():
    rng = np.random.default_rng(0)
    J, image = rng.standard_normal((144, 144)), rng.random((1, 12, 12))
    held = {"index=3/jacobian": J, "index=3/input": image, "index=3/map": image}
    arrays = SimpleNamespace(names=set(held), array=held.__getitem__, image=held.__getitem__)
    gallery = jacobians("one", [{"index": 3, "g_norm": float(np.linalg.norm(image))}], arrays)
    labels = [picture.label for picture in gallery.cards[0].pictures]
    assert labels[-3:] == ["Jacobian", "size of its entries", f"the same, first {FIRST} dimensions"]
    with Image.open(io.BytesIO(base64.b64decode(gallery.cards[0].pictures[-1].uri.partition(",")[2]))) as picture:
        grey = np.asarray(picture)[:, :, 0]
    first = np.abs(J[:FIRST, :FIRST])
    assert np.abs(grey - 255 * (1 - first / first.max())).max() <= 0.5


def test_shades_go_from_white_at_zero_to_black_at_the_largest():
    assert shaded(np.array([[0.0, 1.0, 4.0]]))[0, :, 0].tolist() == [1.0, 0.75, 0.0]
    assert shaded(np.zeros((1, 2))).min() == 1


def test_the_catalogue_names_where_each_figure_is():
    source = (Path(__file__).parent.parent / "attrcert" / "papers").glob("*20*.py")
    assert sum(path.read_text().count('"attrcert.reporting.pages.paper_figures"') for path in source) == 4
