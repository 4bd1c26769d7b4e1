"""What functions give: rows that are a list and can be looked at, judged and shown, as on the command line."""

import pickle
import re

import pytest
from reference.program import attrcert as program

import attrcert
from attrcert.columns import COLUMNS
from attrcert.errors import UsageError


@pytest.fixture(scope="module")
def rows():
    return attrcert.bound(None, None, limit=2)


@pytest.fixture(scope="module")
def file(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "<b>bounds.csv"
    assert program("bound", "--limit", 2, "--out", path, "--quiet").code == 0
    return path


def test_rows_are_a_list_that_knows_its_columns(rows):
    assert isinstance(rows, list)
    assert len(rows) == 2
    again = pickle.loads(pickle.dumps(rows))
    assert (again, again.summary()) == (rows, rows.summary())


def test_a_frame_has_the_columns_of_the_file(rows):
    frame = rows.to_pandas()
    assert list(frame.columns) == [column.name for column in COLUMNS["bound"]]
    assert frame["T_c_deg"].tolist() == [row["T_c_deg"] for row in rows]


def test_a_summary_is_what_the_command_line_prints(rows, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    printed = program("bound", "--limit", 2, "--quiet").out
    assert rows.summary().split() == printed.split()


def test_a_notebook_shows_a_table_in_which_names_are_no_markup(rows):
    shown = rows._repr_html_()
    assert "<td" in shown
    assert "T_c_deg" in shown
    assert rows.summary().splitlines()[-1].endswith("on at least half of the 2 samples.")
    named = attrcert.Rows(
        rows, command="bound", columns=rows.columns, manifest={**rows.manifest, "facts": {"model": "<script>"}}
    )
    assert "<script>" not in named._repr_html_()


@pytest.mark.parametrize(("limit", "passed"), [(90, True), (1, False)])
def test_a_gate_judges_rows_and_files_alike(rows, file, limit, passed):
    rule = f"max(T_c_deg) <= {limit}"
    for results in (rows, file, [file]):
        assert attrcert.gate(results, rule).passed is passed
    assert attrcert.gate(file, require=rule).passed is passed


def test_a_gate_of_rows_takes_rules_alone(rows):
    with pytest.raises(UsageError, match="min_samples is for files"):
        attrcert.gate(rows, "max(T_e) <= 1", min_samples=3)
    with pytest.raises(UsageError, match="at least one rule"):
        attrcert.gate(rows)


def test_a_report_is_written_and_replaces_only_reports(file, tmp_path):
    page = attrcert.report(file, tmp_path / "page.html", title="Mine")
    assert (tmp_path / "page.html").read_text() == page
    assert re.search("<title>Mine</title>", page)
    attrcert.report([file], tmp_path / "page.html", format="markdown")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not a report"):
        attrcert.report(file, tmp_path / "notes.txt")


def test_a_report_shows_what_was_typed_and_what_was_found(rows, file):
    page = attrcert.report(file, format="markdown")
    assert "command: attrcert bound --limit 2 --out" in page
    assert rows.summary().splitlines()[-1] in page
    assert "fashion-natural, saliency, l2" in page
