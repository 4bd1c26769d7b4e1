"""A gate judges what the rows say: every case by itself, against a slow reference, and never a figure that is not there."""

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from reference.judging import OPERATORS, Asked, Compared, bound_rows, figures, is_open, refuted, write_run

from attrcert.reporting.gating.gates import Demand, Gate, judge_files
from attrcert.reporting.gating.verdict_texts import verdict_json
from attrcert.reporting.gating.verdicts import Waiver

USABLE = ("ok", "vacuous", "not-converged")
LAYOUTS: dict[str, dict[str, Any]] = {
    "bound": {
        "cases": [{"eps": 0.1}, {"eps": 8 / 255}],
        "numbers": ("T_c_deg", "T_e", "margin_radius"),
        "words": {"label_kept": ("both", "none")},
        "filters": [Compared("eps", "==", 0.1, "0.1"), Compared("eps", "==", 8 / 255, "8/255")],
    },
    "attack": {
        "cases": [{"eps": eps, "attack": attack} for eps in (0.1, 0.2) for attack in ("top-k", "euclidean")],
        "numbers": ("T_hat_e", "cosine", "T_e_corrected"),
        "flags": ("violated",),
        "filters": [Compared("attack", "==", "top-k", "top-k"), Compared("eps", ">", 0.15, "15%")],
    },
    "max-eps": {
        "cases": [{"threshold_kind": "angle", "threshold": 30.0}, {"threshold_kind": "deviation", "threshold": 0.5}],
        "numbers": ("eps_max", "T_proved"),
        "filters": [Compared("threshold_kind", "!=", "angle", "angle"), Compared("threshold", "<=", 0.5, "1/2")],
    },
    "certify": {
        "cases": [{"eps": 0.1, "radius": 1.0}, {"eps": 0.1, "radius": 2.0}],
        "numbers": ("cosine", "angle_deg", "radius_min", "C_lower"),
        "filters": [Compared("radius", ">=", 2.0, "2"), Compared("eps", "!=", 0.1, "0.1")],
    },
}
SOUP = (
    "mean", "p95", "fraction", "count", "(", "(", ")", ")", "[", "]", ",", "and", "or", "T_c_deg", "status", "index", "violated",
    "eps", "label_kept", "norm", "==", "!=", "<=", "<", "=", "vacuous", "vacous", "ok", "true", "0.1", "30", "8/255", "1%",
    "max_angle", "nothing",
)  # fmt: skip
cells = st.none() | st.sampled_from([0.0, 0.5, 30.0]) | st.floats(-1, 200)
SIGNS = st.sampled_from(sorted(OPERATORS))


@st.composite
def tables(draw: st.DrawFn, command: str) -> list[dict[str, Any]]:
    """Rows of a few samples in every case; those that failed have no figures."""
    layout, rows = LAYOUTS[command], []
    for index in draw(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True)):
        for case in layout["cases"]:
            row = {"index": index, **case, "status": draw(st.sampled_from([*USABLE, "error:shape"]))}
            if row["status"] in USABLE:
                row |= {name: draw(cells) for name in layout["numbers"]}
                row |= {name: draw(st.none() | st.booleans()) for name in layout.get("flags", ())}
                row |= {name: draw(st.none() | st.sampled_from(of)) for name, of in layout.get("words", {}).items()}
            rows.append(row)
    return rows


@st.composite
def questions(draw: st.DrawFn, command: str) -> Asked:
    layout = LAYOUTS[command]
    status = st.sampled_from([*USABLE, "error:shape"]).map(lambda word: (word, f'"{word}"'))
    words = [st.tuples(st.just("status"), status)]
    words += [
        st.tuples(st.just(name), st.sampled_from(of).map(lambda word: (word, word)))
        for name, of in layout.get("words", {}).items()
    ]
    word = st.tuples(st.one_of(words), st.sampled_from(["==", "!="])).map(lambda t: Compared(t[0][0], t[1], *t[0][1]))
    # == of numbers allows for how they are written, so figures are compared by order here
    ordered = st.sampled_from(["<=", "<", ">", ">="])
    number = st.builds(
        lambda name, sign, value: Compared(name, sign, float(value), str(value)),
        st.sampled_from(layout["numbers"]),
        ordered,
        st.sampled_from([0, 0.5, 30, 179]),
    )
    flags = [st.just(Compared(name, "", True, "")) for name in layout.get("flags", ())]
    term = st.one_of(word, number, *flags)
    filters = draw(st.lists(st.one_of(st.sampled_from(layout["filters"]), word, number), max_size=2))
    statistic = draw(
        st.sampled_from(["mean", "median", "min", "max", "std", "p5", "p95", "p66.6", "fraction", "fraction", "count"])
    )
    if statistic in ("fraction", "count"):
        condition = draw(st.lists(st.lists(term, min_size=1, max_size=2).map(tuple), min_size=1, max_size=2))
        return Asked(statistic, None, tuple(condition), tuple(filters))
    return Asked(statistic, draw(st.sampled_from(layout["numbers"])), (), tuple(filters))


def asking(command: str) -> st.SearchStrategy:
    return st.tuples(st.just(command), tables(command), questions(command))


def judged(*paths: Path, **demanded: Any) -> dict[str, Any]:
    """The verdict as --json gives it."""
    for name in ("require", "max_regression"):
        texts = demanded.get(name, ())
        demanded[name] = tuple(Demand(text) for text in ([texts] if isinstance(texts, str) else texts))
    return json.loads(json.dumps(verdict_json(judge_files(paths, Gate(**demanded))), allow_nan=False))


def outcome(*paths: Path, rule: str, **demanded: Any) -> str:
    """Of one rule."""
    return next(one for one in judged(*paths, require=rule, **demanded)["judgements"] if one["demand"] == rule)[
        "outcome"
    ]


def observed(*paths: Path, rule: str, **demanded: Any) -> list[float | None]:
    """The figures of one rule, case by case."""
    (one,) = (one for one in judged(*paths, require=rule, **demanded)["judgements"] if one["demand"] == rule)
    assert one["outcome"] in ("passed", "failed"), one["message"]
    return [part["figures"]["observed"] for part in one["observations"]]


def message(*paths: Path, rule: str, **demanded: Any) -> str:
    """Why a rule cannot be judged."""
    (one,) = (one for one in judged(*paths, require=rule, **demanded)["judgements"] if one["demand"] == rule)
    assert one["outcome"] == "error"
    return one["message"]


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "run.csv"


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(LAYOUTS)).flatmap(asking),
    st.frozensets(st.integers(0, 9), max_size=2),
    SIGNS,
    st.sampled_from([0, 0.25, 1, 31, 180]),
)
def test_figures_and_outcomes_are_those_of_the_reference(tmp_path_factory, asked, waived, comparator, limit):
    command, rows, question = asked
    limit = 0.25 if question.statistic == "fraction" else limit
    path = write_run(tmp_path_factory.getbasetemp() / f"{command}.csv", rows, command)
    expected = figures(path, command, question, waived)
    verdict = judged(
        path, require=f"{question} {comparator} {limit}", waive=tuple(Waiver(index, "known") for index in waived)
    )
    judgement = verdict["judgements"][0]
    if expected is None or not is_open(question, comparator, limit):
        assert judgement["outcome"] == "error", judgement
        assert not judgement["observations"]
        return
    assume(not any(math.isnan(one) for one in expected.values()))  # the deviation of what has no end
    got = {one["case"]: one for one in judgement["observations"]}
    # sums of at most six numbers below 200, each rounded once; infinity is null
    assert {case: one["figures"]["observed"] for case, one in got.items()} == {
        case: pytest.approx(one, rel=1e-14, abs=1e-12) if math.isfinite(one) else None for case, one in expected.items()
    }
    assume(not any(0 < abs(one - limit) < 1e-9 for one in expected.values()))  # rounding may decide there
    passed = {case: bool(OPERATORS[comparator](one, limit)) for case, one in expected.items()}
    beaten = refuted(path, command, question, waived)
    outcomes = {case: ("refuted" if case in beaten else "passed") if ok else "failed" for case, ok in passed.items()}
    assert {case: one["outcome"] for case, one in got.items()} == outcomes
    assert {case: one["passed"] for case, one in got.items()} == {
        case: one == "passed" for case, one in outcomes.items()
    }
    order = ["passed", "refuted", "failed"]
    assert judgement["outcome"] == max(outcomes.values(), key=order.index)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(SOUP), min_size=3, max_size=12).map(" ".join))
@example("mean ( norm ) <= 30")
@example("count ( status ) == 0")
@example("fraction ( status < ok ) <= 1%")
@example("mean ( T_c_deg [ norm = 8/255 ] ) <= 1%")
@example("mean ( T_c_deg [ eps = ok ] ) <= 1%")
def test_any_text_is_judged_and_none_that_is_no_rule_passes(tmp_path_factory, text):
    path = write_run(tmp_path_factory.getbasetemp() / "soup.csv", bound_rows([1.0, 40.0, None]))
    (one, complete) = judged(path, require=text)["judgements"]
    assert one["outcome"] == "error" or one["observations"]
    assert complete["outcome"] == "passed"


def test_a_rule_must_hold_in_every_case(path):
    rows = [{"index": i, "eps": eps, "T_c_deg": 100 * eps} for i in range(3) for eps in (0.1, 0.2, 0.4)]
    write_run(path, rows)
    assert observed(path, rule="mean(T_c_deg) <= 30") == pytest.approx([10, 20, 40])
    assert outcome(path, rule="mean(T_c_deg) <= 30") == "failed"
    assert outcome(path, rule="mean(T_c_deg) <= 40") == "passed"
    assert outcome(path, rule="mean(T_c_deg[eps < 0.3]) <= 30") == "passed"


@pytest.mark.parametrize(
    ("command", "cases", "figure"),
    [
        ("attack", [{"eps": 0.1, "attack": "top-k"}, {"eps": 0.1, "attack": "euclidean"}], "T_hat_e"),
        ("max-eps", [{"threshold_kind": "angle", "threshold": t} for t in (10.0, 30.0)], "eps_max"),
        ("max-eps", [{"threshold_kind": kind, "threshold": 0.5} for kind in ("angle", "deviation")], "eps_max"),
        ("certify", [{"eps": 0.1, "radius": radius} for radius in (1.0, 2.0)], "cosine"),
        ("bound", [{"eps": 0.1, "norm": norm} for norm in ("l2", "linf")], "T_e"),
        ("bound", [{"eps": 0.1, "attribution": name} for name in ("saliency", "smoothgrad")], "T_e"),
    ],
)
def test_what_runs_differ_in_makes_cases(path, command, cases, figure):
    rows = [{"index": i, **case, figure: float(k)} for i in range(2) for k, case in enumerate(cases)]
    assert observed(write_run(path, rows, command), rule=f"mean({figure}) <= 0.5") == [0, 1]


def test_every_file_that_has_the_columns_is_judged_and_the_others_are_not(tmp_path):
    bound = write_run(tmp_path / "bound.csv", bound_rows([10.0]))
    other = write_run(tmp_path / "other.csv", bound_rows([50.0]))
    smooth = write_run(tmp_path / "smooth.csv", [{"index": 0, "eps": 0.1, "radius": 1.0, "cosine": 0.9}], "certify")
    assert observed(bound, smooth, rule="mean(T_c_deg) <= 30") == [10]
    assert observed(bound, smooth, rule="mean(cosine) >= 0.5") == [0.9]
    assert outcome(bound, smooth, rule="mean(T_c_deg) <= 30") == "passed"
    assert outcome(bound, smooth, other, rule="mean(T_c_deg) <= 30") == "failed"


def test_a_filter_admits_its_rows_alone(path):
    rows = bound_rows([5.0, 10.0, 30.0, None], norm="linf") + [
        {"index": i, "eps": 8 / 255, "norm": "linf", "T_c_deg": 50.0} for i in range(4)
    ]
    write_run(path, rows)
    assert observed(path, rule="max(T_c_deg[eps=0.1, norm=linf, status != vacuous]) <= 30") == [30]
    assert observed(path, rule="max(T_c_deg[eps=8/255]) <= 30") == [50]
    assert observed(path, rule="count(T_c_deg > 5[eps=0.1, index < 2]) <= 30") == [1]


def test_an_options_name_selects_its_threshold(path):
    rows = [
        {"index": i, "threshold_kind": kind, "threshold": value, "radius": 1.0, "eps_max": value / 10}
        for i in range(2)
        for kind, value in (("cosine", 0.9), ("cosine", 0.5))
    ]
    write_run(path, rows, "certify")
    assert observed(path, rule="mean(eps_max[min_cosine=0.9]) >= 0.02") == pytest.approx([0.09])
    assert "no row is selected" in message(path, rule="mean(eps_max[max_angle=0.9]) >= 0.02")


@pytest.mark.parametrize(
    ("command", "column", "counts_as"),
    [
        ("bound", "T_c_deg", 180),
        ("bound", "T_c_corrected_deg", 180),
        ("attack", "angle_proved_deg", 180),
        ("certify", "angle_deg", 180),
        ("certify", "cosine", -1),
        ("bound", "T_e", None),
        ("bound", "T_e_corrected", None),
        ("attack", "T_e_ball", None),
        ("attack", "T_proved", None),
        ("certify", "radius_min", None),
    ],
)
def test_a_row_that_nothing_bounds_counts_as_the_worst(path, command, column, counts_as):
    """Infinity is null in JSON."""
    rows = [{"index": 0, "eps": 0.1, column: 0.5}, {"index": 1, "eps": 0.1, "status": "vacuous"}]
    write_run(path, rows, command)
    assert observed(path, rule=f"{'min' if column == 'cosine' else 'max'}({column}) <= 0.5") == [counts_as]
    assert outcome(path, rule=f"mean({column}) {'>= 0' if column == 'cosine' else '<= 80'}") == "failed"
    assert observed(path, rule=f"count({column} {'>=' if column == 'cosine' else '<='} 0.5) <= 9") == [1]


def test_an_unbounded_row_counts_as_the_worst_in_a_filter_too(path):
    write_run(path, bound_rows([5.0, 90.0, None]))
    assert observed(path, rule="count(index >= 0[T_c_deg > 60]) <= 9") == [2]


@pytest.mark.parametrize("column", ["cosine", "T_hat_e", "top_k", "tightness"])
def test_a_cell_that_does_not_apply_is_left_out(path, column):
    rows = [
        {"index": 0, "eps": 0.1, "attack": "top-k", column: 0.5},
        {"index": 1, "eps": 0.1, "attack": "top-k", "status": "label-changed"},
    ]
    (one, _) = judged(write_run(path, rows, "attack"), require=f"mean({column}) == 0.5")["judgements"]
    assert one["outcome"] == "passed"
    assert one["observations"][0]["samples"] == 1
    assert any("left out" in note for note in one["observations"][0]["notes"])


def test_a_failed_row_has_no_figure_and_its_status_counts(path):
    rows = [*bound_rows([10.0, None]), {"index": 2, "eps": 0.1, "status": "error:shape"}]
    write_run(path, rows)
    assert observed(path, rule="mean(T_c_deg) <= 99") == [95]
    assert observed(path, rule='fraction(status == "error:shape") <= 50%') == [pytest.approx(1 / 3)]
    assert observed(path, rule="count(status != ok) <= 1") == [2]
    assert observed(path, rule="fraction(T_c_deg > 100) <= 50%") == [0.5]


def test_waived_samples_are_not_counted(path):
    write_run(path, [*bound_rows([10.0, 90.0, 20.0]), {"index": 3, "eps": 0.1, "status": "error:shape"}])
    waived = (Waiver(1, "mislabelled"), Waiver(3, "torn file"))
    verdict = judged(path, require=["max(T_c_deg) <= 30", "count(index >= 0) == 2"], waive=waived)
    assert verdict["exit_code"] == 0
    assert judged(path, require="max(T_c_deg) <= 30", waive=waived[1:])["exit_code"] == 1
    assert judged(path, require="max(T_c_deg) <= 30", waive=waived[:1])["exit_code"] == 4


@pytest.mark.parametrize(
    ("rule", "character", "said"),
    [
        ("mean(T_c_degg) <= 30", 6, "did you mean 'T_c_deg'?"),
        ("mean(T_c_deg[epz=0.1]) <= 30", 14, "did you mean 'eps'?"),
        ("count(violated) == 0", 7, "no file has a column 'violated'"),
        ('fraction(status == "vacous") <= 1%', 10, "has status 'vacous'"),
        ("fraction(status != vacous) >= 1%", 10, "has status 'vacous'"),
        ("mean(T_c_deg[status != vacous]) <= 99", 14, "has status 'vacous'"),
        ("mean(T_c_deg[norm=linf]) <= 99", 6, "no row is selected"),
        ("mean(T_c_deg[eps=0.3]) <= 99", 6, "eps is 0.1"),
        ("mean(T_c_deg[index > 7]) <= 99", 6, "no row of"),
        ("mean(T_proved) <= 99", 6, "run.csv has no T_proved: it was not asked for"),
        ("mean(T_c_deg[T_e_ball > 1]) <= 99", 14, "run.csv has no T_e_ball: it was not asked for"),
        ("fraction(T_c_deg > 30 or angle_proved_deg > 30) <= 99%", 26, "has no angle_proved_deg: it was not asked for"),
        ("fraction(T_e_label <= 1) <= 99%", 10, "all 3 cells of T_e_label are empty"),
        ("mean(norm) <= 99", 6, "needs a column of numbers"),
        ("count(status) <= 99", 7, "compare it with something"),
        ("count(status < ok) <= 99", 7, "compare it by == or !="),
        ("count(T_c_deg == big) <= 99", 7, "'big' is none"),
    ],
)
def test_a_rule_about_what_is_not_there_is_an_error_with_its_place(path, rule, character, said):
    text = message(write_run(path, bound_rows([1.0, 2.0, None])), rule=rule)
    assert said in text
    assert f"at character {character} of the rule:\n  {rule}\n  {' ' * (character - 1)}^" in text


def test_a_case_with_empty_cells_alone_is_an_error_though_another_has_figures(path):
    rows = [*bound_rows([1.0, 2.0]), *({"index": i, "eps": 0.5, "status": "vacuous"} for i in range(2))]
    assert "all 2 cells of T_c_deg are empty" in message(write_run(path, rows), rule="max(T_c_deg) <= 170")


def test_a_case_of_which_all_samples_are_waived_is_an_error(path):
    rows = [*bound_rows([1.0, 2.0]), {"index": 2, "eps": 0.5, "T_c_deg": 3.0}]
    assert "no row of" in message(write_run(path, rows), rule="max(T_c_deg) <= 170", waive=(Waiver(2, "known"),))


def test_fewer_samples_than_asked_for_are_an_error(path):
    write_run(path, [*bound_rows([1.0, 2.0, 3.0]), {"index": 3, "eps": 0.1, "status": "error:shape"}])
    assert outcome(path, rule="max(T_c_deg) <= 30", min_samples=3) == "passed"
    assert "min-samples asks for 4" in message(path, rule="max(T_c_deg) <= 30", min_samples=4)
    assert "min-samples asks for 3" in message(
        path, rule="max(T_c_deg) <= 30", min_samples=3, waive=(Waiver(0, "known"),)
    )


@pytest.mark.parametrize("cell", ["nan", "inf", "ten", "1,5"])
def test_a_figure_that_is_no_number_makes_the_file_unreadable(path, cell):
    write_run(path, bound_rows([1.0, 777.0]))
    path.write_text(path.read_text().replace("777.0", f'"{cell}"'))
    (one,) = judged(path, require="mean(T_c_deg) <= 30")["judgements"]
    assert (one["name"], one["outcome"]) == (str(path), "error")


@pytest.mark.parametrize("content", ["", "eps,T_c_deg\n0.1,3\n", "index,status\n0,ok,3\n1,ok\n", b"\xff\xfe\x00", None])
def test_a_file_that_cannot_be_read_is_an_error(path, content):
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    verdict = judged(path, require="count(index >= 0) <= 5")
    assert verdict["exit_code"] == 2
    assert verdict["judgements"][0]["name"] == str(path)


def test_a_sample_that_is_there_twice_makes_the_file_unreadable(path):
    write_run(path, [*bound_rows([1.0, 2.0]), *bound_rows([3.0])])
    (one,) = judged(path, require="mean(T_c_deg) <= 30")["judgements"]
    assert "two rows for sample 0" in one["message"]


def test_a_file_without_rows_passes_no_rule(path):
    write_run(path, [])
    assert [one["outcome"] for one in judged(path, require="count(status == ok) == 0")["judgements"]] == [
        "error",
        "incomplete",
    ]


@pytest.mark.parametrize("state", ["running", "interrupted", "failed"])
def test_a_run_that_did_not_end_is_incomplete(path, state):
    verdict = judged(write_run(path, bound_rows([1.0]), state=state), require="mean(T_c_deg) <= 30", max_incomplete=1)
    assert verdict["exit_code"] == 4
    assert state in verdict["judgements"][1]["observations"][0]["notes"][0]


def test_a_torn_last_line_is_left_out_and_makes_the_run_incomplete(path):
    write_run(path, bound_rows([10.0, 20.0, 90.0]))
    path.write_text(path.read_text()[:-30])
    verdict = judged(path, require="mean(T_c_deg) == 15", max_incomplete=1)
    assert [one["outcome"] for one in verdict["judgements"]] == ["passed", "incomplete"]


@pytest.mark.parametrize(("status", "allowed", "code"), [
    ("error:shape", 0, 4), ("error:shape", 0.2, 4), ("error:shape", 0.25, 0), ("error:shape", 0.5, 0),
    ("not-converged", 0.2, 4), ("not-converged", 0.25, 0), ("vacuous", 0, 0),
])  # fmt: skip
def test_a_run_is_incomplete_if_more_than_the_allowed_share_has_no_converged_figure(path, status, allowed, code):
    rows = [*bound_rows([1.0, 2.0, 3.0]), {"index": 3, "eps": 0.1, "status": status}]
    rows += [{**row, "eps": 0.2, "status": "ok", "T_c_deg": 4.0} for row in rows]
    verdict = judged(write_run(path, rows), require="min(T_c_deg) <= 30", max_incomplete=allowed)
    assert verdict["exit_code"] == code


def compared(new: Path, old: Path, allowance: str, **demanded: Any) -> dict[str, Any]:
    """The judgement of an allowance."""
    return judged(new, max_regression=allowance, baseline=(old,), **demanded)["judgements"][0]


def pair(folder: Path, new: list[dict], old: list[dict], command: str = "bound", **identity: Any) -> tuple[Path, Path]:
    """A run and its baseline; the identity is the new run's."""
    return (
        write_run(folder / "new.csv", new, command, identity=identity),
        write_run(folder / "old.csv", old, command),
    )


def test_a_swap_of_two_tables_is_caught(tmp_path):
    better, worse = pair(tmp_path, bound_rows([10.0, 20.0, 30.0]), bound_rows([11.0, 22.0, 33.0]))
    assert compared(better, worse, "mean(T_c_deg) 5%")["outcome"] == "passed"
    assert compared(worse, better, "mean(T_c_deg) 5%")["outcome"] == "failed"


@pytest.mark.parametrize(
    ("allowance", "passes"),
    [
        ("mean(T_c_deg) 11%", True),
        ("mean(T_c_deg) 9%", False),
        ("mean(T_c_deg) 2.1", True),
        ("mean(T_c_deg) 1.9", False),
        ("min(T_c_deg) 0", True),
        ("max(T_c_deg) 0", False),
        ("count(T_c_deg > 30) +0", False),
        ("count(T_c_deg > 30) +1", True),
        ("count(T_c_deg > 30) -0", True),
        ("count(T_c_deg <= 30) -0", False),
    ],
)
def test_an_allowance_is_absolute_or_a_share_of_the_baselines_figure(tmp_path, allowance, passes):
    new, old = pair(tmp_path, bound_rows([10.0, 20.0, 36.0]), bound_rows([10.0, 20.0, 30.0]))
    assert compared(new, old, allowance)["outcome"] == ("passed" if passes else "failed")


@pytest.mark.parametrize(
    ("command", "column"),
    [
        ("max-eps", "eps_max"),
        ("certify", "cosine"),
        ("attack", "cosine"),
        ("attack", "top_k"),
        ("attack", "ssim"),
    ],
)
def test_of_what_should_be_large_less_is_worse(tmp_path, command, column):
    rows = [[{"index": i, "eps": 0.1, column: value} for i in range(3)] for value in (0.5, 0.6)]
    less, more = pair(tmp_path, *rows, command)
    assert compared(less, more, f"mean({column}) 5%")["outcome"] == "failed"
    assert compared(more, less, f"mean({column}) 5%")["outcome"] == "passed"


@pytest.mark.parametrize(
    ("command", "column"),
    [("bound", "T_e"), ("attack", "T_hat_e"), ("certify", "radius_min")],
)
def test_of_what_should_be_small_more_is_worse(tmp_path, command, column):
    rows = [[{"index": i, "eps": 0.1, column: value} for i in range(3)] for value in (0.5, 0.6)]
    less, more = pair(tmp_path, *rows, command)
    assert compared(more, less, f"mean({column}) 5%")["outcome"] == "failed"
    assert compared(less, more, f"mean({column}) 5%")["outcome"] == "passed"


@pytest.mark.parametrize("figure", ["fraction(label_kept == none)", "mean(steps)", "std(T_c_deg)"])
def test_where_no_direction_is_worse_a_sign_is_asked_for(tmp_path, figure):
    new, old = (
        write_run(tmp_path / name, bound_rows([5.0, 6.0, None], steps=3, label_kept="both"))
        for name in ("new.csv", "old.csv")
    )
    one = compared(new, old, f"{figure} 5%")
    assert one["outcome"] == "error"
    assert "give a sign" in one["message"]
    assert compared(new, old, f"{figure} +5%")["outcome"] == "passed"


def test_every_case_is_compared_with_its_own(tmp_path):
    rows = [
        [{"index": i, "eps": eps, "T_c_deg": angle} for eps, angle in case.items() for i in range(3)]
        for case in ({0.2: 40.0, 0.1: 20.0}, {0.1: 10.0, 0.2: 40.0})
    ]
    one = compared(*pair(tmp_path, *rows), "mean(T_c_deg) 5%")
    assert {part["case"]: part["figures"]["observed"] for part in one["observations"]} == {"eps 0.2": 0, "eps 0.1": 1}
    assert one["outcome"] == "failed"


def test_only_samples_that_both_have_are_compared(tmp_path):
    old = bound_rows([10.0, 20.0, 30.0, 170.0])
    new = [{**row, "T_c_deg": row["T_c_deg"] + 1} for row in reversed(old[:3])] + [
        {"index": 9, "eps": 0.1, "T_c_deg": 175.0}
    ]
    (part,) = compared(*pair(tmp_path, new, old), "mean(T_c_deg) 2")["observations"]
    assert part["samples"] == 3
    assert [part["figures"][name] for name in ("baseline", "now", "observed", "low", "high")] == [20, 21, 1, 1, 1]


def test_waived_samples_are_not_compared(tmp_path):
    new, old = pair(tmp_path, bound_rows([10.0, 90.0]), bound_rows([10.0, 20.0]))
    assert compared(new, old, "mean(T_c_deg) 5%")["outcome"] == "failed"
    assert compared(new, old, "mean(T_c_deg) 5%", waive=(Waiver(1, "known"),))["outcome"] == "passed"


def test_a_sample_that_lost_its_bound_is_a_regression(tmp_path):
    new, old = pair(tmp_path, bound_rows([10.0, None]), bound_rows([10.0, 20.0]))
    one = compared(new, old, "mean(T_c_deg) 5%")
    assert one["outcome"] == "failed"
    assert one["observations"][0]["figures"]["now"] == 95
    assert one["observations"][0]["worst"][0][0] == 1


def test_what_has_no_difference_is_an_error(tmp_path):
    rows = [{"index": 0, "eps": 0.1, "T_e": 1.0}, {"index": 1, "eps": 0.1, "status": "vacuous"}]
    assert compared(*pair(tmp_path, rows, rows), "mean(T_e) 5%")["outcome"] == "error"


def test_runs_without_a_common_sample_or_case_are_an_error(tmp_path):
    new = [{**row, "index": row["index"] + 5} for row in bound_rows([10.0, 20.0])]
    assert compared(*pair(tmp_path, new, bound_rows([10.0, 20.0])), "mean(T_c_deg) 5%")["outcome"] == "error"
    new = bound_rows([10.0, 20.0], eps=0.2)
    assert compared(*pair(tmp_path, new, bound_rows([10.0, 20.0])), "mean(T_c_deg) 5%")["outcome"] == "error"


def drifted(n: int, drift: float, seed: int) -> tuple[list[dict], list[dict]]:
    """Samples that differ a lot among themselves, and a little between the runs."""
    rng = random.Random(seed)
    old = [rng.uniform(0, 100) for _ in range(n)]
    new = [angle + drift + rng.gauss(0, 1) for angle in old]
    return bound_rows(new), bound_rows(old)


def test_the_interval_is_that_of_paired_differences_and_the_same_every_time(tmp_path):
    n = 400
    new, old = drifted(n, 0.5, seed=1)
    paths = pair(tmp_path, new, old)
    first, again = (compared(*paths, "mean(T_c_deg) 1")["observations"][0]["figures"] for _ in range(2))
    assert first == again
    moved = [a["T_c_deg"] - b["T_c_deg"] for a, b in zip(new, old, strict=True)]
    mean = math.fsum(moved) / n
    half = 1.96 * math.sqrt(math.fsum((one - mean) ** 2 for one in moved)) / n
    assert first["observed"] == pytest.approx(mean)
    # the ends are quantiles of 2000 resamples, whose standard error is 3% of the half width
    assert [first["low"], first["high"]] == pytest.approx([mean - half, mean + half], abs=0.1 * half)


def test_the_interval_contains_the_true_difference_about_as_often_as_it_says(tmp_path):
    covered = 0
    for seed in range(12):
        part = compared(*pair(tmp_path, *drifted(60, 0.5, seed)), "mean(T_c_deg) 1")["observations"][0]["figures"]
        assert part["low"] <= part["observed"] <= part["high"]
        covered += part["low"] <= 0.5 <= part["high"]
    assert covered >= 9  # 11.4 are expected; fewer than 9 have a probability of 0.002


@pytest.mark.parametrize(
    ("key", "value", "named", "allowed"),
    [
        ("attribution", "smoothgrad", "attribution", "attribution"),
        ("ig_steps", 50, "ig_steps", "attribution"),
        ("norm", "linf", "norm", "norm"),
        ("eps", [0.1, 0.2], "eps", "eps"),
        ("dataset_sha256", "ffff", "dataset_sha256", "data"),
        ("limit", 8, "limit", "data"),
        ("skip", 3, "skip", "data"),
        ("indices", [1, 2], "indices", "data"),
        ("softplus_beta", 5.0, "softplus_beta", "beta"),
        ("target", "label", "target", "target"),
        ("slack", 0.5, "slack", "slack"),
    ],
)
def test_runs_that_differ_in_what_a_figure_means_do_not_compare_unless_it_is_allowed(
    tmp_path, key, value, named, allowed
):
    rows = bound_rows([10.0, 20.0])
    new, old = pair(tmp_path, rows, rows, **{key: value})
    one = compared(new, old, "mean(T_c_deg) 5%")
    assert one["outcome"] == "error"
    assert f"{named} is " in one["message"]
    assert one["message"].count(" and was ") == 1
    assert compared(new, old, "mean(T_c_deg) 5%", allow_mismatch=(allowed,))["outcome"] == "passed"
    other = "norm" if allowed != "norm" else "data"
    assert compared(new, old, "mean(T_c_deg) 5%", allow_mismatch=(other,))["outcome"] == "error"


@pytest.mark.parametrize(
    "identity",
    [
        {"checkpoint": "retrained.pt", "checkpoint_sha256": "9999", "arch": "resnet", "arch_args": {"width": 9}},
        {
            "seed": 7,
            "dtype": "float64",
            "save_deltas": "d",
            "metric": ["top-k"],
            "transfer": ["saliency"],
        },
        {"dataset": "a copy of the same images"},
    ],
    ids=["model", "means", "name"],
)
def test_another_model_compares_and_so_does_another_way_to_compute_the_same(tmp_path, identity):
    rows = bound_rows([10.0, 20.0])
    assert compared(*pair(tmp_path, rows, rows, **identity), "mean(T_c_deg) 5%")["outcome"] == "passed"


def test_every_difference_is_named(tmp_path):
    rows = bound_rows([10.0, 20.0])
    paths = pair(tmp_path, rows, rows, norm="linf", limit=9, softplus_beta=3.0)
    text = compared(*paths, "mean(T_c_deg) 5%")["message"]
    assert all(f"{key} is" in text for key in ("norm", "limit", "softplus_beta"))
    assert compared(*paths, "mean(T_c_deg) 5%", allow_mismatch=("norm", "data"))["outcome"] == "error"
    assert compared(*paths, "mean(T_c_deg) 5%", allow_mismatch=("norm", "data", "beta"))["outcome"] == "passed"


@pytest.mark.parametrize("without", ["new.csv", "old.csv"])
def test_a_missing_manifest_is_refused_unless_it_is_allowed(tmp_path, without):
    rows = bound_rows([10.0, 20.0])
    new, old = pair(tmp_path, rows, rows)
    (tmp_path / f"{without}.json").unlink()
    one = compared(new, old, "mean(T_c_deg) 5%")
    assert one["outcome"] == "error"
    assert f"{without} has no manifest" in one["message"]
    assert compared(new, old, "mean(T_c_deg) 5%", allow_mismatch=("manifest",))["outcome"] == "passed"


def test_an_unknown_mismatch_is_refused_with_the_nearest_name(tmp_path):
    rows = bound_rows([10.0, 20.0])
    one = compared(*pair(tmp_path, rows, rows), "mean(T_c_deg) 5%", allow_mismatch=("dataa",))
    assert one["outcome"] == "error"
    assert "did you mean 'data'?" in one["message"]


def test_an_unreadable_baseline_is_an_error(tmp_path):
    new = write_run(tmp_path / "new.csv", bound_rows([10.0]))
    verdict = judged(new, max_regression="mean(T_c_deg) 5%", baseline=(tmp_path / "gone.csv",))
    assert verdict["exit_code"] == 2


def test_a_baseline_of_another_command_is_an_error(tmp_path):
    new = write_run(tmp_path / "new.csv", bound_rows([10.0]))
    old = write_run(tmp_path / "old.csv", [{"index": 0, "eps": 0.1, "cosine": 0.5}], "certify")
    assert compared(new, old, "mean(T_c_deg) 5%")["outcome"] == "error"


# ---- rules that judge nothing ----

CLOSED = {  # rules that no rows could fail, or none could meet, by command
    "bound": (
        "max(T_c_deg) <= 180", "p95(T_c_corrected_deg) < 180.5", "median(T_c_deg) >= 0", "mean(T_c_deg) > -1",
        "min(T_e) >= 0", "p5(margin_radius) > -0.1", "min(c) >= 1", "max(failure) <= 1", "std(T_c_deg) <= 90", "std(T_e) >= 0",
        "mean(T_c_deg) != 200", "mean(T_e) != -1", "count(status == ok) >= 0", "count(status == ok) > -1",
        "fraction(status == ok) <= 1", "fraction(status == ok) >= 0%", "fraction(T_c_deg > 10) != 2",
        "fraction(T_c_deg > 180) <= 1%", "count(T_c_deg < 0 or T_e < 0) == 0", "fraction(T_c_deg > 30 and T_c_deg < 20) <= 5%",
        "count(eps = 0.1 and eps = 0.2) == 0", "count(eps = 0.1 and eps != 0.1) <= 3", "fraction(index < 0) <= 1%",
        "count(status == ok and status == vacuous) <= 1", "count(label_kept == none and label_kept != none) == 0",
        "count(index > 3 and index < 4) == 0", "fraction(T_c_deg >= 0) >= 50%", "fraction(T_c_deg > 30 or T_c_deg <= 40) == 100%",
        "fraction(status == ok or status != ok) >= 99%", "fraction(T_c_deg > 30[T_c_deg < 20]) <= 1%",
        "max(T_c_deg[T_c_deg <= 20]) <= 20", "fraction(eps = 0.1[eps = 0.1]) >= 1%",
        "count(T_e > 1 and T_c_deg > 181 or T_e < 5 and status == ok and status != ok) <= 3",
        "max(T_c_deg) < 0", "min(T_e) < 0", "mean(T_c_deg) > 180", "mean(T_c_deg) == 181", "fraction(status == ok) > 1",
        "count(T_c_deg > 190) >= 1", "fraction(T_c_deg <= 180) <= 50%", "std(T_c_deg) > 90",
    ),
    "attack": (
        "min(cosine) >= -1", "max(kendall) <= 1", "mean(top_k) <= 100%", "max(T_hat_c_deg) <= 180", "min(ssim) > -1.01",
        "fraction(violated and violated == false) <= 1%", "fraction(violated or violated != true) >= 1%",
        "min(integrated_gradients_top_k) >= 0",
    ),
    "max-eps": ("min(eps_max) >= 0", "count(threshold_kind == angle and threshold_kind == deviation) == 0"),
    "certify": ("min(cosine) >= -1", "max(tau) <= 1", "max(angle_deg) <= 180", "min(radius_min) >= 0", "min(C_lower) >= 0"),
}  # fmt: skip
OPEN = (
    "max(T_c_deg) <= 179", "max(T_c_deg) < 180", "min(T_e) > 0", "min(c) > 1", "std(T_c_deg) < 90", "mean(T_c_deg) != 20",
    "fraction(T_c_deg > 179) <= 1%", "fraction(T_c_deg >= 180) <= 1%", "fraction(T_c_deg > 20 and T_c_deg < 30) <= 5%",
    "fraction(T_c_deg < 20 or T_c_deg > 30) <= 5%", "fraction(status == ok) >= 100%", "fraction(status == ok) == 0",
    "count(index >= 0) == 3", "count(index >= 0) > 1", "count(status == ok) <= 9", "max(T_c_deg[T_c_deg < 50]) <= 40",
    "fraction(T_c_deg > 20[T_c_deg < 50]) <= 5%", "count(T_e > 1 and T_c_deg > 181 or T_e < 5) <= 3",
    "count(eps = 0.1 and T_e = 0.5) == 0", "max(T_e) <= 1e300", "fraction(label_kept == both or label_kept == none) <= 9%",
    "count(eps > 0.1 and eps = 0.1) <= 4",  # equal is also what rounding tells apart
)  # fmt: skip


@pytest.mark.parametrize(("command", "rule"), [(command, rule) for command in CLOSED for rule in CLOSED[command]])
def test_a_rule_that_nothing_could_fail_or_meet_is_an_error(path, command, rule):
    numbers = {"bound": ("T_c_deg", "T_c_corrected_deg", "T_e", "margin_radius", "c", "failure")}
    numbers |= {"attack": ("cosine", "kendall", "top_k", "T_hat_c_deg", "ssim"), "max-eps": ("eps_max",)}
    numbers |= {"certify": ("cosine", "tau", "angle_deg", "radius_min", "C_lower")}
    words = {"bound": {"label_kept": "both"}, "attack": {"violated": False, "attack": "top-k"}}
    words |= {"max-eps": {"threshold_kind": "angle", "threshold": 30.0}}
    cells = {**dict.fromkeys(numbers[command], 0.5), **words.get(command, {})}
    write_run(path, [{"index": i, "eps": 0.1, **cells} for i in range(3)], command)
    if "integrated" in rule:
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([f"{header},integrated_gradients_top_k", *(f"{line},0.5" for line in lines)]) + "\n")
    text = message(path, rule=rule)
    assert re.search(r"is always .*, so the rule cannot (fail|hold), at character \d+ of the rule", text)


@pytest.mark.parametrize("rule", OPEN)
def test_a_rule_that_rows_could_fail_and_meet_is_judged(path, rule):
    cells = {"T_e": 0.5, "c": 1.5, "label_kept": "both"}
    write_run(path, bound_rows([10.0, 20.0, 30.0], **cells))
    assert outcome(path, rule=rule) in ("passed", "failed")


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("max(T_c_deg) <= 180", "max(T_c_deg) lies between 0 and 180"),
        ("min(T_e) >= 0", "it is 0 or more"),
        ("fraction(status == ok) <= 5", "did you mean 5%?"),
        ("fraction(T_c_deg > 180) <= 1%", "no row can meet the condition"),
        ("fraction(T_c_deg >= 0) >= 1%", "every row meets the condition"),
    ],
)
def test_a_rule_that_judges_nothing_is_told_why(path, rule, hint):
    assert message(write_run(path, bound_rows([10.0], T_e=1.0)), rule=rule).endswith(f"hint: {hint}")


def test_a_condition_with_too_many_ways_to_fail_is_judged_all_the_same(path):
    condition = " or ".join("T_c_deg > 30 and T_e > 3" for _ in range(30))
    write_run(path, bound_rows([10.0, 40.0], T_e=4.0))
    assert observed(path, rule=f"fraction({condition}) <= 60%") == [0.5]


@pytest.mark.parametrize(
    ("allowance", "closed"),
    [
        ("mean(T_c_deg) 180", True),
        ("mean(T_c_deg) 179", False),
        ("mean(T_c_deg) 500%", False),
        ("std(T_c_deg) +90", True),
        ("std(T_c_deg) +89", False),
        ("mean(T_e) 1000000", False),
        ("fraction(status == vacuous) 1", True),
        ("fraction(status == vacuous) 99%", False),
        ("fraction(T_c_deg > 180) +1%", True),
        ("count(T_c_deg > 30) +50", False),
        ("mean(margin_radius) 100%", True),
        ("mean(margin_radius) 99%", False),
    ],
)
def test_an_allowance_that_nothing_could_exceed_is_an_error(tmp_path, allowance, closed):
    rows = bound_rows([10.0, 20.0], T_e=1.0, margin_radius=0.5)
    one = compared(*pair(tmp_path, rows, rows), allowance)
    assert one["outcome"] == ("error" if closed else "passed")
    assert ("cannot get worse" in one["message"]) is closed


@pytest.mark.parametrize(
    ("command", "column", "key", "value"),
    [
        ("bound", "T_proved", "proved", True),
        ("attack", "angle_proved_deg", "proved", True),
        ("bound", "T_e_ball", "ball", True),
        ("certify", "radius_min", "task", "min-radius"),
    ],
)
def test_a_figure_is_without_bound_only_where_it_was_asked_for(path, command, column, key, value):
    rows = [{"index": i, "eps": 0.1, "status": "vacuous"} for i in range(2)]
    for identity in ({}, {key: None}, {key: False}):
        write_run(path, rows, command, identity=identity)
        told = message(path, rule=f"max({column}) <= 9")
        assert f"has no {column}: it was not asked for" in told
        assert f"hint: {f'--{key}' if value is True else '`attrcert min-radius`'} computes it" in told
    write_run(path, rows, command, state=None)
    assert f"has no {column}: it was not asked for" in message(path, rule=f"max({column}) <= 9")
    write_run(path, rows, command, identity={key: value})
    assert "all of them are vacuous: nothing is bounded" in message(path, rule=f"max({column}) <= 9")
    write_run(path, [*rows, {"index": 2, "eps": 0.1, column: 0.5}], command, state=None)
    assert observed(path, rule=f"min({column}) <= 9") == [0.5]


def test_a_file_that_was_not_asked_for_a_figure_is_not_judged_by_it_where_another_was(tmp_path):
    proved = write_run(tmp_path / "proved.csv", bound_rows([10.0], T_proved=0.5), identity={"proved": True})
    plain = write_run(tmp_path / "plain.csv", bound_rows([10.0, None]), identity={"proved": False})
    (one, _) = judged(proved, plain, require="max(T_proved) <= 1")["judgements"]
    assert [part["run"] for part in one["observations"]] == [str(proved)]
    assert one["notes"] == [f"{plain} is not judged: it has no such figure or case"]


# ---- figures that attacks exceeded ----

EVIDENCE = (  # columns of an attack without those of its bounds, so that rules about bounds are judged on the other file alone
    "index", "status", "attribution", "norm", "eps", "attack", "target", "predicted", "guarantee", "g_norm", "T_hat_e",
    "T_hat_c_deg", "tightness", "violated", "violated_proved",
)  # fmt: skip


def attacked(path: Path, identity: dict[str, Any] | None = None, state: str | None = "complete", **cells: Any) -> Path:
    """The CSV of an attack on sample 0; without other cells it reached 0.8 and 50 degrees at eps 0.1."""
    row = {"index": 0, "eps": 0.1, "attack": "top-k", "target": 3, "g_norm": 1.0, "T_hat_e": 0.8, "T_hat_c_deg": 50.0}
    row |= {"violated": True, "tightness": 1.6, **cells}
    return write_run(path, [row], "attack", names={*EVIDENCE, *cells}, identity=identity, state=state)


def bounded(path: Path, command: str = "bound", state: str | None = "complete", **cells: Any) -> Path:
    """Three samples, all of whose bounds are 0.5 and 30 degrees."""
    common = (
        {"eps": 0.1, "target": 3, "g_norm": 1.0, "T_e": 0.5, "T_c_deg": 30.0} if command == "bound" else {"g_norm": 1.0}
    )
    return write_run(path, [{"index": i, **common, **cells} for i in range(3)], command, state=state)


@pytest.mark.parametrize(
    ("command", "cells", "rule"),
    [
        ("bound", {}, "max(T_e) <= 0.6"),
        ("bound", {}, "p95(T_c_deg) <= 60"),
        ("bound", {}, "fraction(T_c_deg > 40 and status == ok) <= 5%"),
        ("bound", {}, "count(T_e > 2 or T_c_deg > 40) == 0"),
        ("bound", {"T_e_corrected": 0.7}, "mean(T_e_corrected) <= 0.9"),
        ("bound", {"T_e_ball": 0.7}, "mean(T_e_ball) <= 0.9"),
        ("bound", {"T_e_label": 0.7}, "mean(T_e_label) <= 0.9"),
        ("bound", {"T_proved": 0.7}, "mean(T_proved) <= 0.9"),
        ("bound", {"T_c_corrected_deg": 45.0}, "mean(T_c_corrected_deg) <= 60"),
        ("bound", {"angle_proved_deg": 45.0}, "mean(angle_proved_deg) <= 60"),
        ("bound", {"T_e_scaled": 0.7}, "mean(T_e_scaled) <= 0.9"),
        ("bound", {"eps": 0.25}, "max(T_e) <= 0.6"),
        ("bound", {"softplus_beta": 5.0}, "max(T_e) <= 0.6"),
        ("max-eps", {"threshold_kind": "angle", "threshold": 40.0, "eps_max": 0.1}, "min(eps_max) >= 0.05"),
        ("max-eps", {"threshold_kind": "deviation", "threshold": 0.7, "eps_max": 0.2}, "min(eps_max) >= 0.05"),
        ("max-eps", {"threshold_kind": "cosine-distance", "threshold": 0.3, "eps_max": 0.1}, "min(eps_max) >= 0.05"),
    ],
)
def test_a_rule_is_refuted_where_an_attack_exceeded_a_judged_figure(tmp_path, command, cells, rule):
    beta = cells.get("softplus_beta")  # of several; the attack is on that version alone
    about = {"identity": {"softplus_beta": beta}} if beta else {}
    judged_file, attack = (
        bounded(tmp_path / "bounds.csv", command, **cells),
        attacked(tmp_path / "attacks.csv", **about),
    )
    assert outcome(judged_file, rule=rule) == "passed"
    verdict = judged(judged_file, attack, require=rule)
    assert (verdict["outcome"], verdict["exit_code"]) == ("refuted", 1)
    part = verdict["judgements"][0]["observations"][0]
    (one,) = part["refutations"][:1]
    assert (one["samples"], one["judged"], one["by"]) == (1, 3, [f"{attack}, top-k"])
    assert any("on 1 of 3 samples" in note and f"({attack}, top-k)" in note for note in part["notes"])
    assert outcome(judged_file, attack, rule=rule, waive=(Waiver(0, "known"),)) == "passed"


@pytest.mark.parametrize("rule", ["max(T_hat_e) <= 1", "fraction(violated) >= 50%", "mean(tightness) <= 2"])
def test_what_attacks_reached_is_not_refuted_by_them(tmp_path, rule):
    assert outcome(attacked(tmp_path / "attacks.csv"), rule=rule) == "passed"


def test_an_attack_refutes_the_bounds_in_its_own_row_and_in_those_of_other_attacks(path):
    common = {"index": 0, "eps": 0.1, "g_norm": 1.0, "T_e": 0.5}
    rows = [
        {**common, "attack": attack, "T_hat_e": reached, "violated": reached > 0.5}
        for attack, reached in (("top-k", 0.4), ("euclidean", 0.8))
    ]
    (one, _) = judged(write_run(path, rows, "attack"), require="max(T_e) <= 0.6")["judgements"]
    assert [part["outcome"] for part in one["observations"]] == ["refuted", "refuted"]
    assert {part["refutations"][0]["by"][0] for part in one["observations"]} == {f"{path}, euclidean"}


@pytest.mark.parametrize(
    ("bound", "attack"),
    [
        ({}, {"T_hat_e": 0.4, "T_hat_c_deg": 20.0}),
        ({}, {"T_hat_e": 0.5 + 1e-6, "T_hat_c_deg": 30.00005}),  # rounding of maps of length 1
        ({}, {"eps": 0.2}),
        ({}, {"index": 7}),
        ({}, {"violated": None}),  # --measure-on relu: another network
        ({}, {"target": 4}),
        ({}, {"norm": "linf"}),
        ({}, {"attribution": "integrated-gradients"}),
        ({}, {"identity": {"checkpoint_sha256": "other"}}),
        ({}, {"identity": {"checkpoint_sha256": None, "checkpoint": "other"}}),
        ({}, {"identity": {"arch": "file.py:other"}}),
        ({}, {"identity": {"dataset_sha256": "other"}}),
        ({}, {"identity": {"softplus_beta": 5.0}}),
        ({}, {"softplus_beta": 5.0, "identity": {"softplus_beta": [5.0, 20.0]}}),
        ({"softplus_beta": 20.0}, {"softplus_beta": 5.0}),
        ({}, {"state": None, "g_norm": 1.01}),
        ({"state": None}, {"g_norm": 1.01}),
        ({"state": None}, {"predicted": 5, "g_norm": None}),
    ],
)
def test_an_attack_on_something_else_or_on_less_refutes_nothing(tmp_path, bound, attack):
    paths = bounded(tmp_path / "bounds.csv", predicted=3, **bound), attacked(tmp_path / "attacks.csv", **attack)
    verdict = judged(*paths, require=["max(T_e) <= 0.6", "max(T_c_deg) <= 60"])
    assert [one["outcome"] for one in verdict["judgements"]] == ["passed"] * 3


def test_an_unbounded_sample_is_not_refuted(tmp_path):
    rows = [{"index": 0, "eps": 0.1, "status": "vacuous", "g_norm": 1.0}, *bound_rows([30.0] * 3)[1:]]
    paths = write_run(tmp_path / "bounds.csv", rows), attacked(tmp_path / "attacks.csv")
    assert outcome(*paths, rule="mean(T_c_deg) <= 90") == "passed"


@pytest.mark.parametrize(
    ("bound", "attack"), [({"state": None}, {}), ({}, {"state": None}), ({"state": None}, {"state": None})]
)
def test_without_manifests_rows_of_one_class_and_length_are_of_one_map(tmp_path, bound, attack):
    paths = bounded(tmp_path / "bounds.csv", **bound), attacked(tmp_path / "attacks.csv", g_norm=1.00001, **attack)
    assert outcome(*paths, rule="max(T_e) <= 0.6") == "refuted"


@pytest.mark.parametrize(
    "identity",
    [
        {"checkpoint": "a copy"},
        {"dataset": "a copy"},
        {"limit": 9, "skip": 2},
        {"seed": 7},
        {"ig_steps": 50},
        {"proved": True},
    ],
)
def test_another_name_choice_of_samples_or_setting_of_the_run_does_not_make_another_map(tmp_path, identity):
    paths = bounded(tmp_path / "bounds.csv"), attacked(tmp_path / "attacks.csv", identity)
    assert outcome(*paths, rule="max(T_e) <= 0.6") == "refuted"


def test_refuted_figures_are_allowed_by_name_and_still_counted(tmp_path):
    paths = bounded(tmp_path / "bounds.csv"), attacked(tmp_path / "attacks.csv")
    verdict = judged(*paths, require="max(T_c_deg[index < 2]) <= 60", allow_refuted=True)
    assert verdict["exit_code"] == 0
    part = verdict["judgements"][0]["observations"][0]
    assert (part["outcome"], part["refutations"][0]["samples"]) == ("passed", 1)
    assert "attacks exceeded T_c_deg on 1 of 2 samples, by up to 20 degrees" in part["notes"][0]
    assert "with what they reached, max(T_c_deg[index < 2]) is 50" in part["notes"][0]
    assert any("--allow-refuted" in note for note in verdict["notes"])


def test_a_rule_that_fails_is_failed_though_it_is_refuted_too(tmp_path):
    paths = bounded(tmp_path / "bounds.csv"), attacked(tmp_path / "attacks.csv")
    (one, _) = judged(*paths, require="max(T_c_deg) <= 20")["judgements"]
    assert (one["outcome"], one["observations"][0]["refutations"][0]["samples"]) == ("failed", 1)


@pytest.mark.parametrize("figures", [{"T_proved": 0.7}, {"angle_proved_deg": 45.0}])
def test_no_option_allows_a_proved_figure_that_was_exceeded(tmp_path, figures):
    (column,) = figures
    paths = bounded(tmp_path / "bounds.csv", **figures), attacked(tmp_path / "attacks.csv")
    assert outcome(*paths, rule=f"max({column}) <= 60", allow_refuted=True) == "refuted"


@pytest.mark.parametrize("cells", [{"violated_proved": True}, {"guarantee": "confidence"}])
def test_a_broken_promise_in_any_file_is_never_a_pass(tmp_path, cells):
    paths = bounded(tmp_path / "bounds.csv"), attacked(tmp_path / "attacks.csv", index=8, **cells)
    verdict = judged(*paths, require="count(status == vacuous) == 0", allow_refuted=True)
    assert verdict["exit_code"] == 1
    assert [one["name"] for one in verdict["judgements"] if one["outcome"] == "failed"] == ["promises"]


@pytest.mark.parametrize("of", ["new", "old"])
def test_a_regression_over_refuted_figures_is_refuted(tmp_path, of):
    new, old = pair(tmp_path, bound_rows([30.0], g_norm=1.0), bound_rows([30.0], g_norm=1.0), checkpoint_sha256="new")
    attack = attacked(tmp_path / "attacks.csv", {"checkpoint_sha256": "new"} if of == "new" else {})
    demands = {"max_regression": "mean(T_c_deg) 5%", "baseline": (old,)}
    assert judged(new, **demands)["exit_code"] == 0
    one = judged(new, attack, **demands)["judgements"][0]
    assert one["outcome"] == "refuted"
    assert ("the baseline: attacks exceeded" in one["observations"][0]["notes"][-1]) is (of == "old")
    assert judged(new, attack, **demands, allow_refuted=True)["exit_code"] == 0
