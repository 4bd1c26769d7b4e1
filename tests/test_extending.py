"""What others add without editing the package is known everywhere, and files from before it are read.

The program runs in a process of its own, since its options are made when it starts.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reference.outside import FLAG, LARGEST, PART
from reference.program import Done, attrcert

HERE = Path(__file__).parent
PROGRAM = """
import json, sys
from dataclasses import asdict
from reference.outside import register_all
register_all()
import attrcert
from reference.program import attrcert as program
done = [asdict(program(*words)) for words in json.loads(sys.argv[1])]
rows = attrcert.bound(limit=1, share=0.25)
print(json.dumps({"done": done, "rows": rows}))
"""
QUICK = ("--limit", "2", "--steps", "2", "--random-draws", "2", "--restarts", "1", "--quiet")
ADDED = ("--attribution", "halved", "--attack", "again,euclidean", "--keep", "largest", "--share", "0.25")
BOUND = ("bound", "--limit", "2", "--quiet")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """With files of a program to which nothing was added."""
    home = tmp_path_factory.mktemp("extended")
    for name, more in (("old", ()), ("replaced", ()), ("first", ("--shard", "1/2")), ("second", ("--shard", "2/2"))):
        assert attrcert(*BOUND, *more, "--out", home / f"{name}.csv").code == 0
    whole = (home / "old.csv").read_bytes()
    (home / "torn.csv").write_bytes(whole[: whole.index(b"\n1,") + 1])
    (home / "torn.csv.json").write_text((home / "old.csv.json").read_text().replace('"complete"', '"running"'))
    return home


@pytest.fixture(scope="module")
def told(home) -> dict:
    """All that the program says with what was added."""
    commands = {
        "help": ("bound", "--help-all"),
        "short": ("bound", "--help"),
        "attack help": ("attack", "--help-all"),
        "catalogue": ("catalogue", "--format", "json"),
        "wrong name": ("bound", "--attribution", "half"),
        "wrong value": ("bound", "--share", "2"),
        "elsewhere": ("bound", "--smooth", "uniform", "--share", "0.25"),
        "bound": (*BOUND, "--out", home / "bounds.csv", "--require", "max(T_part) < 1000"),
        "attack": ("attack", *QUICK, *ADDED, "--format", "json", "--out", home / "attacks.csv"),
        "table": ("attack", *QUICK, *ADDED, "--resume", "--out", home / "attacks.csv"),
        "another": ("attack", *QUICK, "--resume", "--out", home / "attacks.csv", *ADDED[:-1], "0.5"),
        "score": (
            "score",
            "--limit",
            2,
            "--quiet",
            "--metric",
            "spread",
            "--out",
            home / "scores.csv",
            "--require",
            "mean(spread) > 0",
        ),
        "exceeded": ("attack", *QUICK, "--out", home / "exceeded.csv", "--share", "0.01"),
        "gate": ("gate", home / "bounds.csv", home / "exceeded.csv", "--require", "max(T_part) < 1000"),
        "report": ("report", home / "bounds.csv", home / "attacks.csv", home / "old.csv", "-o", home / "page.html"),
        "old gate": ("gate", home / "old.csv", "--require", "max(T_e) < 1000"),
        "old resume": (*BOUND, "--resume", "--out", home / "torn.csv"),
        "old replaced": (*BOUND, "--overwrite", "--out", home / "replaced.csv"),
        "old merge": ("merge", home / "first.csv", home / "second.csv", "-o", home / "merged.csv"),
    }
    words = json.dumps([list(map(str, command)) for command in commands.values()])
    env = {**os.environ, "COLUMNS": "200", "PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE}"}
    ran = subprocess.run([sys.executable, "-c", PROGRAM, words], capture_output=True, text=True, check=False, env=env)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    return {"rows": found["rows"], **{name: Done(**one) for name, one in zip(commands, found["done"], strict=True)}}


def test_an_option_is_in_the_help_is_checked_and_is_refused_where_it_means_nothing(told):
    assert "--share" in told["help"].out
    assert "What T_part is of T_e [a share]." in told["help"].shown
    assert "--share" in told["attack help"].out
    assert "--share" not in told["short"].out
    assert "--share must be at most 1, got 2" in told["wrong value"].said
    assert "--share means nothing with --smooth" in told["elsewhere"].said


def test_an_option_is_a_keyword_and_a_part_of_a_run_s_identity(told, home):
    assert [row["T_part"] for row in told["rows"]] == [0.25 * row["T_e"] for row in told["rows"]]
    assert json.loads((home / "attacks.csv.json").read_text())["identity"]["share"] == 0.25
    assert told["another"].code != 0
    assert "share was 0.25 and is 0.5" in told["another"].said


def test_names_are_in_the_help_and_near_ones_are_suggested(told):
    for name in ("again", "largest", "halved"):
        assert name in told["attack help"].out
    assert "halved" in told["wrong name"].said


def test_the_catalogue_lists_all(told):
    found = json.loads(told["catalogue"].out)
    (entry,) = (entry for entry in found["settings"] if entry["name"] == "--share")
    assert entry["commands"] == "bound, attack"
    assert {"name": "again", "meaning": "The Euclidean attack under another name.", "reference": ""} in found["attacks"]
    assert "halved" in {entry["name"] for entry in found["attributions"]}
    assert "largest" in {entry["name"] for entry in found["metrics"]}
    assert {
        "name": "T_part",
        "meaning": PART.meaning,
        "guarantee": "first-order",
        "reference": "",
    } in found["columns"]
    assert {FLAG.name, LARGEST.name} <= {entry["name"] for entry in found["columns"]}


def test_all_is_in_rows_and_their_summary(told):
    found = json.loads(told["attack"].out)
    rows = found["rows"]
    assert {(row["attribution"], row["attack"]) for row in rows} == {("halved", "again"), ("halved", "euclidean")}
    for row, same in zip(rows[::2], rows[1::2], strict=True):
        assert row["T_hat_e"] == same["T_hat_e"]
    assert all(row["T_part"] == 0.25 * row["T_e"] for row in rows)
    assert all(0 < row["largest"] <= row["T_hat_e"] for row in rows)
    assert all(row["violated_part"] == (row["T_hat_e"] > row["T_part"] + row["T_hat_floor"]) for row in rows)
    assert found["summary"]["per_eps"][0]["T_part"]["count"] == 4
    for part in found["attacks"]:
        assert part["T_part"]["mean"] == pytest.approx(0.25 * part["T_e"]["mean"])
        assert part["T_part"]["compared"] == 2
        assert part["metrics"]["largest"] > 0
    assert told["table"].code == 0
    assert "T_part" in told["bound"].out
    assert {"T_part", "largest", "again"} <= set(told["table"].out.replace("[", " ").split())


def test_a_score_has_its_rows_its_line_and_its_rules(told, home):
    assert told["score"].code == 0, told["score"].err
    with (home / "scores.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["metric"], float(row["spread"]) > 0) for row in rows] == 2 * [("spread", True)]
    assert "spread, empirical, smaller is better: largest entry of a map" in told["score"].shown
    assert "mean(spread) > 0" in told["score"].shown


def test_a_bound_is_judged_by_rules_and_refuted_by_attacks(told):
    assert told["bound"].code == 0, told["bound"].err
    assert told["gate"].code == 1
    assert "attacks exceeded T_part on 2 of 2 samples" in told["gate"].shown
    assert "T_part: first-order" in told["gate"].shown


def test_the_page_shows_all(told, home):
    assert told["report"].code == 0, told["report"].err
    page = (home / "page.html").read_text()
    for said in (PART.meaning, "part of the bound", "bound T_part", "largest", "again", "halved"):
        assert said in page


def test_files_from_before_are_judged_resumed_replaced_and_joined(told, home):
    assert told["old gate"].code == 0, told["old gate"].err
    resumed = [line.split(",") for line in (home / "torn.csv").read_text().splitlines()]
    assert told["old resume"].code == 0, told["old resume"].err
    place = resumed[0].index("T_part")
    assert [line[place] == "" for line in resumed[1:]] == [True, False]
    old = [line.split(",") for line in (home / "old.csv").read_text().splitlines()]
    assert resumed[1][:place] == old[1][:place]
    assert told["old replaced"].code == 0, told["old replaced"].err
    assert "T_part" in (home / "replaced.csv").read_text().partition("\n")[0]
    assert told["old merge"].code == 0, told["old merge"].err
    assert len((home / "merged.csv").read_text().splitlines()) == 3
