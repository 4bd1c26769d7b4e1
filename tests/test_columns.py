"""A column is declared once, and a cell without a column is a mistake that is seen."""

import json

import pytest
import torch
from reference.program import attrcert
from torch import nn

import attrcert as library
from attrcert.columns import COLUMNS, Column, declared, register
from attrcert.running.evaluating.cells import Bounded
from attrcert.saved.records import to_csv
from attrcert.saved.rowfiles import RowFile
from attrcert.vocabulary import Guarantee


@pytest.fixture
def astray(monkeypatch):
    """Rows with a cell that no column declares."""
    told = Bounded.common
    monkeypatch.setattr(Bounded, "common", lambda self, i: {**told(self, i), "astray": 1.0})


def test_a_cell_without_a_column_is_not_written(tmp_path):
    row = {"index": 0, "status": "ok", "T_e": 1.0, "T_oe": 2.0}
    with pytest.raises(AssertionError, match="no column is declared for the cells T_oe"):
        to_csv([row], COLUMNS["bound"], header=True)
    with RowFile(tmp_path / "x.csv", "bound", {}, columns=COLUMNS["bound"], cases=({},)) as file:
        before = (tmp_path / "x.csv").read_bytes()
        with pytest.raises(AssertionError, match="T_oe"):
            file.append([row])
    assert (tmp_path / "x.csv").read_bytes() == before


@pytest.mark.usefixtures("astray")
def test_a_cell_without_a_column_is_not_given_to_the_library():
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.Softplus(), nn.Linear(3, 2))
    with pytest.raises(AssertionError, match="no column is declared for the cells astray"):
        library.bound(net, torch.rand(1, 1, 4, 4), softplus_beta=None)


@pytest.mark.usefixtures("astray")
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_a_cell_without_a_column_is_not_printed(format_):
    done = attrcert("bound", "--limit", 1, "--quiet", "--format", format_)
    assert done.code == 70
    assert "astray" in done.err
    assert not done.out


HALF = Column(
    "T_half", float, "half of what was bounded, for a test", Guarantee.FIRST_ORDER, "up", least=0, bounds="T_hat_e", headline=True,
    label="T_2", axis="half the bound", compared=("mean",), place=30,
)  # fmt: skip
FLAG = Column("violated_half", bool, "whether T_hat_e exceeds T_half", judges="T_half")


@pytest.fixture
def half(monkeypatch):
    """One bound more, with a verdict of attacks: two declarations, and the cell of the first."""
    for command, columns in COLUMNS.items():
        monkeypatch.setitem(COLUMNS, command, columns)  # as it is afterwards
    register(HALF, "bound", "attack")
    register(FLAG, "attack")
    rows = Bounded.rows
    monkeypatch.setattr(
        Bounded, "rows", lambda self, eps: [{**row, "T_half": row["T_e"] / 2} for row in rows(self, eps)]
    )


@pytest.mark.usefixtures("half")
def test_a_column_that_is_registered_is_in_rows_summaries_rules_the_catalogue_and_pages(tmp_path):
    bounds, attacks, page = (tmp_path / name for name in ("bounds.csv", "attacks.csv", "page.html"))
    done = attrcert("bound", "--limit", 2, "--quiet", "--out", bounds, "--require", "max(T_half) < 1000")
    assert done.code == 0, done.err
    assert "T_2" in done.out
    assert "T_half" in bounds.read_text().partition("\n")[0].split(",")

    quick = ("--limit", 2, "--steps", 2, "--random-draws", 2, "--restarts", 1)
    done = attrcert("attack", *quick, "--quiet", "--format", "json", "--out", attacks)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert all(row["T_half"] == row["T_e"] / 2 and row["violated_half"] for row in found["rows"])
    assert found["attacks"][0]["T_half"] == {
        "mean": found["attacks"][0]["T_e"]["mean"] / 2,
        "exceeded": 2,
        "compared": 2,
    }
    assert found["summary"]["per_eps"][0]["T_half"]["count"] == 2

    done = attrcert("gate", bounds, attacks, "--require", "max(T_half) < 1000")
    assert done.code == 1
    assert "attacks exceeded T_half on 2 of 2 samples" in done.shown
    assert "T_half: first-order" in done.shown

    assert attrcert("report", bounds, attacks, "-o", page).code == 0
    for said in (HALF.meaning, "half the bound", "bound T_half", "T_2 [outside]"):
        assert said in page.read_text()
    entries = json.loads(attrcert("catalogue", "columns", "--format", "json").out)["columns"]
    assert {"name": "T_half", "meaning": HALF.meaning, "guarantee": "first-order", "reference": ""} in entries


def test_what_a_column_refers_to_is_declared():
    for command, columns in COLUMNS.items():
        names = {column.name for column in columns}
        assert {column.judges for column in columns} | {column.follows for column in columns} <= {*names, ""}, command
    everywhere = {column.name for column in declared()}
    assert {column.bounds for column in declared()} <= {*everywhere, ""}


def test_the_catalogue_says_what_every_column_promises():
    shown = attrcert("catalogue", "columns").shown
    assert all(column.name in shown for column in declared())
    entries = json.loads(attrcert("catalogue", "columns", "--format", "json").out)["columns"]
    told = {(entry["name"], entry["guarantee"]) for entry in entries}
    assert {
        ("T_e", "first-order"),
        ("T_proved", "proved"),
        ("T_hat_e", "empirical"),
        ("eps_max", "as the row says"),
    } <= told
