"""Rows survive the way to disk and back, whatever kills the run in between."""

import csv
import hashlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.reading import read_rows

from attrcert.columns import COLUMNS, Column
from attrcert.errors import ResumeError, UsageError
from attrcert.foreign import printable
from attrcert.saved.records import parse, render, to_csv
from attrcert.saved.rowfiles import OwnRows, RowFile
from attrcert.saved.schemas import SCHEMA, SETTINGS

BOUND = COLUMNS["bound"]
IDENTITY = {"attribution": "saliency", "eps": (0.1, 0.2), "seed": 0}

values = {
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(min_size=1),
    bool: st.booleans(),
}
rows = st.lists(
    st.fixed_dictionaries({column.name: st.none() | values[column.kind] for column in BOUND}), min_size=1, max_size=3
)


def row(index: int, eps: float, **cells) -> dict:
    return {column.name: None for column in BOUND} | {"index": index, "eps": eps, "status": "ok", "T_e": 1 / 3} | cells


def sample(index: int, **cells) -> list[dict]:
    return [row(index, eps, **cells) for eps in IDENTITY["eps"]]


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "out.csv"


def opened(path: Path, identity: dict = IDENTITY, **how) -> RowFile:
    cases = [{"eps": eps} for eps in IDENTITY["eps"]]
    return RowFile(path, OwnRows("bound", identity, BOUND, cases), **how)


def started(path: Path, samples: int = 3) -> RowFile:
    """A run that wrote some samples and its manifest, and is gone."""
    with opened(path) as file:
        for index in range(samples):
            file.append(sample(index))
    return file


@given(rows)
def test_rows_come_back_from_the_csv_as_they_went(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "out.csv"
    path.write_text(to_csv(rows, BOUND, header=True), encoding="utf-8")
    shown = [{name: printable(cell) if isinstance(cell, str) else cell for name, cell in row.items()} for row in rows]
    assert read_rows(path, BOUND) == shown


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.1, "0.1"), (1 / 3, "0.3333333333333333"), (3, "3"), (True, "True"), ("a", "a")]
)
def test_cells_are_rendered_exactly(value, text):
    assert render(value) == text
    assert parse(text, type(value)) == value


@given(st.floats(allow_nan=False))
def test_a_float_cell_loses_no_bit(value):
    assert math.copysign(1, parse(render(value), float)) == math.copysign(1, value)
    assert parse(render(value), float) == value


def test_the_header_names_every_column_once():
    names = [column.name for column in BOUND]
    assert next(csv.reader([to_csv([], BOUND, header=True)])) == names
    assert len(set(names)) == len(names)


def test_every_column_says_what_it_means():
    assert all(isinstance(column, Column) and len(column.meaning) > 5 for column in BOUND)


def test_cells_that_a_row_lacks_are_empty(path):
    path.write_text(to_csv([{"index": 3}], BOUND, header=True))
    (read,) = read_rows(path, BOUND)
    assert read.pop("index") == 3
    assert set(read.values()) == {None}


def test_what_was_appended_is_on_disk_at_once(path):
    started(path, samples=2)
    file = opened(path, resume=True)
    assert [r["index"] for r in read_rows(path, BOUND)] == [0, 0, 1, 1]
    file.append(sample(2))
    assert [r["index"] for r in read_rows(path, BOUND)] == [0, 0, 1, 1, 2, 2]


def test_a_last_line_torn_anywhere_is_dropped(path):
    started(path, samples=2)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert len(read_rows(path, BOUND)) == 3


def test_a_line_torn_inside_a_character_is_dropped(path):
    started(path, samples=1)
    opened(path, resume=True).append(sample(1, message="größe.png"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rfind("ö".encode()) + 1])
    assert [r["index"] for r in read_rows(path, BOUND)] == [0, 0, 1]


def test_a_message_of_two_lines_torn_between_them_is_dropped(path):
    started(path, samples=1)
    opened(path, resume=True).append(sample(1, message="first\nsecond"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rfind(b"second")])
    assert [r["index"] for r in read_rows(path, BOUND)] == [0, 0, 1]


def test_resuming_keeps_whole_samples_and_drops_partial_ones(path):
    started(path, samples=3)
    whole = path.read_text()
    path.write_text(whole[: whole.rstrip("\n").rfind("\n") + 1])  # the last sample has lost one of its two rows
    resumed = opened(path, resume=True)
    assert resumed.finished == {0, 1}
    assert len(resumed.rows) == 4
    assert "1 samples lack rows and are computed again" in resumed.notes[0]
    resumed.append(sample(2))
    assert path.read_text() == whole


def test_a_resumed_file_goes_on_where_the_torn_line_was(path):
    started(path, samples=2)
    expected = path.read_text()
    path.write_text(expected[:-30])
    resumed = opened(path, resume=True)
    assert resumed.finished == {0}
    resumed.append(sample(1))
    assert path.read_text() == expected


def test_resuming_without_an_earlier_file_starts_one(path):
    assert opened(path, resume=True).finished == frozenset()
    assert path.exists()


def test_resuming_a_file_of_which_only_the_header_was_written_starts_over(path):
    started(path, samples=0)
    assert opened(path, resume=True).finished == frozenset()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"eps": (0.1,)}, "eps was"),
        ({"attribution": "input-x-gradient"}, "attribution was 'saliency' and is 'input-x-gradient'"),
        ({"new": 3}, "new was None and is 3"),
    ],
)
def test_another_runs_file_is_refused_by_the_differing_keys(path, change, said):
    started(path)
    before = path.read_text()
    with pytest.raises(ResumeError) as caught:
        opened(path, {**IDENTITY, **change}, resume=True)
    assert said in caught.value.message
    assert caught.value.message.count(" was ") == 1
    assert caught.value.exit_code == 2
    assert path.read_text() == before


def test_every_differing_key_is_named(path):
    started(path)
    with pytest.raises(ResumeError, match=r"attribution was .*; seed was "):
        opened(path, {**IDENTITY, "seed": 1, "attribution": "x"}, resume=True)


def test_another_schema_is_refused(path):
    file = started(path)
    manifest = json.loads(file.manifest_path.read_text())
    file.manifest_path.write_text(json.dumps({**manifest, "schema": SCHEMA + 1}))
    with pytest.raises(ResumeError, match="schema"):
        opened(path, resume=True)


def test_other_columns_are_refused(path):
    started(path)
    path.write_text("index,eps\n0,0.1\n")
    with pytest.raises(ResumeError, match="columns"):
        opened(path, resume=True)


@pytest.mark.parametrize("manifest", [None, "", "{", "[]", "3"], ids=["gone", "empty", "torn", "a list", "a number"])
def test_a_manifest_that_cannot_be_read_is_refused(path, manifest):
    file = started(path)
    file.manifest_path.unlink()
    if manifest is not None:
        file.manifest_path.write_text(manifest)
    with pytest.raises(ResumeError, match="manifest"):
        opened(path, resume=True)


def test_an_existing_file_is_neither_replaced_nor_continued_unasked(path):
    started(path)
    before = path.read_text()
    with pytest.raises(UsageError) as caught:
        opened(path)
    assert "--resume" in caught.value.hint
    assert "--overwrite" in caught.value.hint
    assert path.read_text() == before


def test_overwriting_starts_over(path):
    started(path)
    assert opened(path, {**IDENTITY, "seed": 1}, overwrite=True).finished == frozenset()
    assert read_rows(path, BOUND) == []


def test_resume_and_overwrite_exclude_each_other(path):
    with pytest.raises(UsageError, match="exclude"):
        opened(path, resume=True, overwrite=True)


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        opened(tmp_path / "gone" / "out.csv")


def test_a_folder_in_the_files_place_is_a_usage_error(tmp_path):
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(UsageError):
        opened(tmp_path / "out.csv", overwrite=True)


def test_the_manifest_holds_schema_command_identity_and_facts(path):
    file = opened(path)
    file.append(sample(3))
    file.write_manifest({"versions": {"torch": "2.13"}})
    assert file.manifest_path.name == "out.csv.json"
    assert json.loads(file.manifest_path.read_text()) == {
        "schema": SCHEMA,
        "settings": SETTINGS,
        "command": "bound",
        "identity": {**IDENTITY, "eps": [0.1, 0.2]},
        "state": "complete",
        "rows": 2,
        "status": {"ok": 2},
        "rows_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "versions": {"torch": "2.13"},
    }


def test_no_half_written_file_is_left_behind(path):
    started(path).write_manifest({})
    opened(path, resume=True)
    assert sorted(p.name for p in path.parent.iterdir()) == ["out.csv", "out.csv.json"]


def test_a_file_that_attrcert_did_not_write_is_not_overwritten(tmp_path):
    (tmp_path / "weights.pt").write_bytes(b"PK precious")
    with pytest.raises(UsageError, match="not overwritten"):
        opened(tmp_path / "weights.pt", overwrite=True)
    assert (tmp_path / "weights.pt").read_bytes() == b"PK precious"
