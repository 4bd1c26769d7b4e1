"""The README says what the program does."""

import re
from pathlib import Path

import pytest
from reference.program import attrcert
from reference.readme import with_tables
from typer.main import get_command

from attrcert.cli.app import OFFERED, app
from attrcert.cli.endings import INTERRUPTED
from attrcert.columns import COLUMNS, COUNTS, DEVIATION_ALLOWED, INVERSE, SMOOTH, SMOOTH_ATTACK, declared
from attrcert.columns.score import score_row
from attrcert.errors import AttrcertError
from attrcert.vocabulary import Guarantee

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_tables_of_options_and_columns_are_those_that_are_declared():
    assert with_tables(README) == README, "the tables are made by `python tests/reference/readme.py`"


def test_every_column_is_in_a_table():
    documented = {
        (column.name, column.meaning)
        for column in (*COLUMNS["attack"], *INVERSE, DEVIATION_ALLOWED, *SMOOTH, *COUNTS, *SMOOTH_ATTACK, *score_row())
    }
    assert {(column.name, column.meaning) for column in declared()} == documented
    assert all(f"| `{name}` | " in README for name, _ in documented)


def test_every_option_in_the_readme_exists():
    commands = (get_command(app), *(one.made() for one in OFFERED))
    known = {name for command in commands for parameter in command.params for name in parameter.opts}
    ours = re.sub(r"^#SBATCH.*$|`ray start[^`]*`", "", README, flags=re.MULTILINE)  # other programs have their own
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", ours)) <= known


def test_the_python_blocks_run_one_after_the_other(capsys, monkeypatch, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert "first-order" in capsys.readouterr().out


def test_the_attribution_of_one_s_own_is_used_by_the_command_beside_it(monkeypatch, tmp_path):
    section = README.split("## Your own attribution")[1].split("\n## ")[0]
    (file,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "maps.py").write_text(file)
    monkeypatch.chdir(tmp_path)
    command = re.search(r"    attrcert (bound .*)", section)[1]
    done = attrcert(*command.split(), "--quiet")
    assert done.code == 0, done.err
    assert "shape (1, 7, 7)" in done.shown


@pytest.mark.parametrize("guarantee", [Guarantee.FIRST_ORDER, Guarantee.CORRECTED])
def test_a_guarantee_means_in_the_readme_what_the_table_says(guarantee):
    assert f"| {guarantee} | {guarantee.meaning} |" in README


def test_the_exit_codes_of_all_errors_are_in_the_readme():
    section = README.split("## Exit codes")[1].split("\n## ")[0]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \| ", section, re.MULTILINE)}
    kinds, raised = [AttrcertError], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        raised.add(kind.exit_code)
    assert raised | {0, 1, INTERRUPTED} == documented


@pytest.mark.parametrize("begins", ["max-eps --smooth", "score"])
def test_the_table_of_a_command_is_what_the_program_prints(begins, monkeypatch):
    command, printed = re.search(rf"`attrcert ({begins}[^`]*)`:\n\n```\n(.*?)```", README, re.DOTALL).groups()
    monkeypatch.setenv("COLUMNS", "100")
    done = attrcert(*command.split())
    assert done.code == 0, done.err
    assert done.out.split() == printed.split()
