"""Where a gate could have passed without having judged, a report could have shown what is not so, or a program could have stumbled."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from reference.program import attrcert
from safetensors.numpy import load_file, save_file

from attrcert.columns import COLUMNS
from attrcert.reporting.pages.figures import plots
from attrcert.reporting.pages.worst import RunRows
from attrcert.saved.records import to_csv
from attrcert.saved.runfiles import read_table
from attrcert.vocabulary import ERROR_KINDS, Guarantee


def row(index: int, **cells) -> dict:
    common = {"index": index, "status": "ok", "attribution": "saliency", "norm": "l2", "eps": 0.1, "T_c_deg": 10.0}
    return common | cells


def write(path: Path, cells: list[dict], command: str = "bound", **manifest) -> Path:
    """A run's two files; `manifest` is what its manifest says otherwise."""
    own = {column.name for column in COLUMNS[command]}
    cells = [{name: cell for name, cell in one.items() if name in own} for one in cells]
    path.write_text(to_csv(cells, COLUMNS[command], header=True))
    told = {"schema": 1, "command": command, "identity": {"dataset_sha256": "a", "eps": [0.1]}, "state": "complete"}
    Path(f"{path}.json").write_text(json.dumps(told | {"rows": len(cells)} | manifest))
    return path


def figure(done) -> float:
    return json.loads(done.out)["judgements"][0]["observations"][0]["figures"]["observed"]


def test_a_filter_on_a_radius_that_was_chosen_picks_rows_not_cases(tmp_path):
    cells = [(4.0, 60.0), (2.0, 5.0), (2.0, 5.0), (2.0, 5.0)]
    rows = [row(i, radius=r, angle_deg=angle, radii_tried="2; 4") for i, (r, angle) in enumerate(cells)]
    path = write(tmp_path / "r.csv", rows, "certify")
    done = attrcert("gate", path, "--require", "mean(angle_deg[radius=4]) <= 30", "--json")
    assert (done.code, figure(done)) == (1, 60.0)
    done = attrcert("gate", path, "--require", "mean(angle_deg[radius=2]) <= 30", "--json")
    assert (done.code, figure(done)) == (0, 5.0)


def test_min_samples_counts_the_pairs(tmp_path):
    old = write(tmp_path / "old.csv", [row(0), *(row(i, status="error:memory", T_c_deg=None) for i in range(1, 5))])
    new = write(tmp_path / "new.csv", [row(0), *(row(i, T_c_deg=170.0) for i in range(1, 5))])
    words = ("gate", new, "--baseline", old, "--max-regression", "mean(T_c_deg) 5%")
    assert attrcert(*words, "--min-samples", 4).code == 2
    assert attrcert(*words).code == 4  # the baseline is incomplete
    assert attrcert(*words, "--max-incomplete", 1).code == 0


def test_a_baseline_that_did_not_end_is_incomplete(tmp_path):
    old, new = write(tmp_path / "old.csv", [row(0)], state="interrupted"), write(tmp_path / "new.csv", [row(0)])
    assert attrcert("gate", new, "--baseline", old, "--max-regression", "mean(T_c_deg) 5%").code == 4


@pytest.mark.parametrize("other", [{"attribution": "b"}, {"eps": 0.1000001}])
def test_cases_that_look_alike_are_not_mixed_up(tmp_path, other):
    old = write(tmp_path / "old.csv", [row(0, T_c_deg=10.0), row(0, T_c_deg=100.0, **other)])
    new = write(tmp_path / "new.csv", [row(0, T_c_deg=90.0), row(0, T_c_deg=100.0, **other)])
    assert attrcert("gate", new, "--baseline", old, "--max-regression", "mean(T_c_deg) 5%").code == 1


def test_a_case_that_only_one_of_two_like_runs_has_is_an_error(tmp_path):
    old = write(tmp_path / "old.csv", [row(0), row(0, eps=0.25)])
    new = write(tmp_path / "new.csv", [row(0)])
    done = attrcert("gate", new, "--baseline", old, "--max-regression", "mean(T_c_deg) 5%")
    assert done.code == 2
    assert "has eps 0.25" in done.shown


def test_files_without_a_counterpart_are_told(tmp_path):
    old, new = write(tmp_path / "old.csv", [row(0)]), write(tmp_path / "new.csv", [row(0)])
    attacked = write(tmp_path / "attacked.csv", [row(0, attack="cosine")], "attack")
    done = attrcert("gate", new, attacked, "--baseline", old, "--max-regression", "mean(T_c_deg) 5%", "--markdown")
    assert done.code == 0
    assert "attacked.csv has no baseline and is not compared" in done.out
    done = attrcert("gate", new, attacked, "--require", "count(attack == cosine) == 1", "--markdown")
    assert "new.csv is not judged" in done.out


@pytest.mark.parametrize("manifest", [{"rows": 5}, {"state": "aborted"}, {"state": None}, {"state": ["running"]}])
def test_a_file_that_is_not_what_its_manifest_tells_is_incomplete(tmp_path, manifest):
    path = write(tmp_path / "x.csv", [row(0)], **manifest)
    assert attrcert("gate", path, "--require", "max(T_c_deg) <= 90").code == 4


def test_a_misspelt_kind_of_error_is_refused_and_a_known_one_counted(tmp_path):
    path = write(tmp_path / "x.csv", [row(0), row(1, status="error:unreadable", T_c_deg=None)])
    words = ("gate", path, "--max-incomplete", 1, "--require")
    assert attrcert(*words, "count(status == error:unreadible) == 0").code == 2
    assert attrcert(*words, "count(status == error:unreadable) == 1").code == 0
    assert attrcert(*words, "count(status == error:memory) == 0").code == 0


def test_every_kind_of_error_in_the_program_is_a_known_word():
    home = Path(__file__).parent.parent / "attrcert"
    sources = [path.read_text() for part in ("loading", "running") for path in (home / part).rglob("*.py")]
    raised = {kind for text in sources for kind in re.findall(r'kind="([a-z-]+)"', text)}
    failed = {kind for text in sources for kind in re.findall(r'Failed\((?:[^"()]|\([^)]*\))+, "([a-z-]+)"', text)}
    assert {"unreadable", "memory", "label"} <= raised | failed
    assert raised | failed <= set(ERROR_KINDS)


@pytest.mark.parametrize(
    ("condition", "count", "left_out"),
    [
        ("violated or violated_ball", 1, 1),  # true or unknown, false or unknown, false or false
        ("violated and violated_ball", 0, 1),
        ("violated_ball", 0, 2),
    ],
)
def test_what_is_unknown_is_neither_true_nor_false(tmp_path, condition, count, left_out):
    cells = [(True, None), (False, None), (False, False)]
    rows = [row(i, attack="cosine", violated=a, violated_ball=b) for i, (a, b) in enumerate(cells)]
    path = write(tmp_path / "x.csv", rows, "attack")
    done = attrcert("gate", path, "--require", f"count({condition}) == 0", "--json")
    one = json.loads(done.out)["judgements"][0]["observations"][0]
    assert (one["figures"]["observed"], one["samples"]) == (count, 3 - left_out)
    assert done.code == (1 if count else 0)


@pytest.mark.parametrize("header", ["index,status,eps,T_c_deg,T_c_deg", "index,status,eps,status,T_c_deg"])
def test_a_column_that_is_there_twice_is_refused(tmp_path, header):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n0,ok,0.1,ok,170\n")
    assert attrcert("gate", path, "--require", "max(T_c_deg) <= 20").code == 2


@pytest.mark.parametrize(
    ("rule", "bad", "code"),
    [("fraction(T_c_deg > 30) < 0.9%", 9, 1), ("fraction(T_c_deg > 30) <= 0.7%", 7, 0), ("fraction(T_c_deg > 30) <= 2.9%", 29, 0)],
)  # fmt: skip
def test_a_percentage_is_exact(tmp_path, rule, bad, code):
    path = write(tmp_path / "x.csv", [row(i, T_c_deg=40.0 if i < bad else 10.0) for i in range(1000)])
    assert attrcert("gate", path, "--require", rule).code == code


def test_means_and_shares_are_rounded_once(tmp_path):
    path = write(tmp_path / "x.csv", [row(i, T_e=0.1) for i in range(3)])
    assert attrcert("gate", path, "--require", "mean(T_e) <= 0.1").code == 0
    rows = [row(i, **({"status": "error:memory", "T_c_deg": None} if i < 29 else {})) for i in range(100)]
    path = write(tmp_path / "y.csv", rows)
    assert attrcert("gate", path, "--require", "mean(T_c_deg) <= 90", "--max-incomplete", 0.29).code == 0


def test_a_figure_shown_is_not_beyond_the_limit_that_it_meets(tmp_path):
    rows = [row(i, **({"status": "vacuous", "T_c_deg": None} if i == 0 else {})) for i in range(10)]
    done = attrcert("gate", write(tmp_path / "x.csv", rows), "--require", "fraction(status == vacuous) <= 10%")
    assert done.code == 0
    assert re.search(r"│ +0\.1 │", done.out)


@pytest.mark.parametrize("comparator", ["!=", "<=", ">=", "=="])
def test_what_is_not_a_number_meets_nothing(tmp_path, comparator):
    path = write(tmp_path / "x.csv", [row(0, T_e=None), row(1, T_e=1.0)])
    assert attrcert("gate", path, "--require", f"std(T_e) {comparator} 5").code == 2


@pytest.mark.parametrize("command", ["bound", "max-eps", "min-radius"])
def test_a_failed_sample_of_a_smoothing_run_belongs_to_its_case(tmp_path, command):
    images = np.random.default_rng(0).random((3, 28, 28, 1)).astype(np.float32)
    images[1, 0, 0] = np.nan
    np.savez(tmp_path / "d.npz", images=images, labels=np.zeros(3, dtype=int))
    task = {"bound": ("--eps", 0.01), "max-eps": (), "min-radius": ("--eps", 0.01, "--radii", "1,2")}[command]
    smooth = () if command == "min-radius" else ("--radius", "1,2")
    words = ("fashion-natural", tmp_path / "d.npz", "--smooth", "uniform", *smooth, *task, "--min-cosine", 0.5)
    out = ("--samples", 60, "--quiet", "--max-incomplete", 1, "--out", tmp_path / "s.csv")
    done = attrcert(command, *words, *out, "--require", "count(status == error:non-finite) == 1")
    assert done.code == 0, done.out + done.err
    table = read_table(tmp_path / "s.csv")
    assert len(table.cases) == (1 if command == "min-radius" else 2)
    assert all(len(places) == 3 for places in table.cases.values())
    rule = {
        "bound": "mean(cosine) >= -0.99",
        "max-eps": "mean(eps_max) >= 1e-6",
        "min-radius": "count(status == infeasible) <= 2",
    }
    words = ("gate", tmp_path / "s.csv", "--require", rule[command])
    assert attrcert(*words, "--max-incomplete", 0.5).code == 0
    assert attrcert(*words, "--waive", "1:broken file").code == 0
    assert attrcert(*words).code == 4


def test_a_failed_row_that_tells_less_belongs_to_every_case_that_it_does_not_contradict(tmp_path):
    rows = [row(0), row(0, eps=0.2), row(1, status="error:memory", eps=None, attribution=None, T_c_deg=None)]
    table = read_table(write(tmp_path / "x.csv", rows))
    assert [len(places) for places in table.cases.values()] == [2, 2]


def test_a_sign_that_contradicts_what_is_worse_is_refused(tmp_path):
    path = write(tmp_path / "x.csv", [row(0)])
    words = ("gate", path, "--baseline", path, "--max-regression")
    assert attrcert(*words, "mean(T_c_deg) -5%").code == 2
    assert attrcert(*words, "mean(T_c_deg) +5%").code == 0


def test_neither_a_junit_report_nor_a_figure_replaces_a_file_of_others(tmp_path, report_runs):
    path = write(tmp_path / "x.csv", [row(0)])
    before = path.read_bytes()
    assert attrcert("gate", path, "--require", "max(T_c_deg) <= 20", "--junit", path).code == 2
    assert path.read_bytes() == before
    for _ in range(2):
        assert attrcert("gate", path, "--require", "max(T_c_deg) <= 20", "--junit", tmp_path / "j.xml").code == 0
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "status.png").write_bytes(b"my own")
    words = ("report", report_runs / "bound.csv", "--out", tmp_path / "r.html", "--plots")
    assert attrcert(*words, tmp_path / "plots").code == 2
    assert (tmp_path / "plots" / "status.png").read_bytes() == b"my own"
    for _ in range(2):
        assert attrcert(*words, tmp_path / "mine").code == 0


def test_the_verdict_is_printed_although_a_report_cannot_be_written(tmp_path):
    path = write(tmp_path / "x.csv", [row(0)])
    done = attrcert("gate", path, "--require", "max(T_c_deg) <= 20", "--junit", tmp_path / "none" / "j.xml")
    assert done.code == 2
    assert "Gate: passed" in done.out


HUGE = "1" * 5000


@pytest.mark.parametrize(
    ("words", "toml", "manifest"),
    [
        ((), "[gate]\nbaseline = ''\nmax_regression = ['mean(T_e) 1']", None),
        ((), '[gate]\nbaseline = "a\\u0000b.csv"\nmax_regression = ["mean(T_e) 1"]', None),
        ((), f"[gate]\nmin_samples = {HUGE}", None),
        ((), "[gate]\nmin_samples = nan", None),
        ((), "[gate]\nmin_samples = 1.5", None),
        ((), f"[gate]\nmax_incomplete = 1{'0' * 400}", None),
        ((), f"[gate]\nx = {'[' * 3000}", None),
        (("--require", f"max(T_c_deg) <= {HUGE}"), None, None),
        (("--require", "max(T_c_deg) <= 1e99999999"), None, None),
        (("--waive", f"{HUGE}:x"), None, None),
        ((), None, '{"command": [], "identity": {}, "state": "failed"}'),
        ((), None, f'{{"command": "bound", "identity": {{"x": {HUGE}}}}}'),
        ((), None, '{"identity": {}, "rows": "x"}'),
    ],
)
def test_strange_input_is_a_message_and_never_a_traceback(tmp_path, words, toml, manifest):
    path = write(tmp_path / "x.csv", [row(0)])
    if toml is not None:
        (tmp_path / "g.toml").write_text(toml)
        words = ("--config", tmp_path / "g.toml")
    if manifest is not None:
        Path(f"{path}.json").write_text(manifest)
    done = attrcert("gate", path, "--require", "max(T_c_deg) <= 20", *words)
    assert done.code in (2, 4)


@pytest.mark.parametrize("name", [".", "/", "none.csv"])
def test_what_is_no_file_is_told(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = attrcert("gate", name, "--require", "max(T_c_deg) <= 20")
    assert done.code == 2
    assert f"{name} cannot be read" in done.shown


@pytest.mark.parametrize(
    "cells", [{"index": "1" + "0" * 400}, {"label": "1" + "0" * 400}, {"status": ""}, {"status": "garbage"}]
)
def test_cells_that_no_run_writes_are_refused(cells, tmp_path):
    path = write(tmp_path / "x.csv", [row(0) | cells])
    assert attrcert("gate", path, "--require", "mean(label) <= 20").code == 2


def test_a_summary_path_that_cannot_be_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "x" * 5000)
    done = attrcert("gate", write(tmp_path / "x.csv", [row(0)]), "--require", "max(T_c_deg) <= 20")
    assert (done.code, "cannot be written" in done.said) == (74, True)


def test_a_file_name_that_is_no_text_is_judged_and_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    path = write(Path(os.fsdecode(bytes(tmp_path) + b"/\xff.csv")), [row(0)])
    assert attrcert("gate", path, "--require", "max(T_c_deg) <= 20", "--junit", tmp_path / "j.xml").code == 0
    assert attrcert("report", path, "--out", tmp_path / "r.html").code == 0


def test_lines_and_links_in_cells_stay_in_their_cells(tmp_path):
    evil = "a\n::error::hit\n![p](https://evil/p.png) [click](https://evil)"
    path = write(tmp_path / "x.csv", [row(0, attack=evil)], "attack")
    words = ("gate", path, "--require", "max(T_c_deg) <= 5")
    shown = attrcert(*words, "--markdown").out
    assert "](" not in shown
    for out in (shown, attrcert(*words).out):
        assert not any(line.startswith("::") for line in out.splitlines())
    lines = [line for line in shown.splitlines() if line.startswith("|")]
    assert len(lines) == 4  # header, rule, complete
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_thresholds_of_different_kinds_are_different_curves():
    rows = [
        {"index": 0, "status": "ok", "threshold_kind": kind, "threshold": 30.0, "eps_max": eps}
        for kind, eps in (("angle", 0.1), ("deviation", 0.2))
    ]
    (plot,) = (plot for plot in plots([RunRows("x", "max-eps", rows)]) if plot.name == "ecdf")
    text = plot.inline()
    assert "angle 30" in text
    assert "deviation 30" in text


def test_perturbations_of_another_run_are_not_shown(report_runs, tmp_path):
    other = report_runs / "adversarial.safetensors"
    done = attrcert("report", report_runs / "natural.csv", "--deltas", other, "--out", tmp_path / "r.html")
    assert done.code == 0
    assert "they are of another run" in done.said


@pytest.mark.parametrize("change", ["without input", "flat", "other shape", "not finite"])
def test_arrays_that_make_no_picture_are_told(report_runs, tmp_path, change):
    arrays = load_file(report_runs / "natural.safetensors")
    for key in [key for key in arrays if key.endswith("/input")]:
        if change == "without input":
            del arrays[key]
        else:
            image = arrays[key]
            arrays[key] = {"flat": image[0], "other shape": image[:, :3], "not finite": image * np.nan}[change]
    save_file(
        {key: np.ascontiguousarray(array) for key, array in arrays.items()}, tmp_path / "d", {"attrcert": "deltas"}
    )
    done = attrcert("report", report_runs / "natural.csv", "--deltas", tmp_path / "d", "--out", tmp_path / "r.html")
    assert done.code == 0
    assert "natural: no pictures: " in done.said
    assert "<img" not in (tmp_path / "r.html").read_text()


def test_an_extra_column_of_text_does_not_disturb_a_report(report_runs, tmp_path):
    header, *lines = (report_runs / "natural.csv").read_text().splitlines()
    (tmp_path / "x.csv").write_text("\n".join([f"{header},note", *(f"{line},mine" for line in lines)]) + "\n")
    done = attrcert("report", tmp_path / "x.csv", "--out", tmp_path / "r.html")
    assert done.code == 0, done.err
    done = attrcert("gate", tmp_path / "x.csv", "--require", "fraction(note == mine) == 1")
    assert done.code == 0


def test_a_broken_promise_is_a_warning_in_the_page(report_runs, tmp_path):
    rows = [row(0, attack="cosine", guarantee="proved", T_e=1.0, T_proved=1.0, T_hat_e=1.5, violated_proved=True)]
    path = write(tmp_path / "x.csv", [one | {"T_hat_c_deg": 5.0, "g_norm": 9.0} for one in rows], "attack")
    assert attrcert("report", path, "--out", tmp_path / "r.html").code == 0
    assert "exceeded a proved or confidence bound on 1 rows" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    "rule", ["fraction(status == vacuous) <= 1", "fraction(status == ok) >= 0", "fraction(violated) < 13"]
)
def test_a_rule_that_cannot_fail_is_refused(rule, tmp_path):
    path = write(tmp_path / "x.csv", [row(0, attack="cosine", violated=False)], "attack")
    assert attrcert("gate", path, "--require", rule).code == 2


def test_a_percentage_of_degrees_is_refused(tmp_path):
    assert attrcert("gate", write(tmp_path / "x.csv", [row(0)]), "--require", "p95(T_c_deg) <= 30%").code == 2


def test_an_eps_is_found_as_the_tables_show_it(tmp_path):
    path = write(tmp_path / "x.csv", [row(0, eps=8 / 255)])
    assert attrcert("gate", path, "--require", "max(T_c_deg[eps=0.03137]) <= 20").code == 0
    assert attrcert("gate", path, "--require", "max(T_c_deg[eps=0.031]) <= 20").code == 2


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("p95(T_hat_e) <= 1", "it is a column of `attrcert attack`"),
        ("max(T_c_deg[eps=0.1 and norm=l2]) <= 1", "joined by commas"),
        ("fraction(status == Vacuous) <= 1%", "did you mean 'vacuous'?"),
        ("max(T_proved) <= 1", "(--proved)"),
    ],
)
def test_a_hint_says_what_to_do(rule, hint, tmp_path):
    done = attrcert("gate", write(tmp_path / "x.csv", [row(0)]), "--require", rule)
    assert done.code == 2
    assert hint in done.shown


def test_counted_faults_get_worse_upwards(tmp_path):
    old = write(tmp_path / "old.csv", [row(i) for i in range(4)])
    new = write(tmp_path / "new.csv", [row(0, status="vacuous", T_c_deg=None), *(row(i) for i in range(1, 4))])
    words = ("--max-regression", "fraction(status == vacuous) 0.1")
    assert attrcert("gate", new, "--baseline", old, *words).code == 1
    assert attrcert("gate", old, "--baseline", new, *words).code == 0


def test_a_file_that_is_given_twice_is_refused(tmp_path):
    path = write(tmp_path / "x.csv", [row(0)])
    assert attrcert("gate", path, path, "--require", "max(T_c_deg) <= 20").code == 2


def test_an_eps_that_the_run_has_not_is_refused_before_it_starts(tmp_path):
    done = attrcert("bound", "--limit", 2, "--require", "max(T_c_deg[eps=0.3]) <= 20", "--out", tmp_path / "x.csv")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert "eps is 0.1" in done.said


def test_a_killed_run_says_how_far_it_came(tmp_path):
    path = write(tmp_path / "x.csv", [row(0)], state="running", samples="0-63")
    done = attrcert("gate", path, "--require", "max(T_c_deg) <= 20")
    assert done.code == 4
    assert "1 of 64 samples" in done.out


def test_a_case_in_which_every_sample_failed_is_not_passed_over_by_a_filter(tmp_path):
    path = write(tmp_path / "x.csv", [row(0), row(0, eps=0.2, status="error:shape", T_c_deg=None)])
    words = ("gate", path, "--max-incomplete", 1, "--require")
    assert attrcert(*words, "max(T_c_deg[eps <= 0.1]) <= 20").code == 0
    assert attrcert(*words, "max(T_c_deg[eps <= 0.2]) <= 20").code == 2
    assert attrcert(*words, "max(T_c_deg[eps > 0.15]) <= 20").code == 2


def test_a_figure_in_a_row_that_failed_does_not_count(tmp_path):
    path = write(tmp_path / "x.csv", [row(0, T_c_deg=5.0), row(1, T_c_deg=50.0, status="error:shape")])
    done = attrcert("gate", path, "--max-incomplete", 1, "--require", "mean(T_c_deg) <= 20", "--json")
    assert (done.code, figure(done)) == (0, 5.0)


@pytest.mark.parametrize(
    ("command", "cells", "rule", "said"),
    [
        ("bound", {}, "max(T_c_deg) <= 20", "T_c_deg: first-order"),
        ("bound", {"T_e_ball": 1.0}, "max(T_e_ball) <= 20", "T_e_ball: corrected"),
        ("bound", {"T_proved": 1.0}, "max(T_proved) <= 20", "T_proved: proved"),
        ("attack", {"attack": "cosine", "cosine": 0.9}, "min(cosine) >= 0.5", "cosine: empirical"),
        ("certify", {"guarantee": "confidence", "cosine": 0.9}, "min(cosine) >= 0.5", "cosine: confidence"),
        ("max-eps", {"guarantee": "first-order", "eps_max": 0.9}, "min(eps_max) >= 0.5", "eps_max: first-order"),
    ],
)
def test_a_verdict_says_what_the_judged_figures_guarantee(tmp_path, command, cells, rule, said):
    done = attrcert("gate", write(tmp_path / "x.csv", [row(0, **cells)], command), "--require", rule, "--markdown")
    assert done.code == 0
    assert f"- {said}, " in done.out
    plain = attrcert("gate", tmp_path / "x.csv", "--require", "count(status == vacuous) == 0", "--markdown").out
    assert not any(f": {guarantee}" in plain for guarantee in Guarantee)
