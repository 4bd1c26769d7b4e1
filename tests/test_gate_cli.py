"""`attrcert gate` and --require: one verdict in every format, told by the exit code, and reports that are written whatever happens."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from reference.judging import bound_rows, write_run
from reference.program import Done, attrcert

from attrcert.columns import COLUMNS

FORMATS = (["--format", "table"], ["--json"], ["--markdown"])
MEBIBYTE = 1024 * 1024
PASSING, FAILING, BROKEN = "mean(T_c_deg) <= 30", "max(T_c_deg) <= 30", "mean(T_c_deg <= 30"


@pytest.fixture(autouse=True)
def summary(tmp_path, monkeypatch) -> Path:
    """Where GitHub would take the summary from."""
    path = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


@pytest.fixture
def run(tmp_path) -> Path:
    """Its mean angle is 20 degrees, its largest 40."""
    return write_run(tmp_path / "run.csv", bound_rows([0.0, 20.0, 40.0]))


@pytest.fixture
def half(tmp_path) -> Path:
    """The same, interrupted."""
    return write_run(tmp_path / "half.csv", bound_rows([0.0, 20.0, 40.0]), state="interrupted")


def gate(*words: object) -> Done:
    return attrcert("gate", *words)


def told(*words: object) -> dict:
    return json.loads(gate(*words, "--json").out)


def configured(folder: Path, text: str) -> Path:
    path = folder / "attrcert.toml"
    path.write_text(f"[gate]\n{text}", encoding="utf-8")
    return path


@pytest.mark.parametrize("shape", FORMATS, ids=["table", "json", "markdown"])
@pytest.mark.parametrize(
    ("file", "rules", "code"),
    [
        ("run", [PASSING], 0),
        ("run", [PASSING, FAILING], 1),
        ("run", [PASSING, BROKEN], 2),
        ("run", [FAILING, BROKEN], 2),
        ("half", [PASSING], 4),
        ("half", [PASSING, FAILING], 1),
        ("half", [FAILING, BROKEN], 2),
        ("gone", [PASSING], 2),
    ],
)
def test_the_gravest_outcome_is_the_exit_code_in_every_format(tmp_path, run, half, file, rules, code, shape):
    words = [tmp_path / f"{file}.csv", *(word for rule in rules for word in ("--require", rule)), *shape]
    done = gate(*words)
    assert done.code == code
    assert {0: "passed", 1: "failed", 2: "error", 4: "incomplete"}[code] in done.out
    assert gate(*words, "--exit-zero").code == (2 if code == 2 else 0)


def test_json_gives_the_code_that_the_program_exits_with(run, half):
    for file, rule in ((run, PASSING), (run, FAILING), (run, BROKEN), (half, PASSING)):
        done = gate(file, "--require", rule, "--json")
        assert json.loads(done.out)["exit_code"] == done.code


def test_every_judgement_stands_in_every_format(run, tmp_path, summary):
    words = [run, "--require", PASSING, "--require", FAILING, "--junit", tmp_path / "out.xml"]
    table, whole, markdown = (gate(*words, *shape).out for shape in FORMATS)
    for rule, outcome in ((PASSING, "passed"), (FAILING, "failed"), ("complete", "passed")):
        assert re.search(rf"^{outcome} +│ {re.escape(rule)} ", table, re.MULTILINE)
        assert f"| {outcome} | {rule} |" in markdown
        assert (rule, outcome) in [(one["name"], one["outcome"]) for one in json.loads(whole)["judgements"]]
    assert markdown in summary.read_text()


def test_a_gate_without_a_rule_is_refused(run):
    assert gate(run).code == 2


@pytest.mark.parametrize(
    "words", [["--baseline", "run.csv"], ["--max-regression", "mean(T_c_deg) 5%"], ["--allow-mismatch", "data"]]
)
def test_a_baseline_and_an_allowance_need_each_other(run, words):
    done = gate(run, "--require", PASSING, *words)
    assert done.code == 2
    assert "needs" in done.said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "--markdown"], "--json and --markdown exclude each other"),
        (["--json", "--format", "markdown"], "--json and --format markdown exclude each other"),
        (["--markdown", "--format", "json"], "--markdown and --format json exclude each other"),
    ],
)
def test_two_formats_exclude_each_other(run, words, said):
    done = gate(run, "--require", PASSING, *words)
    assert (done.code, done.said) == (2, f"error: {said}")
    assert gate(run, "--require", PASSING, "--json", "--format", "json").code == 0


@pytest.mark.parametrize("waiver", ["1", "1:", "1: ", "one:reason", ":reason", "-1:reason"])
def test_a_waiver_needs_an_index_and_a_reason(run, waiver):
    done = gate(run, "--require", PASSING, f"--waive={waiver}")
    assert done.code == 2
    assert "INDEX:reason" in done.said


def test_a_waiver_is_told_in_every_output(run, tmp_path, summary):
    words = [run, "--require", FAILING, "--waive", "2:mislabelled, ticket 12", "--junit", tmp_path / "out.xml"]
    for shape in FORMATS:
        done = gate(*words, *shape)
        assert done.code == 0
        assert "mislabelled, ticket 12" in done.out
    assert told(*words)["waivers"] == [{"index": 2, "reason": "mislabelled, ticket 12"}]
    (waived,) = ElementTree.parse(tmp_path / "out.xml").iter("property")
    assert ("2" in waived.get("name"), waived.get("value")) == (True, "mislabelled, ticket 12")
    assert "mislabelled, ticket 12" in summary.read_text()


def test_the_options_reach_the_rules(run, tmp_path):
    assert gate(run, "--require", PASSING, "--min-samples", 4).code == 2
    rows = [*bound_rows([1.0, 2.0, 3.0]), {"index": 3, "eps": 0.1, "status": "error:shape"}]
    part = write_run(tmp_path / "part.csv", rows)
    assert gate(part, "--require", PASSING).code == 4
    assert gate(part, "--require", PASSING, "--max-incomplete", 0.25).code == 0


def test_a_regression_fails_the_gate_and_names_the_samples(run, tmp_path):
    old = write_run(tmp_path / "old.csv", bound_rows([0.0, 20.0, 30.0]))
    words = [run, "--baseline", old, "--max-regression", "mean(T_c_deg) 5%"]
    (one, _) = told(*words)["judgements"]
    assert one["outcome"] == "failed"
    assert one["observations"][0]["worst"] == [[2, "30 to 40"]]
    assert [gate(*words, *shape).code for shape in FORMATS] == [1, 1, 1]
    assert gate(old, "--baseline", run, "--max-regression", "mean(T_c_deg) 5%").code == 0


def test_runs_that_do_not_compare_exit_2_until_that_is_allowed(run, tmp_path):
    old = write_run(tmp_path / "old.csv", bound_rows([0.0, 20.0, 40.0]), identity={"limit": 3})
    words = [run, "--baseline", old, "--max-regression", "mean(T_c_deg) 5%"]
    assert gate(*words).code == 2
    assert gate(*words, "--allow-mismatch", "data").code == 0


# ---- the configuration ----


def test_a_configuration_holds_rules_with_names_and_reasons(run, tmp_path):
    config = configured(
        tmp_path,
        f'require = ["{PASSING}", {{rule = "{FAILING}", name = "stable maps", reason = "ticket 12"}}]\n',
    )
    passed, failed, _ = told(run, "--config", config)["judgements"]
    assert (passed["name"], passed["outcome"]) == (PASSING, "passed")
    assert [failed[key] for key in ("name", "demand", "reason", "outcome")] == [
        "stable maps", FAILING, "ticket 12", "failed",
    ]  # fmt: skip
    for shape in FORMATS:
        done = gate(run, "--config", config, *shape)
        assert done.code == 1
        assert all(text in done.out for text in ("stable maps", FAILING, "ticket 12"))


def test_the_command_line_adds_to_the_configuration(run, tmp_path):
    config = configured(tmp_path, f'require = ["{PASSING}"]\nwaive = [{{index = 0, reason = "known"}}]\n')
    verdict = told(run, "--config", config, "--require", FAILING, "--waive", "1:also")
    assert [one["name"] for one in verdict["judgements"]] == [PASSING, FAILING, "complete"]
    assert [one["index"] for one in verdict["waivers"]] == [0, 1]
    assert {part["samples"] for one in verdict["judgements"] for part in one["observations"]} == {1}


def test_a_configurations_baseline_lies_beside_it(run, tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    write_run(tmp_path / "deep" / "old.csv", bound_rows([0.0, 20.0, 30.0]), identity={"limit": 3})
    monkeypatch.chdir(tmp_path)
    text = 'baseline = "old.csv"\nmax_regression = [{rule = "mean(T_c_deg) 50%", name = "drift"}]\n'
    config = configured(tmp_path / "deep", text)
    assert told("run.csv", "--config", config)["exit_code"] == 2
    config = configured(tmp_path / "deep", text + 'allow_mismatch = ["data"]\n')
    (drift, _) = told("run.csv", "--config", config)["judgements"]
    assert (drift["name"], drift["outcome"]) == ("drift", "passed")
    assert drift["observations"][0]["figures"]["baseline"] == pytest.approx(50 / 3)


@pytest.mark.parametrize(
    ("line", "code"), [("", 4), ("max_incomplete = 0.5", 0), ("min_samples = 3\nmax_incomplete = 0.5", 2)]
)
def test_a_configuration_sets_the_limits(tmp_path, line, code):
    rows = [*bound_rows([1.0, 2.0]), {"index": 2, "eps": 0.1, "status": "error:shape"}]
    part = write_run(tmp_path / "part.csv", rows)
    assert gate(part, "--config", configured(tmp_path, f'require = ["{PASSING}"]\n{line}\n')).code == code


def test_the_command_lines_limits_come_before_the_configurations(run, tmp_path):
    config = configured(tmp_path, f'require = ["{PASSING}"]\nmin_samples = 9\n')
    assert gate(run, "--config", config).code == 2
    assert gate(run, "--config", config, "--min-samples", 3).code == 0


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("requires", "require"),
        ("max-regression", "max_regression"),
        ("waived", "waive"),
        ("min_sample", "min_samples"),
        ("allow_mismatches", "allow_mismatch"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(run, tmp_path, key, meant):
    done = gate(run, "--config", configured(tmp_path, f'require = ["{PASSING}"]\n{key} = []\n'))
    assert done.code == 2
    assert f"no key '{key}'" in done.said
    assert f"did you mean '{meant}'?" in done.said


@pytest.mark.parametrize(
    "text",
    [
        'require = "mean(T_c_deg) <= 30"',
        "require = [3]",
        'require = [{rule = "mean(T_c_deg) <= 30", why = "ticket"}]',
        'require = [{name = "stable maps"}]',
        f'require = ["{PASSING}"]\nwaive = [{{index = 1}}]',
        f'require = ["{PASSING}"]\nwaive = [{{index = 1, reason = " "}}]',
        f'require = ["{PASSING}"]\nwaive = [{{index = "one", reason = "known"}}]',
        f'require = ["{PASSING}"]\nmin_samples = "three"',
        f'require = ["{PASSING}"]\nmax_incomplete = 2',
        f'require = ["{PASSING}"',
    ],
)
def test_a_configuration_that_means_nothing_is_refused(run, tmp_path, text):
    done = gate(run, "--config", configured(tmp_path, text))
    assert done.code == 2
    assert "error:" in done.err
    assert not done.out


def test_a_configuration_without_the_table_is_refused(run, tmp_path):
    (tmp_path / "other.toml").write_text(f'require = ["{PASSING}"]\n')
    assert "[gate]" in gate(run, "--config", tmp_path / "other.toml", "--require", PASSING).said
    assert gate(run, "--config", tmp_path / "gone.toml", "--require", PASSING).code == 2


# ---- reports ----


def suite(path: Path) -> dict[str, ElementTree.Element]:
    """The test cases by name."""
    return {case.get("name"): case for case in ElementTree.parse(path).iter("testcase")}


def test_junit_has_a_test_case_for_every_judgement(run, half, tmp_path):
    words = [run, half, tmp_path / "gone.csv", "--require", PASSING, "--require", FAILING, "--require", BROKEN]
    done = gate(*words, "--junit", tmp_path / "out.xml", "--json")
    judgements = json.loads(done.out)["judgements"]
    cases = suite(tmp_path / "out.xml")
    assert sorted(cases) == sorted(one["name"] for one in judgements)
    kinds = {name: [part.tag for part in case if part.tag in ("failure", "error")] for name, case in cases.items()}
    assert kinds == {
        PASSING: [], FAILING: ["failure"], BROKEN: ["error"], "complete": ["failure"], str(tmp_path / "gone.csv"): ["error"],
    }  # fmt: skip
    (counted,) = ElementTree.parse(tmp_path / "out.xml").iter("testsuite")
    assert [counted.get(name) for name in ("tests", "failures", "errors")] == ["5", "2", "2"]


def test_a_junit_failure_names_the_worst_samples_first(tmp_path):
    angles = [0.0, 35.5, 20.0, 77.25, 1.0, 50.125, 31.0, 32.0]
    rows = [{"index": 100 + i, "eps": 0.1, "T_c_deg": angle} for i, angle in enumerate(angles)]
    run = write_run(tmp_path / "run.csv", rows)
    gate(run, "--require", "max(T_c_deg) <= 30", "--require", "min(T_c_deg) >= 1", "--junit", tmp_path / "out.xml")
    largest, smallest = (
        suite(tmp_path / "out.xml")[name].find("failure") for name in ("max(T_c_deg) <= 30", "min(T_c_deg) >= 1")
    )
    assert "103 (77.25), 105 (50.125), 101 (35.5)" in largest.text
    assert "100 (0), 104 (1), 102 (20)" in smallest.text
    assert "77.25" in largest.get("message")


def test_a_condition_that_failed_names_the_samples_that_meet_it(run, tmp_path):
    gate(run, "--require", "count(T_c_deg >= 20) == 0", "--junit", tmp_path / "out.xml")
    failure = suite(tmp_path / "out.xml")["count(T_c_deg >= 20) == 0"].find("failure")
    assert re.search(r"worst samples: 1, 2\s", failure.text + "\n")


def test_what_cannot_be_judged_is_told_in_every_report(run, tmp_path, summary):
    words = [run, tmp_path / "gone.csv", "--require", BROKEN, "--require", "mean(T_d_deg) <= 30", "--require", FAILING]
    for shape in FORMATS:
        done = gate(*words, *shape, "--junit", tmp_path / "out.xml")
        assert done.code == 2
        flat = done.out.replace("\\n", " ")
        assert all(
            text in " ".join(flat.split()) for text in ("of the rule", "did you mean 'T_c_deg'?", "cannot be read")
        )
        assert FAILING in done.out
    assert len(list(ElementTree.parse(tmp_path / "out.xml").iter("error"))) == 3
    assert "did you mean 'T_c_deg'?" in summary.read_text()


def test_junit_is_xml_whatever_names_and_reasons_hold(run, tmp_path):
    odd = "\\u0000\\u0001\\u001b[31m<&>]]>\\uFFFE\\U0001F600\\n\\t\\\"'"
    config = configured(
        tmp_path,
        f'require = [{{rule = "{FAILING}", name = "a{odd}b", reason = "{odd}"}}, "mean(T_c_deg[norm={odd}]) <= 1"]\n'
        f'waive = [{{index = 0, reason = "c{odd}"}}]\n',
    )
    assert gate(run, "--config", config, "--junit", tmp_path / "out.xml", "--json").code == 2
    names = list(suite(tmp_path / "out.xml"))
    assert len(names) == 3
    assert any(name.startswith("a") and "<&>]]>" in name and "\U0001f600" in name for name in names)


def test_markup_in_names_reasons_and_files_is_shown_and_not_obeyed(tmp_path, summary):
    run = write_run(tmp_path / "<script>|x.csv", bound_rows([0.0, 40.0]))
    config = configured(
        tmp_path,
        f'require = [{{rule = "{FAILING}", name = "<script>alert(1)</script> | <b>", reason = "<img src=x> | y"}}]\n'
        'waive = [{index = 0, reason = "<a href=x> | z"}]\n',
    )
    out = gate(run, "--config", config, "--markdown").out
    assert "alert(1)" in out
    for text in (out, summary.read_text()):
        assert not re.search(r"<[a-zA-Z/!?]", text)
    lines = [line for line in out.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}


def test_a_table_shows_brackets_as_they_are(run):
    assert "max(T_c_deg[eps=0.1]) <= 40" in gate(run, "--require", "max(T_c_deg[eps=0.1]) <= 40").out
    assert "[red]x[/red]" in gate(run, "--require", PASSING, "--waive", "0:[red]x[/red]").out


def test_the_summary_is_appended_to_what_is_there(run, summary):
    summary.write_text("# Before\n")
    gate(run, "--require", PASSING)
    gate(run, "--require", FAILING)
    text = summary.read_text()
    assert text.startswith("# Before\n")
    assert text.index(PASSING) < text.index(FAILING)


@pytest.mark.parametrize("room", [-5, 0, 3, 200, 100_000])
def test_the_summary_stays_within_githubs_limit(run, tmp_path, summary, room):
    summary.write_text("x" * (MEBIBYTE - room))
    config = configured(tmp_path, f'require = [{{rule = "{FAILING}", name = "{"ä" * 60_000}"}}]\n')
    assert gate(run, "--config", config, "--json").code == 1
    written = summary.read_bytes()
    assert written.startswith(b"x" * (MEBIBYTE - room))
    assert len(written) <= max(MEBIBYTE, MEBIBYTE - room)
    assert written.decode().count("ä") == pytest.approx(room / 2 if room > 1000 else 0, abs=200)


def test_no_summary_is_written_where_none_is_asked_for(run, summary, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    assert gate(run, "--require", PASSING).code == 0
    assert not summary.exists()


def test_the_gate_does_not_import_torch(run):
    script = (
        "import sys, atexit; from attrcert.cli.app import main; "
        "atexit.register(lambda: print('numpy' in sys.modules, 'torch' in sys.modules, file=sys.stderr)); main()"
    )
    words = [
        sys.executable,
        "-c",
        script,
        "gate",
        str(run),
        "--require",
        FAILING,
        "--junit",
        str(run.with_suffix(".xml")),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.split() == ["True", "False"]


def test_a_hundred_thousand_rows_are_judged_exactly(tmp_path):
    """The angles are a permutation of 0.000, 0.001, ..., 49.999 at one eps, and twice that at the other."""
    n, path = 50_000, tmp_path / "large.csv"
    angles = [7919 * i % n / 1000 for i in range(n)]
    lines = [f"{i},ok,{eps},{10 * eps * angle!r}\n" for eps in (0.1, 0.2) for i, angle in enumerate(angles)]
    path.write_text("index,status,eps,T_c_deg\n" + "".join(lines))
    expected = {"p99.9": 49.949, "p50": 24.999, "max": 49.999, "mean": 24.9995, "median": 24.9995}
    rules = [*(f"{name}(T_c_deg) <= 1" for name in expected), "count(T_c_deg >= 40) == 1"]
    # in a process of its own: here every call is type-checked, which takes ten times as long
    words = [sys.executable, "-m", "attrcert", "gate", str(path), "--json", *(f"--require={rule}" for rule in rules)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "GITHUB_STEP_SUMMARY": ""}
    )
    assert done.returncode == 1, done.stderr
    judgements = json.loads(done.stdout)["judgements"]
    got = [[part["figures"]["observed"] for part in one["observations"]] for one in judgements[:-1]]
    # pairwise sums of n numbers round log2(n) times
    assert got == [*(pytest.approx([one, 2 * one], rel=1e-14) for one in expected.values()), [10_000, 30_000]]
    assert {part["samples"] for one in judgements for part in one["observations"]} == {n}


@pytest.fixture
def refuted(tmp_path) -> list[Path]:
    """Bounds of three samples, an attack that exceeded one of them, and a model that both were warned of."""
    warned = [
        {"check": "kinks", "level": "warn", "message": "max-pooling <x>", "hint": "average"},
        {"level": "ok"},
        None,
    ]
    bounds = write_run(tmp_path / "bounds.csv", bound_rows([10.0, 20.0, 30.0], g_norm=1.0), findings=warned)
    row = {
        "index": 1,
        "eps": 0.1,
        "attack": "top-k",
        "T_hat_e": 0.9,
        "T_hat_c_deg": 32.5,
        "violated": True,
        "g_norm": 1.0,
    }
    names = {"index", "status", "attribution", "norm", *row}
    return [bounds, write_run(tmp_path / "attacks.csv", [row], "attack", names=names, findings=warned)]


def test_a_refuted_rule_and_what_the_runs_warned_of_are_told_in_every_output(refuted, tmp_path, summary):
    words = [*refuted, "--require", "max(T_c_deg) <= 40", "--junit", tmp_path / "out.xml"]
    exceeded = f"attacks exceeded T_c_deg on 1 of 3 samples, by up to 12.5 degrees ({refuted[1]}, top-k)"
    warning = f"warning of {refuted[0]}, {refuted[1]}: kinks: max-pooling"
    for shape in FORMATS:
        done = gate(*words, *shape)
        assert done.code == 1
        flat = re.sub(r"\s+", "", done.out)
        assert re.sub(r"\s+", "", exceeded) in flat
        assert "max-pooling" in flat
    assert re.search(r"^refuted +│ max\(T_c_deg\) <= 40 ", gate(*words).out, re.MULTILINE)
    for text in (gate(*words, "--markdown").out, summary.read_text()):
        assert f"| refuted | max(T_c_deg) <= 40 | 30 | 3 | {refuted[0]}: eps 0.1 |" in text
        assert all(part in text for part in (exceeded, warning))
    failure = suite(tmp_path / "out.xml")["max(T_c_deg) <= 40"].find("failure")
    assert (failure.get("type"), exceeded in failure.get("message"), warning in failure.text) == ("refuted", True, True)
    (counted,) = ElementTree.parse(tmp_path / "out.xml").iter("testsuite")
    assert (counted.get("failures"), counted.get("errors")) == ("1", "0")
    finding = {
        "check": "kinks",
        "message": "max-pooling <x>",
        "hint": "average",
        "runs": [str(path) for path in refuted],
    }
    assert told(*words)["findings"] == [finding]


def test_refuted_figures_can_be_allowed_on_the_command_line_and_in_the_configuration(refuted, tmp_path):
    words = [*refuted, "--require", "max(T_c_deg) <= 40"]
    assert [gate(*words).code, gate(*words, "--allow-refuted").code] == [1, 0]
    assert gate(*words, "--exit-zero").code == 0
    for value, code in (("true", 0), ("false", 1), ('"yes"', 2), ("1", 2)):
        config = configured(tmp_path, f"allow_refuted = {value}\n")
        assert gate(*words, "--config", config).code == code
    assert "attacks exceeded T_c_deg on 1 of 3 samples" in " ".join(gate(*words, "--allow-refuted").out.split())


# ---- --require ----

COMMANDS = {
    "bound": (["bound"], "max(T_e) <= 100", "max(T_e) <= 0.001"),
    "attack": (
        ["attack", "--steps", 1, "--restarts", 0, "--random-draws", 2],
        "max(T_hat_e[attack=euclidean]) <= 100",
        "max(T_hat_e) <= 0.001",
    ),
    "max-eps": (["max-eps", "--max-angle", 30], "min(eps_max[max_angle=30]) >= 0.001", "min(eps_max) >= 100"),
    "max-eps of a smoothed map": (
        ["max-eps", "--smooth", "uniform", "--min-cosine", 0.1, "--samples", 50],
        "mean(eps_max[min_cosine=0.1]) >= 0.0001",
        "mean(eps_max[min_cosine=10%]) >= 100",
    ),
    "min-radius": (
        ["min-radius", "--min-cosine", 0.9, "--samples", 50, "--radii", 1],
        "count(status == infeasible) <= 4",
        "count(C_lower > 0) == 0",
    ),
}


@pytest.mark.parametrize(("words", "passing", "failing"), COMMANDS.values(), ids=list(COMMANDS))
def test_a_run_is_judged_by_what_it_is_required(words, passing, failing):
    def done(*rules: str) -> Done:
        return attrcert(*words, "--limit", 4, "--quiet", "--json", *(f"--require={rule}" for rule in rules))

    good, bad = done(passing), done(passing, failing)
    assert (good.code, bad.code) == (0, 1)
    assert json.loads(good.out)["verdict"]["outcome"] == "passed"
    verdict = json.loads(bad.out)["verdict"]
    assert [(one["name"], one["outcome"]) for one in verdict["judgements"]] == [
        (passing, "passed"),
        (failing, "failed"),
    ]


def test_what_is_required_of_a_run_is_judged_as_the_gate_judges_its_file(tmp_path):
    rules = [
        f"--require={rule}" for rule in ("p95(T_c_deg) <= 1", "std(T_e[eps=0.5]) <= 1", "count(status == ok) >= 9")
    ]
    run = attrcert(
        "bound", "--limit", 4, "--eps", "0.1,0.5", "--out", tmp_path / "run.csv", "--json", "--quiet", *rules
    )
    assert run.code == 2  # at eps 0.5 no sample has an angle
    in_place, later = json.loads(run.out)["verdict"], told(tmp_path / "run.csv", *rules)

    def figures(verdict: dict) -> list:
        return [[one["outcome"], *(part["figures"] for part in one["observations"])] for one in verdict["judgements"]]

    assert figures(in_place) == figures(later)[:-1]


@pytest.mark.parametrize("command", ["bound", "attack", "max-eps", "min-radius"])
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("mean(T_c_degg) <= 30", "T_c_degg"),
        ("mean(T_c_deg <= 30", "expected ')'"),
        ("mean(g_norm[epz=1]) <= 3", "'eps'?"),
        ("min(g_norm) >= 0", "so the rule cannot fail"),
        ("fraction(g_norm < 0) <= 1%", "no row can meet the condition"),
        ("fraction(status == vacous) <= 1%", "did you mean 'vacuous'?"),
    ],
)
def test_a_rule_that_cannot_be_judged_is_refused_before_anything_is_read(tmp_path, command, rule, said):
    """A model that is not there has another exit code."""
    threshold = {"max-eps": ["--max-angle", 30], "min-radius": ["--min-cosine", 0.9]}.get(command, [])
    words = [command, "there-is-no.pt", *threshold, "--out", tmp_path / "run.csv"]
    assert attrcert(*words, "--require", "mean(g_norm) <= 3").code == 3
    done = attrcert(*words, "--require", rule)
    assert done.code == 2
    assert said in done.said
    assert "at character" in done.said
    assert not (tmp_path / "run.csv").exists()


@pytest.mark.parametrize(
    ("rule", "option"), [("max(T_proved) <= 1", "--proved"), ("max(T_e[T_e_ball > 1]) <= 1", "--ball")]
)
def test_a_rule_about_what_the_run_is_not_asked_for_is_refused_before_anything_is_read(rule, option):
    words = ["bound", "there-is-no.pt", "--require", rule]
    done = attrcert(*words)
    assert done.code == 2
    assert "it was not asked for" in done.said
    assert option in done.said
    assert attrcert(*words, option).code == 3


POOLED = """
import torch

def factory():
    pooled = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 5), torch.nn.Softplus(5), torch.nn.MaxPool2d(4), torch.nn.Flatten())
    return torch.nn.Sequential(pooled, torch.nn.Linear(72, 10))
"""


@pytest.fixture
def pooled(tmp_path) -> list:
    """The words that name a network with max-pooling, whose gradient jumps."""
    (tmp_path / "pooled.py").write_text(POOLED)
    names: dict = {}
    exec(POOLED, names)
    state = names["factory"]().state_dict()
    rng = torch.Generator().manual_seed(0)
    torch.save({name: torch.randn(value.shape, generator=rng) for name, value in state.items()}, tmp_path / "pooled.pt")
    return [tmp_path / "pooled.pt", "fashion-test", "--arch", f"{tmp_path / 'pooled.py'}:factory", "--limit", 3]


def test_attacks_on_max_pooling_refute_rules_and_its_finding_stands_beside_every_verdict(pooled, tmp_path):
    common = [*pooled, "--eps", 0.05, "--quiet", "--json", "--require", "max(T_c_deg) < 180"]
    quick = ["--steps", 5, "--restarts", 0, "--random-draws", 10]
    bound = attrcert("bound", *common, "--out", tmp_path / "bounds.csv")
    attack = attrcert("attack", *common, *quick, "--out", tmp_path / "attacks.csv")
    assert (bound.code, attack.code) == (0, 1), bound.err + attack.err
    verdicts = {"bound": json.loads(bound.out)["verdict"], "attack": json.loads(attack.out)["verdict"]}
    verdicts["gate"] = told(tmp_path / "bounds.csv", tmp_path / "attacks.csv", "--require", "max(T_c_deg) < 180")
    assert {name: one["outcome"] for name, one in verdicts.items()} == {
        "bound": "passed", "attack": "refuted", "gate": "refuted",
    }  # fmt: skip
    for verdict in verdicts.values():
        assert any("max-pooling" in one["message"] for one in verdict["findings"])
    counts = [part["refutations"][0]["samples"] for part in verdicts["gate"]["judgements"][0]["observations"]]
    assert counts == [3, 3]
    (part,) = verdicts["attack"]["judgements"][0]["observations"]
    assert part["refutations"][0]["by"] == ["this run, euclidean"]


def test_csv_on_stdout_stays_csv(tmp_path):
    done = attrcert("bound", "--limit", 2, "--quiet", "--format", "csv", "--require", "max(T_e) <= 0.001")
    assert done.code == 1
    lines = list(csv.reader(io.StringIO(done.out)))
    assert lines[0] == [column.name for column in COLUMNS["bound"]]
    assert [len(line) for line in lines] == [len(lines[0])] * 3
    assert "max(T_e) <= 0.001" in done.err


@pytest.mark.parametrize("shape", ["table", "markdown"])
def test_the_verdict_stands_below_the_table(shape):
    done = attrcert("bound", "--limit", 2, "--quiet", "--format", shape, "--require", "max(T_e) <= 0.001")
    assert done.code == 1
    assert done.out.index("T_e") < done.out.index("Gate: failed") < done.out.index("max(T_e) <= 0.001")
