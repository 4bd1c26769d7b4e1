"""Several attributions and norms in one run: the rows of each alone, and everything that reads rows tells them apart."""

import csv
import json
import pickle
import warnings
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from reference import own_maps
from reference.program import attrcert
from safetensors.numpy import load_file

from attrcert import attack, bound, gate, max_eps
from attrcert.auditing.parts import pieces
from attrcert.auditing.verdicts import Grounds, verdict
from attrcert.errors import AttributionError, UsageError
from attrcert.reporting.pages.content import make_page
from attrcert.reporting.summaries.bounds import summarise
from attrcert.reporting.summaries.overviews import overview
from attrcert.running.opening.opening import open_run
from attrcert.saved.arrays import of_part
from attrcert.settings.auditing import Auditing, Yard
from attrcert.settings.commands import task_of
from attrcert.settings.computing import RunOptions

MAPS, NORMS = ["saliency", "input-x-gradient", "integrated-gradients"], ["l2", "linf"]
FEW = ("fashion-adversarial", "--limit", 2, "--batch-size", 1, "--quiet")
BOTH = ("--attribution", "sm", "--attribution", "ixg,ig", "--ig-steps", 3, "--norm", "l2,linf")
TWO = ("--attribution", "sm,ig", "--ig-steps", 2, "--linf-method", "corollary", "--norm", "l2,linf", "--eps", "0.1,0.2")
OF_ONE = {"ig_steps": {MAPS[2]}, "linf_method": {"linf"}}
EXACT = {"dtype": "float64", "chunk": 7}


@pytest.fixture(scope="module", autouse=True)
def told():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """The CSV of a run of two attributions, two norms and two eps."""
    path = tmp_path_factory.mktemp("several") / "table.csv"
    done = attrcert("bound", *FEW, *TWO, "--out", path, "--format", "json")
    assert done.code == 0, done.err
    path.with_suffix(".said").write_text(done.out)
    return path


def timeless(rows) -> list[dict]:
    return [{**row, "seconds": None} for row in rows]


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        (bound, {"attribution": MAPS[1:], "norm": NORMS, "ig_steps": 2, "eps": {"l2": [0.1, 0.2], "linf": "0.02"}}),
        (attack, {"attribution": MAPS[:2], "steps": 1, "restarts": 0, "random_draws": 2, "metric": "cosine"}),
        (max_eps, {"attribution": MAPS[:2], "norm": NORMS, "linf_method": "corollary", "max_angle": [10, 30]}),
        (max_eps, {"attribution": MAPS[1:], "ig_steps": 3, "smooth": "gaussian", "min_cosine": 0.5, "samples": 50}),
    ],
    ids=["bound", "attack", "max-eps", "max-eps --smooth"],
)
def test_each_has_the_rows_of_a_run_of_it_alone(smooth_cnn, images, command, settings):
    data, network = images(2, 1, 5, 5), smooth_cnn()
    together = command(network, data, **EXACT, **settings)
    eps, alone = settings.get("eps"), []
    for name in settings["attribution"]:
        for norm in settings.get("norm", ["l2"]):
            own = {**settings, "attribution": name, "norm": norm}
            own |= {"eps": eps[norm] if isinstance(eps, dict) else eps} if eps else {}
            own = {key: own[key] for key in own if OF_ONE.get(key, {name, norm}) & {name, norm}}
            alone.append(command(network, data, **EXACT, **own))
    expected = [row for i in range(2) for rows in alone for row in rows if row["index"] == i]
    assert timeless(together) == timeless(expected)
    summary = overview(together.command, together, summarise(together, {}))[0]
    keys = [key for key in ("attribution", "norm") if key in settings]
    assert list(summary.header[: len(keys)]) == keys
    assert {line[0] for line in summary.cells} == set(settings["attribution"])
    assert together.manifest["identity"]["attribution"] == [*dict.fromkeys(rows[0]["attribution"] for rows in alone)]


def test_a_run_that_was_torn_between_two_attributions_goes_on(table, tmp_path):
    whole, out = table.read_text().splitlines(keepends=True), tmp_path / "table.csv"
    manifest = json.loads(Path(f"{table}.json").read_text())
    out.write_text("".join(whole[: 1 + 8 + 3]) + whole[12][:40])  # of the second sample some rows, and a part of one
    Path(f"{out}.json").write_text(json.dumps({**manifest, "state": "running"}))
    assert attrcert("bound", *FEW, *TWO, "--out", out, "--resume").code == 0
    with out.open() as ours, table.open() as theirs:
        assert timeless(csv.DictReader(ours)) == timeless(csv.DictReader(theirs))
    other = attrcert("bound", *FEW, *TWO[:-2], "--eps", "0.1", "--out", out, "--resume")
    assert other.code == 2
    assert "belongs to another run: eps was [0.1, 0.2] and is" in other.said


def test_one_file_and_one_manifest_tell_of_all(table):
    told = json.loads(Path(f"{table}.json").read_text())
    ig = "integrated-gradients(steps=2, quadrature=gauss-legendre, baseline=0)"
    assert (told["identity"]["attribution"], told["identity"]["norm"]) == (["saliency", ig], NORMS)
    assert (told["state"], told["rows"]) == ("complete", 2 * 8)
    assert "saliency, integrated-gradients(" in told["facts"]["bounded"]
    assert "|delta|_2 <= eps or |delta|_inf <= eps" in told["facts"]["bounded"]


def test_summaries_and_sentences_have_a_case_for_each(table):
    said = json.loads(table.with_suffix(".said").read_text())
    found = said["summary"]["per_eps"]
    assert [(part["attribution"], part["norm"], part["eps"]) for part in found] == [
        (name, norm, eps) for name in ("saliency", "integrated-gradients") for norm in NORMS for eps in (0.1, 0.2)
    ]
    rows = [row for row in said["rows"] if (row["attribution"], row["norm"], row["eps"]) == ("saliency", "linf", 0.2)]
    assert found[3]["T_e"]["mean"] == pytest.approx(sum(row["T_e"] for row in rows) / 2)
    assert found[3]["samples"] == 2
    assert said["summary"]["status"] == {"vacuous": 2}
    assert len(said["sentences"]) == 8
    assert sum("turn" in sentence and "integrated gradients map" in sentence for sentence in said["sentences"]) == 4
    assert "within linf 0.2" in said["sentences"][3]
    assert "the saliency map" in said["sentences"][3]


@pytest.mark.parametrize(
    ("shape", "line"), [("markdown", "| saliency | linf | 0.2 |"), ("latex", "saliency & linf & 0.2 &")]
)
def test_tables_have_a_line_for_each_with_the_means_first(table, tmp_path, shape, line):
    again = attrcert("bound", *FEW, *TWO, "--out", table, "--resume", "--format", shape)
    assert again.code == 0, again.err
    assert again.out.count(line) == 4  # means, medians, 95th percentiles, largest
    assert again.out.index("Means over the samples") < again.out.index("Medians over the samples")


def test_a_rule_must_hold_of_each_and_a_filter_picks_by_name(table):
    def judged(rule: str):
        return gate([table], rule).judgements[0]

    observed = {one.case: one for one in judged("mean(T_e) <= 1").observations}
    assert len(observed) == 8
    assert observed["saliency, l2, eps 0.1"].passed
    assert not observed["saliency, linf, eps 0.2"].passed
    assert judged("mean(T_e) <= 1").outcome == "failed"
    assert judged("mean(T_e[attribution=saliency, norm=l2]) <= 1").outcome == "passed"
    own = judged("mean(T_e[attribution=integrated-gradients, norm=l2, eps=0.1]) <= 1").observations
    assert [one.case for one in own] == ["integrated-gradients, l2, eps 0.1"]
    others = judged("mean(T_e[attribution != integrated-gradients]) <= 1").observations
    assert {one.case.partition(",")[0] for one in others} == {"saliency"}
    refused = judged("mean(T_e[attribution=smooth-grad]) <= 1")
    assert (refused.outcome, "no row is selected" in refused.message) == ("error", True)


def test_a_rule_on_an_attribution_that_is_not_asked_for_is_refused_before_the_run(tmp_path):
    done = attrcert(
        "bound", *FEW, *BOTH, "--require", "mean(T_e[attribution=smooth-grad]) <= 1", "--out", tmp_path / "a.csv"
    )
    assert done.code == 2
    assert "no row is selected" in done.said
    assert not (tmp_path / "a.csv").exists()


def test_a_page_has_figures_tables_and_samples_of_each(table):
    page = make_page([table], title="", most=50, pictures=0)
    assert page.parts[0].about.endswith(
        "saliency, integrated-gradients(steps=2, quadrature=gauss-legendre, baseline=0), l2, linf"
    )
    assert len(page.parts[0].sentences) == 8
    shown = [column.name for column in page.samples.columns if column.first]
    assert shown[:3] == ["index", "attribution", "norm"]
    drawn = Figure()
    next(plot for plot in page.plots if plot.name == "angles").draw(drawn)
    labels = drawn.axes[0].get_legend_handles_labels()[1]
    assert labels == [f"table: {name}, l2: first-order T_c_deg" for name in ("saliency", "integrated-gradients")]


def test_runs_side_by_side_keep_the_attributions_apart(table, tmp_path):
    other = tmp_path / "alone.csv"
    assert attrcert("bound", *FEW, "--eps", "0.1", "--out", other).code == 0
    (side,) = make_page([table, other], title="", most=5, pictures=0).comparisons
    mean = {(line[0]): line[2:] for line in side.cells if line[1] == "mean(T_e)"}
    assert len(mean) == 8
    assert mean["saliency, l2, eps 0.1"][0] == mean["saliency, l2, eps 0.1"][1] != "-"
    assert mean["saliency, linf, eps 0.1"][1] == "-"


def test_kept_perturbations_are_named_by_attribution_and_shown_beside_their_maps(tmp_path):
    out, kept = tmp_path / "attack.csv", tmp_path / "deltas.safetensors"
    quick = ("--steps", 1, "--restarts", 0, "--random-draws", 2)
    words = ("attack", *FEW, *quick, "--attribution", "sm,ixg", "--out", out, "--save-deltas", kept)
    done = attrcert(*words)
    assert done.code == 0, done.err
    keys = {of_part(f"index={i}/eps=0.1/attack=euclidean", name, "l2") for i in (0, 1) for name in MAPS[:2]}
    names = set(load_file(kept))
    assert keys | {f"{key}/map" for key in keys} | {"index=0/input", "index=1/input"} <= names
    assert len(names) == 4 * 3 + 2
    page = make_page([out], title="", most=5, pictures=1)
    titles = [f"attack: {name}: moved {word}" for name in MAPS[:2] for word in ("most", "least")]
    assert (page.missing, [one.title for one in page.galleries]) == ((), titles)
    assert attrcert(*words, "--resume").code == 0
    kept.unlink()
    assert "lacks perturbations of finished samples" in attrcert(*words, "--resume").said


def test_shards_of_such_a_run_are_joined(table, tmp_path):
    for shard in (1, 2):
        done = attrcert("bound", *FEW, *TWO, "--shard", f"{shard}/2", "--out", tmp_path / f"{shard}.csv")
        assert done.code == 0, done.err
    done = attrcert("merge", tmp_path / "1.csv", tmp_path / "2.csv", "--out", tmp_path / "all.csv")
    assert done.code == 0, done.err
    with (tmp_path / "all.csv").open() as ours, table.open() as theirs:
        kept = ("index", "attribution", "norm", "eps")
        assert [[row[name] for name in kept] for row in csv.DictReader(ours)] == [
            [row[name] for name in kept] for row in csv.DictReader(theirs)
        ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bound", "--attribution", "sm,saliency"), "each --attribution may be given once, got saliency, saliency"),
        (("bound", "--norm", "l2", "--norm", "l2"), "each --norm may be given once, got l2, l2"),
        (("bound", "--attribution", "sm,salienzy"), "got 'salienzy'"),
        (("bound", "--attribution", "sm,ixg", "--ig-steps", 3), "--ig-steps has no effect here"),
        (("bound", "--norm", "l2,linf", "--p", 3), "--p goes with --norm lp only, got norm l2"),
        (("bound", "--norm", "l2,lp"), "--norm lp needs a finite --p"),
        (("attack", "--norm", "l2,lp", "--p", 3), "attacks are for l2 and linf, got norm lp"),
        (("bound", "--norm", "l2,linf", "--eps", "l2:0.1"), "there is no --eps for the norm linf"),
        (("bound", "--eps", "linf:0.1"), "--eps linf:... is for the norm linf, and this run has l2"),
        (("bound", "--norm", "l2,linf", "--smooth", "uniform"), "smoothing certificates are for l2, got norm linf"),
        (("bound", "--attribution", "sm,sg", "--smooth", "uniform"), "must be a plain one, got smooth-grad"),
        (("bound", "--attribution", "sm,ixg", "--loss-hessian"), "takes no other attribution, got input-x-gradient"),
        (("smooth", "--attribution", "sm,ixg"), "there can be one attribution here, got sm, ixg: it writes one file"),
        (
            ("bound", "--attribution", "sm,ixg", "--save-jacobian", 0, "--out", "never.csv"),
            "--save-jacobian takes one attribution, norm and softplus beta, got 2 of them together",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_together_is_refused_by_name(words, said):
    done = attrcert(words[0], "fashion-adversarial", "--limit", 1, *words[1:])
    assert done.code == 2
    assert said in done.said
    assert not Path("never.csv").exists()


def test_an_attribution_without_derivatives_is_named_and_is_attacked_beside_the_others(smooth_cnn, images):
    values = f"{own_maps.__file__}:occlusion"
    given = {"attribution": ["sm", values], "dtype": "float64"}
    with pytest.raises(AttributionError, match=r"own_maps.py:occlusion cannot be differentiated"):
        bound(smooth_cnn(), images(2, 1, 5, 5), **given)
    rows = attack(smooth_cnn(), images(2, 1, 5, 5), **given, attack="random", random_draws=2)
    assert [(row["attribution"], row["T_e"] is None) for row in rows if row["index"] == 0] == [
        ("saliency", False), ("own_maps.py:occlusion", True),
    ]  # fmt: skip
    (found,) = (one["message"] for one in rows.manifest["findings"] if one["check"] == "bounds")
    assert found.startswith("own_maps.py:occlusion: there are none")


def test_two_files_of_the_same_name_are_not_mixed(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "maps.py").write_text(Path(own_maps.__file__).read_text())
    names = [f"{tmp_path}/{folder}/maps.py:gradient" for folder in ("one", "two")]
    with pytest.raises(UsageError, match=r"two attributions have the same name in the rows, maps.py:gradient"):
        task_of("bound", {"attribution": names})


def test_settings_of_one_are_taken_and_a_task_can_be_sent_to_a_worker():
    task = task_of("bound", {"attribution": "sm,ig", "ig_steps": 3, "norm": "l2,lp", "p": 4, "eps": "l2:0.1,0.2"})
    again = pickle.loads(pickle.dumps(task))
    assert again.cases == task.cases
    assert [case["norm"] for case in task.cases] == ["l2", "l2", "l4"] * 2
    assert task.identity()["eps"] == {"l2": (0.1, 0.2), "l4": (0.2,)}
    assert task.identity()["p"] == {"l2": None, "l4": 4.0}
    assert task_of("bound", {"attribution": ["ixg"], "norm": ["linf"]}) == task_of(
        "bound", {"attribution": "ixg", "norm": "linf"}
    )


def test_all_differentiate_as_many_points_together(smooth_cnn, images):
    task = task_of("bound", {"attribution": ["sm", "ig"], "dtype": "float64"})
    run = open_run(smooth_cnn(), images(3, 1, 5, 5), task, RunOptions(chunk=5)).with_chunk(3)
    assert [work.layout.chunk for work in run.work.works] == [3, 3]


def test_an_audit_has_parts_for_each_and_a_verdict_on_each():
    planned = pieces(Auditing(), {"attribution": "sm,ig", "ig_steps": 3}, Yard(16))
    assert [piece.name for piece in planned[:4]] == [
        "attack-l2-saliency", "attack-l2-integrated-gradients", "smoothed-saliency", "smoothed-integrated-gradients",
    ]  # fmt: skip
    assert {piece.task.explanation.ig_steps for piece in planned} == {3}
    row = {"index": 0, "status": "ok", "norm": "l2", "eps": 0.1, "T_hat_c_deg": 40.0, "correct": True}
    rows = {piece.name: [{**row, "attribution": piece.attribution}] for piece in planned[:2]}
    said = verdict(
        Grounds(rows, Yard(16), {}, {"proved-l2-saliency": "no rule"}, {one.name: one.attribution for one in planned})
    )
    second = said.index("integrated-gradients:")
    assert said[0] == "saliency:"
    assert any("Is the saliency stable? No" in sentence for sentence in said[:second])
    assert any("Is the integrated-gradients stable? No" in sentence for sentence in said[second:])
    assert sum("Not computed: proved-l2-saliency" in sentence for sentence in said) == 1
    assert sum("How large these are" in sentence for sentence in said) == 1
