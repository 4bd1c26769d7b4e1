"""A report shows what the files hold: figures, pictures and tables from rows alone, and nothing else is overwritten."""

import base64
import csv
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from reference.program import attrcert
from safetensors.numpy import load_file, save_file

from attrcert.columns import COLUMNS
from attrcert.reporting.pages.content import Page, _listed, make_page
from attrcert.reporting.pages.figures import plots
from attrcert.reporting.pages.galleries import galleries, jacobians
from attrcert.reporting.pages.plots import Plot
from attrcert.reporting.pages.worst import RunRows, sample_table, worst_rows
from attrcert.saved.array_files import Arrays
from attrcert.saved.records import to_csv

ATTACKED = ("natural.csv", "adversarial.csv")


def rows_of(path: Path) -> list[dict]:
    """An independent reading: numbers where they are some, without empty cells."""
    kinds = {column.name: column.kind for column in COLUMNS["attack"]}
    with path.open(newline="") as stream:
        return [
            {name: text == "True" if kinds[name] is bool else kinds[name](text) for name, text in row.items() if text}
            for row in csv.DictReader(stream)
        ]


def drawn(plot: Plot) -> Figure:
    figure = Figure()
    plot.draw(figure)
    return figure


@pytest.fixture
def page(report_runs) -> Page:
    return make_page([report_runs / name for name in (*ATTACKED, "bound.csv")], title="", most=500, pictures=2)


@pytest.fixture
def natural(report_runs) -> dict[str, Plot]:
    rows = RunRows("natural", "attack", rows_of(report_runs / "natural.csv"))
    return {plot.name: plot for plot in plots([rows])}


def test_the_scatter_has_a_point_per_row_and_the_diagonal(natural, report_runs):
    axes = drawn(natural["scatter"]).axes[0]
    points = {tuple(point) for collection in axes.collections for point in np.asarray(collection.get_offsets())}
    assert points == {(row["T_e"], row["T_hat_e"]) for row in rows_of(report_runs / "natural.csv")}
    (diagonal,) = axes.lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata())


def test_distributions_rise_to_the_share_of_samples_that_have_the_figure(natural, report_runs):
    (axes,) = drawn(natural["ecdf"]).axes
    rows = rows_of(report_runs / "natural.csv")
    assert [line.get_label() for line in axes.lines] == ["eps 0.1", "eps 0.25"]
    for line, eps in zip(axes.lines, (0.1, 0.25), strict=True):
        angles = {row["index"]: row.get("T_c_deg") for row in rows if row["eps"] == eps}
        bounded = sorted(angle for angle in angles.values() if angle is not None)
        assert list(line.get_xdata()) == [bounded[0], *bounded]
        assert line.get_ydata()[-1] == pytest.approx(len(bounded) / 6)


def test_angle_curves_are_medians_over_samples_of_the_strongest_attack(natural, report_runs):
    rows = rows_of(report_runs / "natural.csv")
    curves = {line.get_label(): line for line in drawn(natural["angles"]).axes[0].lines}
    for label, column in (("first-order T_c_deg", "T_c_deg"), ("reached T_hat_c_deg", "T_hat_c_deg")):
        expected = []
        for eps in (0.1, 0.25):
            worst = [
                max(row.get(column, 180.0) for row in rows if (row["index"], row["eps"]) == (index, eps))
                for index in range(6)
            ]
            expected.append(statistics.median(worst))
        assert list(curves[label].get_xdata()) == [0.1, 0.25]
        assert list(curves[label].get_ydata()) == pytest.approx(expected)


def test_no_legend_lies_over_what_is_drawn(natural):
    for plot in (plot for name, plot in natural.items() if name != "boxes"):  # whose names stand beside the boxes
        figure = drawn(plot)
        figure.draw_without_rendering()
        legends = [axes.get_legend() for axes in figure.axes]
        assert all(legends)
        for axes, legend in zip(figure.axes, legends, strict=True):
            assert legend.get_window_extent().y1 < axes.get_window_extent().y0


def test_bars_count_rows_by_tightness_and_by_status(natural, report_runs):
    rows = rows_of(report_runs / "natural.csv")
    heights = sum(bar.get_height() for bar in drawn(natural["tightness"]).axes[0].patches)
    assert heights == sum("tightness" in row for row in rows) == 24
    widths = {bar.get_width() for bar in drawn(natural["status"]).axes[0].patches}
    statuses = [row["status"] for row in rows]
    assert widths == {statuses.count(status) for status in set(statuses)}


def test_a_figure_without_rows_for_it_is_not_drawn(report_runs):
    bound = RunRows("bound", "bound", rows_of(report_runs / "bound.csv"))
    assert {plot.name for plot in plots([bound])} == {"ecdf", "status"}  # one eps, no attack


def test_a_proved_bound_has_a_scatter_of_its_own():
    row = {"index": 0, "status": "ok", "eps": 0.1, "attack": "euclidean", "T_e": 1.0, "T_hat_e": 1.1, "T_proved": 1.2}
    names = {plot.name for plot in plots([RunRows("one", "attack", [row])])}
    assert {"scatter", "scatter-proved"} <= names


def test_inline_figures_are_well_formed_and_share_no_names(page):
    names: list[str] = []
    for plot in page.plots:
        root = ElementTree.fromstring(plot.inline().replace("&nbsp;", " "))
        assert root.tag.endswith("svg")
        names += [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(names) == len(set(names)) > 20


@pytest.mark.parametrize("name", ["$a_b$^{", "<b>&", "--><script>", "_hidden", "日本"])
def test_a_run_of_any_name_can_be_drawn(name, report_runs):
    rows = rows_of(report_runs / "natural.csv")
    for plot in plots([RunRows(name, "attack", rows), RunRows("other", "attack", rows)]):
        ElementTree.fromstring(plot.inline())
        assert plot.render("png").startswith(b"\x89PNG")


def test_plots_are_written_as_png_and_svg(report_runs, tmp_path):
    done = attrcert(
        "report", report_runs / "natural.csv", "--out", tmp_path / "r.html", "--plots", tmp_path / "new" / "plots"
    )
    assert done.code == 0, done.err
    stems = {"scatter", "ecdf", "angles", "tightness", "status", "eta", "slack", "crc", "boxes"}
    assert {path.name for path in (tmp_path / "new" / "plots").iterdir()} == {
        f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")
    }
    with Image.open(tmp_path / "new" / "plots" / "scatter.png") as image:
        assert min(image.size) > 300


def pixels(uri: str) -> np.ndarray:
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(content)), dtype=float)


def test_pictures_are_those_of_the_sample_moved_most(report_runs):
    rows, saved = rows_of(report_runs / "natural.csv"), load_file(report_runs / "natural.safetensors")
    run = RunRows("natural", "attack", rows, ["shirt", "shoe", *"abcdefgh"])
    most, least = galleries(run, Arrays(report_runs / "natural.safetensors", "deltas"), 2)
    moved = {i: max(row["T_hat_c_deg"] for row in rows if row["index"] == i) for i in range(6)}
    ranked = sorted(moved, key=lambda i: -moved[i])
    told = [[int(re.findall(r"sample (\d+)", card.title)[0]) for card in part.cards] for part in (most, least)]
    assert told == [ranked[:2], ranked[::-1][:2]]
    worst = max(rows, key=lambda row: row["T_hat_c_deg"])
    key = f"index={worst['index']}/eps={worst['eps']!r}/attack={worst['attack']}"
    pictures = {picture.label: pixels(picture.uri) for picture in most.cards[0].pictures}
    image = saved[f"index={worst['index']}/input"][0]
    np.testing.assert_allclose(pictures["input"][:, :, 0], 255 * image, atol=0.51)
    np.testing.assert_allclose(pictures["attacked input"][:, :, 1], 255 * (image + saved[key][0]).clip(0, 1), atol=0.51)
    before, after = saved[f"index={worst['index']}/map"][0], saved[f"{key}/map"][0]
    scale = max(abs(before).max(), abs(after).max())
    for label, heat in (("attribution", before), ("its attribution", after), ("perturbation", saved[key][0])):
        share = heat / (abs(heat).max() if label == "perturbation" else scale)
        red, blue = share.clip(0, 1), (-share).clip(0, 1)
        expected = np.stack([1 - blue, 1 - red - blue, 1 - red], axis=2)
        np.testing.assert_allclose(pictures[label], 255 * expected, atol=0.51)


def test_a_saved_jacobian_has_its_largest_singular_value_between_the_ends_of_its_row(report_runs):
    saved = load_file(report_runs / "bound.csv.jacobians.safetensors")
    assert set(saved) == {"index=1/jacobian", "index=1/input", "index=1/map"}
    xi = np.linalg.norm(saved["index=1/jacobian"].astype(float), 2)
    row = next(row for row in rows_of(report_runs / "bound.csv") if row["index"] == 1)
    assert row["xi_lower"] * (1 - 1e-5) <= xi <= row["xi_upper"]
    assert np.linalg.norm(saved["index=1/map"].astype(float)) == pytest.approx(row["g_norm"], rel=1e-5)
    gallery = jacobians("bound", [row], Arrays(report_runs / "bound.csv.jacobians.safetensors", "jacobians"))
    assert gallery is not None
    assert float(dict(gallery.cards[0].figures)["xi_max, at least"]) == pytest.approx(xi, rel=1e-3)


def test_a_large_jacobian_keeps_its_largest_entries_in_the_picture(tmp_path):
    J = np.zeros((1000, 1000), dtype=np.float32)
    J[701, 333] = -5.0
    arrays = {"index=0/jacobian": J, "index=0/input": np.zeros((1, 25, 40), np.float32)}
    save_file(arrays | {"index=0/map": np.ones((1, 25, 40), np.float32)}, tmp_path / "j", {"attrcert": "jacobians"})
    row = {"index": 0, "g_norm": 1000**0.5}
    gallery = jacobians("run", [row], Arrays(tmp_path / "j", "jacobians"))
    assert gallery is not None
    picture = pixels(gallery.cards[0].pictures[3].uri)
    assert picture.shape[:2] == (334, 334)
    assert tuple(picture[701 // 3, 333 // 3]) == (0, 0, 255)
    assert (picture == 255).all(axis=2).sum() == 334 * 334 - 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--save-jacobian", 0), "--save-jacobian needs --out"),
        (("--save-jacobian", 99, "--out", "b.csv"), "must name samples of the run, which are 0-1, got 99"),
        (("--save-jacobian", "x", "--out", "b.csv"), "--save-jacobian must look like"),
        (("--save-jacobian", 0, "--out", "b.csv", "--smooth", "uniform"), "not for --smooth"),
    ],
)
def test_a_jacobian_that_cannot_be_saved_is_refused_before_the_run(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = attrcert("bound", "--limit", 2, *words)
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert said in done.said


def test_a_jacobian_that_is_too_large_is_refused_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr("attrcert.running.keeping.jacobians.LARGEST", 783)
    done = attrcert("bound", "--limit", 2, "--save-jacobian", 0, "--out", tmp_path / "b.csv")
    assert done.code == 2
    assert "784 x 784 matrix; the limit is d = 783" in done.said


def test_the_worst_rows_come_first_and_unbounded_ones_before_them(report_runs):
    rows = [row | {"index": i} for i, row in enumerate(rows_of(report_runs / "bound.csv"))]
    angles = [row["T_c_deg"] for row in rows]
    vacuous = {name: cell for name, cell in rows[0].items() if name != "T_c_deg"} | {"index": 90, "status": "vacuous"}
    failed = {"index": 91, "status": "error:memory", "eps": 0.1}
    order = [row["index"] for row in worst_rows("bound", [*rows, vacuous, failed], 4)]
    assert order == [91, 90, *sorted(range(4), key=lambda i: -angles[i])][:4]
    inverse = [{"index": i, "status": "ok", "eps_max": eps} for i, eps in enumerate((0.3, 0.1, 0.2))]
    assert [row["index"] for row in worst_rows("max-eps", inverse, 3)] == [1, 2, 0]


def test_the_page_says_how_many_of_the_rows_it_shows(report_runs, tmp_path):
    done = attrcert("report", report_runs / "natural.csv", "--worst", 5, "--out", tmp_path / "r.html")
    assert "MB. The worst: 5 of 24 rows." in done.said
    content = (tmp_path / "r.html").read_text()
    assert content[content.index('id="table"') :].count("<tr><td") == 5


def test_bounds_are_rounded_up_and_reached_figures_down_in_the_table_of_samples(page, report_runs):
    rows = {(row["index"], row["eps"], row["attack"]): row for row in rows_of(report_runs / "natural.csv")}
    at = {name: place for place, name in enumerate(column.name for column in page.samples.columns)}
    seen = 0
    for cells in page.samples.cells:
        if cells[at["run"]].text == "natural":
            row = rows[int(cells[at["index"]].text), float(cells[at["eps"]].text), cells[at["attack"]].text]
            assert row["T_e"] <= float(cells[at["T_e"]].text) <= row["T_e"] * 1.0002
            assert row["T_hat_e"] * 0.9998 <= float(cells[at["T_hat_e"]].text) <= row["T_hat_e"]
            seen += 1
    assert seen == 24


def test_runs_of_one_command_are_put_side_by_side(page, report_runs):
    (table,) = page.comparisons
    assert table.header == ("where", "figure", "natural", "adversarial")
    case, figures = "", {}
    for where, figure, *values in table.cells:
        case = where or case
        figures[case, figure] = values
    for place, name in enumerate(ATTACKED):
        rows = [row for row in rows_of(report_runs / name) if (row["eps"], row["attack"]) == (0.25, "top-k")]
        mean = statistics.fmean(row["T_hat_e"] for row in rows)
        assert float(figures["eps 0.25, attack top-k", "mean(T_hat_e)"][place]) == pytest.approx(mean, rel=1e-3)
        shares = float(figures["eps 0.25, attack top-k", "fraction(violated)"][place])
        assert shares == pytest.approx(statistics.fmean(row["violated"] for row in rows), rel=1e-3)


@pytest.mark.parametrize("manifest", [{"proved": False, "ball": False}, {}, None])
def test_a_figure_that_was_not_asked_for_is_nowhere_in_a_report(tmp_path, manifest):
    paths = []
    for name in ("one", "two"):
        rows = [{"index": i, "status": "vacuous", "eps": 0.1, "g_norm": 1.0, "T_e": 2.0 + i} for i in range(3)]
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text(
            to_csv([*rows, {**rows[0], "index": 3, "status": "ok", "T_c_deg": 9.0}], COLUMNS["bound"], header=True)
        )
        if manifest is not None:
            Path(f"{paths[-1]}.json").write_text(json.dumps({"command": "bound", "identity": manifest}))
    page = make_page(paths, title="", most=9, pictures=0)
    shown = [cell for table in page.comparisons for line in table.cells for cell in line]
    assert "p95(T_c_deg)" in shown
    assert not any("T_proved" in cell or "angle_proved" in cell or "inf" in cell for cell in shown)
    done = attrcert("report", *paths, "--format", "markdown")
    assert done.code == 0
    assert "proved" not in done.out
    assert "inf" not in done.out.split()


def test_a_figure_that_was_asked_for_and_found_for_no_sample_is_infinite(tmp_path):
    paths = []
    for name in ("one", "two"):
        rows = [{"index": i, "status": "vacuous", "eps": 0.1, "g_norm": 1.0, "T_e": 2.0 + i} for i in range(3)]
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text(to_csv(rows, COLUMNS["bound"], header=True))
        Path(f"{paths[-1]}.json").write_text(json.dumps({"command": "bound", "identity": {"proved": True}}))
    (table,) = make_page(paths, title="", most=9, pictures=0).comparisons
    assert ("mean(T_proved)", "inf (3 unbounded)", "inf (3 unbounded)") in [line[1:] for line in table.cells]


def test_the_smallest_radius_is_not_shown_for_runs_that_looked_for_none(tmp_path):
    paths = []
    for name in ("one", "two"):
        rows = [{"index": i, "status": "vacuous", "eps": 0.1, "radius": 1.0} for i in range(2)]
        rows.append({"index": 2, "status": "ok", "eps": 0.1, "radius": 1.0, "cosine": 0.5})
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text(to_csv(rows, COLUMNS["certify"], header=True))
        Path(f"{paths[-1]}.json").write_text(json.dumps({"command": "certify", "identity": {"task": "bound"}}))
    (table,) = make_page(paths, title="", most=9, pictures=0).comparisons
    assert [line[1] for line in table.cells] == ["mean(cosine)", "fraction(status == abstained)"]


def test_a_part_says_what_was_computed_and_what_that_promises(page):
    part = page.parts[0]
    facts = dict(part.facts)
    assert facts["model"] == "fashion-natural"
    assert facts["bounded"].startswith("saliency of the predicted class")
    assert len(facts["checkpoint sha256"]) == 64
    promises = dict(part.promises)
    assert "estimates that attacks can exceed, no guarantee" in promises["first-order"]
    assert "at least that" in promises["empirical"]
    assert "proved" not in promises
    assert "confidence" not in promises


def test_a_smoothed_run_promises_confidence_and_nothing_first_order(tmp_path):
    words = ("--smooth", "uniform", "--min-cosine", 0.5, "--samples", 60, "--limit", 2, "--quiet")
    assert attrcert("max-eps", *words, "--out", tmp_path / "s.csv").code == 0
    (part,) = make_page([tmp_path / "s.csv"], title="", most=5, pictures=1).parts
    assert list(dict(part.promises)) == ["confidence"]


def test_the_same_files_give_the_same_page(report_runs, tmp_path):
    for name in ("a.html", "b.html"):
        assert attrcert("report", report_runs / "natural.csv", "--out", tmp_path / name).code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_neither_report_nor_gate_imports_torch(report_runs, tmp_path):
    script = (
        "import sys\nfrom attrcert.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "assert 'torch' not in sys.modules and 'attrcert.reporting' in sys.modules"
    )
    for words in (("report", "--out", tmp_path / "r.html"), ("gate", "--require", "mean(T_hat_e) > 0")):
        command = [sys.executable, "-c", script, words[0], report_runs / "natural.csv", *words[1:]]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_markdown_goes_to_stdout_with_its_tables_and_worst_samples(report_runs):
    done = attrcert("report", report_runs / "natural.csv", "--format", "markdown")
    assert done.code == 0
    assert "| eps | attack | T_hat_c_deg |" in done.out
    assert "The worst samples (20 rows)" in done.out
    worst = max(rows_of(report_runs / "natural.csv"), key=lambda row: row["T_hat_c_deg"])
    listed = done.out[done.out.index("The worst samples") :]
    assert re.search(rf"^\| {worst['index']} \|", listed, re.MULTILINE)


def test_markup_is_text_in_markdown_too(report_runs, tmp_path):
    content = (report_runs / "natural.csv").read_text().replace("euclidean", "<script>alert(1)</script>|x")
    (tmp_path / "<b>x.csv").write_text(content)
    done = attrcert("report", tmp_path / "<b>x.csv", "--format", "markdown", "--title", "<i>t</i>")
    assert done.code == 0
    assert not re.search(r"<(script|b|i)>", done.out)
    assert r"\|x" in done.out


def test_a_report_replaces_a_report_and_nothing_else(report_runs, tmp_path):
    mine = tmp_path / "mine.html"
    mine.write_text("<html>my own page</html>")
    done = attrcert("report", report_runs / "bound.csv", "--out", mine)
    assert done.code == 2
    assert "is not a report that attrcert wrote" in done.said
    assert mine.read_text() == "<html>my own page</html>"
    for _ in range(2):
        assert attrcert("report", report_runs / "bound.csv", "--out", tmp_path / "r.html").code == 0
        assert attrcert("report", report_runs / "bound.csv", "-o", tmp_path / "r.md", "--format", "markdown").code == 0
    assert not list(tmp_path.glob("*.part"))


def test_rows_are_never_overwritten_by_their_own_report(report_runs, tmp_path):
    copy = shutil.copy(report_runs / "bound.csv", tmp_path / "b.csv")
    before = Path(copy).read_bytes()
    assert attrcert("report", copy, "--out", copy).code == 2
    assert Path(copy).read_bytes() == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "must be a CSV with the columns index and status, as --out writes, got an empty file"),
        ("a,b\n1,2\n", "got a, b"),
        ("\xff\xfe", "is not a CSV"),
        (to_csv([], COLUMNS["bound"], header=True), "has no rows to report"),
        ("index,status,T_e\n0,ok,nan\n", "row 2 of"),
        ("index,status,T_e\n0,ok,1\n0,ok,1\n", "two rows for sample 0"),
        ("index,status,T_e\n0,ok\n1,ok,1\n", "row 2 of"),
    ],
)
def test_a_file_that_is_no_run_is_refused_by_name(content, said, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(content, encoding="latin-1")
    done = attrcert("report", path, "--out", tmp_path / "r.html")
    assert done.code == 2
    assert said in done.said
    assert str(path) in done.err.replace("\n", "")
    assert not (tmp_path / "r.html").exists()


def test_a_missing_file_and_a_missing_folder_are_told(report_runs, tmp_path):
    assert "No such file" in attrcert("report", tmp_path / "none.csv", "--out", tmp_path / "r.html").said
    done = attrcert("report", report_runs / "bound.csv", "--out", tmp_path / "none" / "r.html")
    assert (done.code, "there is no folder" in done.said) == (2, True)


def test_a_manifest_that_is_broken_is_refused_and_a_missing_one_told_in_the_page(report_runs, tmp_path):
    shutil.copy(report_runs / "bound.csv", tmp_path / "b.csv")
    (part,) = make_page([tmp_path / "b.csv"], title="", most=5, pictures=1).parts
    assert part.warnings == ("b.csv has no manifest: model, data and settings are not known",)
    (tmp_path / "b.csv.json").write_text("{")
    done = attrcert("report", tmp_path / "b.csv", "--out", tmp_path / "r.html")
    assert (done.code, "manifest" in done.said) == (2, True)


def test_a_manifest_that_was_edited_into_nonsense_does_not_break_the_page(report_runs, tmp_path):
    shutil.copy(report_runs / "bound.csv", tmp_path / "b.csv")
    odd = {"identity": {"classes": 3}, "facts": [1], "versions": "x", "findings": [None, 4], "state": "interrupted"}
    (tmp_path / "b.csv.json").write_text(json.dumps(odd))
    (part,) = make_page([tmp_path / "b.csv"], title="", most=5, pictures=1).parts
    assert part.warnings == ("incomplete: its manifest says 'interrupted'",)


def test_pictures_that_are_missing_or_foreign_are_told_and_the_rest_is_there(report_runs, tmp_path):
    for name in ("natural.csv", "natural.csv.json"):
        shutil.copy(report_runs / name, tmp_path / name)
    path = tmp_path / "natural.csv"
    page = make_page([path], title="", most=5, pictures=1)
    assert page.galleries == ()
    assert "no pictures" in page.missing[0]
    save_file({"x": np.zeros(1)}, tmp_path / "natural.safetensors")
    assert "is not a file of deltas" in make_page([path], title="", most=5, pictures=1).missing[0]
    given = make_page([path], title="", most=5, pictures=1, deltas=[report_runs / "natural.safetensors"])
    assert (len(given.galleries), given.missing) == (2, ())


def test_runs_of_the_same_name_are_told_apart_by_their_folders(report_runs, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        shutil.copy(report_runs / "bound.csv", tmp_path / folder / "bound.csv")
    page = make_page([tmp_path / folder / "bound.csv" for folder in "ab"], title="", most=5, pictures=1)
    assert [part.name for part in page.parts] == [str(tmp_path / folder / "bound.csv") for folder in "ab"]


def test_a_torn_last_line_is_left_out_and_told(report_runs, tmp_path):
    content = (report_runs / "bound.csv").read_bytes()
    (tmp_path / "b.csv").write_bytes(content[:-30])
    page = make_page([tmp_path / "b.csv"], title="", most=5, pictures=1)
    assert "incomplete: its last line is torn" in page.parts[0].warnings
    assert len(page.samples.cells) == 3


def test_a_jacobian_of_another_run_is_not_shown_and_an_overwritten_run_leaves_none(report_runs, tmp_path):
    for name in ("bound.csv", "bound.csv.json", "bound.csv.jacobians.safetensors"):
        shutil.copy(report_runs / name, tmp_path / name)
    path = tmp_path / "bound.csv"
    assert len(make_page([path], title="", most=5, pictures=1).galleries) == 1
    shutil.copy(report_runs / "natural.csv", path)
    rows = [row | {"g_norm": 1.0} for row in rows_of(report_runs / "bound.csv")]
    path.write_text(to_csv(rows, COLUMNS["bound"], header=True))
    page = make_page([path], title="", most=5, pictures=1)
    assert page.galleries == ()
    assert "they are of another run" in page.missing[0]
    assert attrcert("bound", "--limit", 2, "--quiet", "--out", path, "--overwrite").code == 0
    assert not (tmp_path / "bound.csv.jacobians.safetensors").exists()


def test_runs_that_were_computed_differently_are_told_beside_their_figures(report_runs, tmp_path):
    assert attrcert("bound", "--limit", 2, "--norm", "linf", "--quiet", "--out", tmp_path / "linf.csv").code == 0
    (table,) = make_page([report_runs / "bound.csv", tmp_path / "linf.csv"], title="", most=5, pictures=1).comparisons
    assert "do not compare: norm is l2 and was linf" in table.notes[0]


@pytest.mark.parametrize(
    ("sizes", "most", "shares"), [([10, 2, 8], 20, [10, 2, 8]), ([10, 2, 8], 12, [5, 2, 5]), ([5, 5], 1, [1, 1])]
)
def test_small_runs_are_shown_whole_and_large_ones_share_the_rest(sizes, most, shares):
    runs = [
        RunRows(str(number), "bound", [{"index": i, "status": "ok", "T_c_deg": float(i)} for i in range(size)])
        for number, size in enumerate(sizes)
    ]
    shown = [cells[0].text for cells in sample_table(runs, most).cells]
    assert [shown.count(str(number)) for number in range(len(sizes))] == shares


def test_a_number_among_the_words_of_a_run_says_what_it_is():
    assert _listed("softplus_beta", [5.0, 20.0]) == "beta 5, beta 20"
    assert _listed("attribution", ["saliency", "lrp(rule=zb)"]) == "saliency, lrp(rule=zb)"
    assert _listed("norm", None) == ""
