"""Files that version 0.1 wrote: resumed, judged, shown and merged as they were meant."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from reference.program import attrcert

OLD = Path(__file__).parent / "fixtures" / "v0_1"
COMMANDS = {
    "bounds": ("bound", "--indices", "11,12,13", "--eps", 0.1, "--eps", 1000),
    "attacks": ("attack", "--indices", "11,12", "--steps", 2, "--restarts", 1, "--metric", "cosine"),
    "largest": ("max-eps", "--indices", "11,12", "--max-angle", 30),
    "smooth": ("bound", "--smooth", "uniform", "--rule", "tight", "--samples", 60, "--indices", "11,12"),
}


@pytest.fixture
def old(tmp_path) -> Path:
    """A folder with them."""
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_that_was_cut_is_resumed(old, name):
    """The first sample's row is kept as it was, the others are computed; the label's fact has its own column."""
    path = old / f"{name}.csv"
    lines = path.read_text().splitlines(keepends=True)
    before = rows(path)
    per_sample = sum(row["index"] == "11" for row in before)
    path.write_text("".join(lines[: 1 + per_sample]))
    done = attrcert(*COMMANDS[name], "--out", path, "--resume", "--quiet", "--threads", 1)
    assert done.code == 0, done.err
    after = rows(path)
    assert [row["index"] for row in after] == [row["index"] for row in before]
    for mine, theirs in zip(after[:per_sample], before[:per_sample], strict=True):
        assert {key: mine[key] for key in theirs} == theirs
    assert {row["index"]: row["correct"] for row in after if row["index"] != "13"} == {"11": "True", "12": "False"}
    assert not any(row["status"] == "misclassified" for row in after)


def test_a_whole_run_is_judged_with_the_labels_fact_in_its_own_column(old):
    words = ("gate", old / "bounds.csv", old / "attacks.csv", "--allow-refuted")
    assert attrcert(*words, "--require", "fraction(correct) >= 99%").code == 1
    assert attrcert(*words, "--require", "fraction(correct) >= 50%").code == 0
    assert attrcert(*words, "--require", "fraction(status == ok[eps=0.1]) >= 99%").code == 0
    refused = attrcert(*words, "--require", "fraction(status == misclassified) <= 50%")
    assert refused.code == 2
    assert "misclassified" in refused.shown


def test_old_files_are_shown_and_compared_with_new_ones(old, tmp_path):
    files = [old / f"{name}.csv" for name in COMMANDS]
    assert attrcert("report", *files, "-o", tmp_path / "page.html").code == 0
    assert attrcert(*COMMANDS["bounds"], "--out", tmp_path / "new.csv", "--quiet").code == 0
    words = ("--baseline", old / "bounds.csv", "--max-regression", "mean(T_c_deg[eps=0.1]) 1%")
    done = attrcert("gate", tmp_path / "new.csv", *words)
    assert done.code == 0, done.shown


def test_whole_old_files_resume_to_themselves(old):
    path = old / "bounds.csv"
    before = rows(path)
    assert attrcert(*COMMANDS["bounds"], "--out", path, "--resume", "--quiet").code == 0
    after = rows(path)
    gone = {"status"}
    assert all(mine[key] == row[key] for mine, row in zip(after, before, strict=True) for key in row if key not in gone)
    assert [row["status"] for row in after] == ["ok", "vacuous"] * 3


def test_certificates_are_those_of_the_command_that_was_called_smooth(old, tmp_path):
    """Judged against new ones, merged with them, and resumed under today's name."""
    path, new = old / "smooth.csv", tmp_path / "new.csv"
    assert attrcert(*COMMANDS["smooth"], "--out", new, "--quiet").code == 0
    assert json.loads((tmp_path / "new.csv.json").read_text())["command"] == "certify"
    done = attrcert(
        "gate", new, "--baseline", path, "--max-regression", "mean(C_hat) 1%", "--require", "min(C_hat) > 0.1"
    )
    assert done.code == 0, done.shown

    done = attrcert("report", path, new, "-o", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert "attrcert bound --smooth" in (tmp_path / "page.html").read_text()

    assert attrcert("merge", path, "--out", tmp_path / "merged.csv").code == 0
    assert rows(tmp_path / "merged.csv")[0]["C_hat"] == rows(path)[0]["C_hat"]
    assert attrcert(*COMMANDS["smooth"], "--out", path, "--resume", "--quiet").code == 0
    for name in (path, tmp_path / "merged.csv"):
        assert json.loads(Path(f"{name}.json").read_text())["command"] == "certify"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_was_merged_is_resumed(old, name):
    merged = old / "merged.csv"
    assert attrcert("merge", old / f"{name}.csv", "--out", merged).code == 0
    before = rows(merged)
    done = attrcert(*COMMANDS[name], "--out", merged, "--resume", "--quiet")
    assert (done.code, rows(merged)) == (0, before), done.err
