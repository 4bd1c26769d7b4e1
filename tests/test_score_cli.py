"""`attrcert score` as it is used: rows by metric and eps, rules about one metric, figures, and what is refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from reference import scores as slow
from reference.program import Done, attrcert
from torch import Tensor

import attrcert as library
from attrcert.columns import COLUMNS
from attrcert.columns.score import SCORES as COLUMNS_OF
from attrcert.reporting.pages.figures import plots
from attrcert.reporting.pages.worst import RunRows
from attrcert.scores import ABOUT, SCORES

FEW = ("--limit", 3, "--quiet")
METRICS = ("insertion", "deletion", "rps", "crc")
ASKED = ("score", *FEW, "--metric", ",".join(METRICS), "--eps", "0.001,0.002", "--random-draws", 2, "--shares", 4)
CURVED = ("insertion", "deletion")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, Done]:
    """The file of a run, and what it printed."""
    out = tmp_path_factory.mktemp("scores") / "scores.csv"
    done = attrcert(*ASKED, "--out", out)
    assert done.code == 0, done.err
    return out, done


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_each_sample_has_a_row_for_each_metric_and_eps_with_the_cells_of_that_metric_alone(run):
    rows = rows_of(run[0])
    cases = [
        ("insertion", ""),
        ("deletion", ""),
        ("rps", "0.001"),
        ("rps", "0.002"),
        ("crc", "0.001"),
        ("crc", "0.002"),
    ]
    assert [(row["metric"], row["eps"]) for row in rows] == 3 * cases
    asked_for = {"crc_proved"}
    for row in rows:
        own = {column.name for column in COLUMNS_OF[row["metric"]]} - asked_for
        others = {column.name for columns in COLUMNS_OF.values() for column in columns} - own
        assert all(row[name] for name in own)
        assert not any(row[name] for name in others)
        assert bool(row["curve"]) == (row["metric"] in CURVED)
        assert (row["status"], row["norm"]) == ("ok", "linf")
    assert {row["metric"]: row["guarantee"] for row in rows} == {
        **dict.fromkeys(("insertion", "deletion", "rps"), "empirical"), "crc": "first-order",
    }  # fmt: skip


def test_the_area_of_a_row_is_that_below_its_curve(run):
    for row in rows_of(run[0]):
        if row["curve"]:
            points = [tuple(map(float, point.split(":"))) for point in row["curve"].split(";")]
            assert len(points) == 5
            assert (points[0][0], points[-1][0]) == (0, 1)
            assert slow.area(points) == pytest.approx(float(row[row["metric"]]), abs=2e-4)  # texts have four digits


def test_the_table_has_the_statistics_of_the_rows(run):
    told = json.loads(attrcert(*ASKED, "--json").out)
    rows = [{name: cell for name, cell in row.items() if cell is not None} for row in told["rows"]]
    for case in told["summary"]["cases"]:
        (name,) = set(case) - {"metric", "eps", "guarantee"}
        column = next(column for column in COLUMNS["score"] if column.name == name)
        found = [row[name] for row in rows if name in row and row.get("eps") == case.get("eps")]
        assert case["guarantee"] == column.guarantee
        assert case[name]["mean"] == pytest.approx(np.mean(found))
        worst = ("min", min(found)) if column.worse == "down" else ("max", max(found))
        assert (case[name]["count"], case[name][worst[0]]) == (3, worst[1])
    assert [case["metric"] for case in told["summary"]["cases"]] == [*CURVED, *2 * 3 * ["rps"], *2 * 4 * ["crc"]]
    shown = run[1].shown
    median = np.median([float(row["insertion"]) for row in rows_of(run[0]) if row["insertion"]])
    assert f"The median insertion of the saliency map is {median:.3g} (measured on 3 samples)." in shown
    assert "insertion, empirical, larger is better: area under" in shown
    assert "crc_published, first-order, smaller is better" in shown
    assert "fill: zero" in run[1].out.splitlines()


@pytest.mark.parametrize(
    ("rule", "code", "said"),
    [
        ("min(insertion) >= 0.01", 0, "metric insertion"),
        ("mean(rps_cosine) >= 0.5", 0, "metric rps, eps 0.002"),
        ("mean(rps_cosine[eps=0.001, metric=rps]) >= 0.5", 0, "metric rps, eps 0.001"),
        ("fraction(crc > 0.4) <= 1%", 0, "metric crc, eps 0.001"),
        ("max(insertion) <= 0.001", 1, "metric insertion"),
        ("mean(insertion[metric=rps]) >= 0.5", 2, "metric is insertion, deletion, rps, crc"),
        ("mean(adv_insertion) >= 0.5", 2, "--metric adv-insertion computes it"),
        ("mean(crc_proved) <= 0.5", 2, "--proved computes it"),
        ("mean(insertion) <= 1", 2, "the rule cannot fail"),
    ],
)
def test_a_rule_about_a_metric_is_judged_in_its_rows(run, rule, code, said):
    done = attrcert("gate", run[0], "--require", rule)
    assert (done.code, said in done.shown) == (code, True), done.shown
    if "eps" in said and "[" not in rule:
        assert "eps 0.001" in done.shown
    if code == 2:
        assert attrcert(*ASKED, "--require", rule).code == 2


def test_the_gate_says_of_a_score_that_it_was_measured_and_no_worst_case(run):
    done = attrcert("gate", run[0], "--require", "min(insertion) >= 0.01", "--require", "median(crc) <= 0.4")
    assert "insertion, crc: empirical, what was measured, on these samples and perturbations." in done.shown
    assert "worst case" not in done.shown


def test_a_torn_run_goes_on_and_another_one_is_refused(run, tmp_path):
    whole, out = run[0].read_text().splitlines(keepends=True), tmp_path / "scores.csv"
    manifest = json.loads(Path(f"{run[0]}.json").read_text())
    out.write_text("".join(whole[: 1 + 6 + 2]) + whole[9][:30])
    Path(f"{out}.json").write_text(json.dumps({**manifest, "state": "running"}))
    assert attrcert(*ASKED, "--out", out, "--resume").code == 0
    times = {"seconds"}
    theirs, ours = (
        [{name: cell for name, cell in row.items() if name not in times} for row in rows_of(path)]
        for path in (run[0], out)
    )
    assert ours == theirs
    other = attrcert(*ASKED, "--fill", "mean", "--out", out, "--resume")
    assert (other.code, "fill was 'zero' and is 'mean'" in other.said) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--metric", "insertoin"), "did you mean 'insertion'?"),
        (("--metric", "rps,rps"), "each metric may be named once"),
        (("--metric", "ris,ros"), "each metric may be named once"),
        (("--fill", "grey"), "--fill must be one of zero, mean, blur, got 'grey'"),
        (("--shares", 0), "--shares must be at least 1, got 0"),
        (("--norm", "lp", "--p", 3), "scores are for l2 and linf, got norm lp"),
        (("--metric", "insertion", "--eps", 0.1), "--eps has no effect here: it is for --metric rps, adv-insertion"),
        (("--metric", "rps", "--fill", "blur"), "--fill has no effect here: it is for --metric insertion, deletion, adv-insertion"),
        (("--metric", "rps", "--proved"), "--proved has no effect here: it is for --metric local-robustness, crc"),
        (("--metric", "rps", "--softplus-beta", 3), "--softplus-beta has no effect here"),
        (("--k", 3), "--k means nothing here: no figure of a score depends on it"),
        (("--inner-layer", "conv9", "--metric", "rrs"), "--inner-layer must be one of"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_before_anything_is(words, said):
    done = attrcert("score", *FEW, *words)
    assert (done.code, said in done.said) == (2, True), done.said


def test_a_fill_by_the_mean_needs_one(smooth_cnn, images):
    with pytest.raises(library.UsageError, match=r"--fill mean is the colour .* and this model has none"):
        library.score(smooth_cnn(), images(2, 1, 5, 5), fill="mean", dtype="float64")


def test_an_eps_is_for_the_norm_that_is_named_or_for_that_of_scores(smooth_cnn, images):
    rows = library.score(
        smooth_cnn(), images(1, 1, 5, 5), metric="rps", eps="linf:0.1", random_draws=1, dtype="float64"
    )
    assert [(row["norm"], row["eps"]) for row in rows] == [("linf", 0.1)]
    usual = library.ScoreConfig()
    assert (usual.perturbation.norm, [round(255 * eps) for eps in usual.perturbation.eps]) == ("linf", [4, 8, 16])


def test_a_sample_without_a_finite_map_fails_alone(images):
    class Picky(torch.nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            q = z.flatten(1)
            return torch.stack([q.sum(1).sqrt(), q[:, 0]], dim=1)

    data = images(3, 1, 2, 2)
    data[1] = 0
    rows = library.score(Picky(), data, metric=["insertion", "rps"], eps=0.01, dtype="float64")
    status = {index: {row["status"] for row in rows if row["index"] == index} for index in range(3)}
    assert status == {0: {"ok"}, 1: {"error:non-finite-derivative"}, 2: {"ok"}}
    assert len(rows) == 6


def test_an_attack_measures_the_map_that_it_moved():
    kept: dict[str, Tensor] = {}
    asked = {
        "metric": ["insertion", "adv-insertion", "crc"],
        "attack": "euclidean",
        "steps": 3,
        "restarts": 0,
        "random_draws": 5,
    }
    rows = library.attack(limit=2, eps=0.3, dtype="float64", save=kept.update, **asked)
    plain = library.score(limit=2, metric="insertion", dtype="float64")
    run = library.open_run("fashion-natural", "fashion-test", library.AttackConfig(dtype="float64"))
    for row, same in zip(rows, plain, strict=True):
        assert row["insertion"] == pytest.approx(same["insertion"], rel=1e-12)
        name = f"index={row['index']}"
        x, g, moved = (kept[f"{name}/{part}"] for part in ("input", "map", "eps=0.3/attack=euclidean/map"))
        assert row["crc"] == pytest.approx(slow.criterion(g.flatten().numpy(), moved.flatten().numpy()), rel=1e-9)
        with run.classifier.prepared() as f:
            given = lambda z, y=row["target"]: float(f(torch.from_numpy(z)[None]).softmax(1)[0, y])  # noqa: E731
            wanted = slow.curve(given, x.numpy(), 0 * x.numpy(), slow.heat(moved.numpy()), 20, into=True)
        assert row["adv_insertion"] == pytest.approx(slow.area(wanted), rel=1e-9)
    assert not {"insertion", "adv_insertion", "crc"} & {column.name for column in library.AttackConfig().columns}
    assert "adv_insertion" in rows.summary()
    assert library.gate(rows, "mean(adv_insertion) >= 0.01").passed


# figures


def test_an_attack_puts_pixels_into_what_score_puts_them_into():
    asked = {"limit": 2, "fill": "blur", "shares": 5, "dtype": "float64"}
    rows = library.attack(metric="insertion", attack="random", random_draws=2, eps=0.1, **asked)
    same = library.score(metric="insertion", **asked)
    plain = library.score(metric="insertion", limit=2, dtype="float64")
    assert [row["insertion"] for row in rows] == pytest.approx([row["insertion"] for row in same], rel=1e-12)
    assert [row["insertion"] for row in rows] != pytest.approx([row["insertion"] for row in plain], rel=1e-3)
    with pytest.raises(
        library.UsageError, match="--fill has no effect here: it is for --metric insertion, adv-insertion"
    ):
        library.attack(limit=1, fill="blur")


def drawn(rows: list[dict], name: str) -> Figure:
    plot = {plot.name: plot for plot in plots([RunRows("one", "score", rows)])}[name]
    figure = Figure(figsize=plot.size)
    plot.draw(figure)
    return figure


def made_rows(samples: int = 5) -> list[dict]:
    rng, rows = np.random.default_rng(0), []
    for index in range(samples):
        common = {"index": index, "status": "ok", "norm": "linf"}
        low, high = rng.uniform(0, 0.15), rng.uniform(0.5, 1)
        for metric in CURVED:
            text = "nobody's: curve" if metric == "insertion" and not index else f"0: {low}; 0.5: {high}; 1: 1"
            rows.append({**common, "metric": metric, "curve": text, metric: 0.5})
        for eps in (0.1, 0.2):
            rows.append(
                {
                    **common,
                    "metric": "rps",
                    "eps": eps,
                    "rps_cosine": high - eps,
                    "rps_pearson": low - eps,
                    "rps_ssim": low,
                }
            )
            bounds = {"crc_published": 3 * low, "crc_bound": 1.5 * low} if index else {"crc_published": 0.0}
            rows.append({**common, "metric": "crc", "eps": eps, "crc": low, **bounds})
    return rows


def test_a_curve_is_the_mean_of_the_rows_and_a_text_that_is_none_is_left_out():
    rows = made_rows()
    lines = {line.get_label(): line for line in drawn(rows, "insertion").axes[0].lines}
    for metric, samples in (("insertion", 4), ("deletion", 5)):
        texts = [row["curve"] for row in rows if row["metric"] == metric][-samples:]
        values = np.mean([[float(part.split(":")[1]) for part in text.split(";")] for text in texts], axis=0)
        assert list(lines[metric].get_xdata()) == [0, 0.5, 1]
        assert list(lines[metric].get_ydata()) == pytest.approx(list(values))


def test_similarity_by_eps_is_a_median_that_may_be_negative():
    rows = made_rows()
    lines = {line.get_label(): line for line in drawn(rows, "rps").axes[0].lines}
    for words, name in (("cosine", "rps_cosine"), ("Pearson", "rps_pearson"), ("SSIM", "rps_ssim")):
        wanted = [np.median([row[name] for row in rows if row.get("eps") == eps and name in row]) for eps in (0.1, 0.2)]
        assert list(lines[words].get_ydata()) == pytest.approx(wanted)
    assert min(lines["Pearson"].get_ydata()) < 0


def test_the_criterion_is_drawn_against_both_bounds():
    rows = [row for row in made_rows() if row["metric"] == "crc" and row["index"]]
    figure = drawn(made_rows(), "crc-bounds")
    for points, name in zip(figure.axes[0].collections, ("crc_published", "crc_bound"), strict=True):
        assert np.asarray(points.get_offsets()) == pytest.approx(np.array([[row[name], row["crc"]] for row in rows]))


def test_the_page_of_a_run_shows_its_figures_and_its_table(run, tmp_path):
    done = attrcert("report", run[0], "-o", tmp_path / "page.html", "--plots", tmp_path / "plots")
    assert done.code == 0, done.err
    assert {"insertion.svg", "rps.svg", "crc-bounds.svg"} <= {path.name for path in (tmp_path / "plots").iterdir()}
    page = (tmp_path / "page.html").read_text()
    assert "How good and how stable the attribution is" in page
    assert "The median insertion of the saliency map" in page


def test_what_is_known_of_a_metric_before_it_is_imported_is_known_of_all():
    assert set(ABOUT) == set(COLUMNS_OF) == set(SCORES)
    settings = {name for about in ABOUT.values() for name in about.settings}
    assert settings <= set(library.ScoreConfig().flat())
