"""A column is declared once, and a cell without a column is a mistake that is seen."""

import json

import pytest
import torch
from reference.program import attrcert
from torch import nn

import attrcert as library
from attrcert.bounds.smoothed import RULES
from attrcert.columns import COLUMNS, Column, declared, register
from attrcert.errors import UsageError
from attrcert.running.evaluating.cells import Bounded
from attrcert.saved.records import to_csv
from attrcert.saved.rowfiles import OwnRows, RowFile


@pytest.fixture
def astray(monkeypatch):
    """Rows with a cell that no column declares."""
    told = Bounded.common
    monkeypatch.setattr(Bounded, "common", lambda self, i: {**told(self, i), "astray": 1.0})


@pytest.mark.parametrize(
    ("column", "commands", "said"),
    [
        (
            "T_new",
            ("bound", "bounds"),
            "the command must be one of bound, attack, max-eps, certify, pixels, attack-smooth, score, got 'bounds'",
        ),
        ("T_e", ("pixels", "bound"), "the column 'T_e' of bound is there already"),
    ],
)
def test_a_column_is_registered_where_it_can_be_or_nowhere(column, commands, said):
    before = dict(COLUMNS)
    with pytest.raises(UsageError, match=said):
        register(Column(column, float, "for a test"), *commands)
    assert before == COLUMNS


def test_a_cell_without_a_column_is_not_written(tmp_path):
    row = {"index": 0, "status": "ok", "T_e": 1.0, "T_oe": 2.0}
    with pytest.raises(AssertionError, match="no column is declared for the cells T_oe"):
        to_csv([row], COLUMNS["bound"], header=True)
    with RowFile(tmp_path / "x.csv", OwnRows("bound", {}, COLUMNS["bound"], cases=({},))) as file:
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


def test_what_a_column_refers_to_is_declared():
    for command, columns in COLUMNS.items():
        names = {column.name for column in columns}
        assert {column.judges for column in columns} | {column.follows for column in columns} <= {*names, ""}, command
        telling = {column.name for column in columns if column.case}
        assert {column.only[0] for column in columns if column.only} <= telling, command
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


def test_the_words_of_a_rule_are_the_names_of_the_rules():
    rule = next(column for column in COLUMNS["certify"] if column.name == "rule")
    assert rule.words == tuple(RULES)
