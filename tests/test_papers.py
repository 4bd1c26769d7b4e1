"""The catalogue of the papers: every command in it can be typed, every module is there, and none that cites them is left out."""

import ast
import json
import re
import shlex
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from reference.program import attrcert as typed

import attrcert
from attrcert.cli.app import OFFERED
from attrcert.cli.options import Asked
from attrcert.errors import UsageError
from attrcert.papers import ITEMS, entries
from attrcert.references import PAPERS
from attrcert.settings.commands import COMMANDS
from attrcert.settings.output import Campaigning

PACKAGE = Path(attrcert.__file__).parent
KEY = re.compile(rf"\[({'|'.join(ITEMS)})\b")
ENTRIES = entries()
SAID = list(dict.fromkeys(entry["command"] for entry in ENTRIES if entry["command"]))


def heard(words: list[str]) -> Asked:
    """What a command's body is told."""
    told: list[Asked] = []
    offered = next(one for one in OFFERED if one.name == words[0])
    replace(offered, body=told.append).made()(words[1:], standalone_mode=False)
    return told[0]


@pytest.mark.parametrize("command", SAID)
def test_every_command_can_be_typed(command):
    program, *words = shlex.split(command)
    assert program == "attrcert"
    asked = heard(words)
    known = COMMANDS[asked.command]
    for part in known.others:
        asked.part(part)
    if known.tasks and "smoothgrad_lipschitz" not in asked.given:
        asked.task(asked.part(Campaigning).meant if asked.command == "attack" else None)


def test_a_command_that_is_stale_would_be_seen():
    for stale in ("attrcert attack --preset wang-kong", "attrcert bound --linf-method best --norm linf"):
        with pytest.raises(UsageError, match=r"wang-kong|best"):
            test_every_command_can_be_typed(stale)


@pytest.mark.parametrize("module", sorted({entry["module"] for entry in ENTRIES} - {""}))
def test_every_module_is_there(module):
    assert find_spec(module)


def test_what_shows_a_thing_is_named_wherever_the_thing_is_there():
    assert [entry["name"] for entry in ENTRIES if entry["module"] and not entry["command"]] == []


def test_no_module_whose_claim_is_a_papers_is_left_out():
    named = {(entry["paper"], entry["module"]) for entry in ENTRIES}
    cited = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        claim = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
        cited |= {(key, module) for key in KEY.findall(claim) if not module.startswith("attrcert.linalg")}
    assert len(cited) > 15
    assert cited <= named


def test_each_paper_is_the_one_that_its_key_stands_for():
    for key in ITEMS:
        text = ast.get_docstring(ast.parse((PACKAGE / "papers" / f"{key}.py").read_text()))
        assert PAPERS[key].title in text


def test_the_command_lists_every_item_with_its_module_and_its_command_on_a_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    done = typed("catalogue", "papers")
    assert done.code == 0, done.err
    lines = {line.strip() for line in done.out.splitlines()}
    for entry in ENTRIES:
        assert (entry["module"] or "not in attrcert") in lines
        assert not entry["command"] or f"$ {entry['command']}" in lines
        assert " ".join(f"Corrected: {entry['corrected']}".split()) in done.shown or not entry["corrected"]
        assert f"{entry['name']}, {entry['sort']}: {entry['meaning']}" in done.shown


def test_one_paper_alone_and_as_json():
    found = json.loads(typed("catalogue", "papers", "--paper", "joo2023towards", "--json").out)["papers"]
    assert found == [entry for entry in ENTRIES if entry["paper"] == "joo2023towards"]
    done = typed("catalogue", "models", "--paper", "joo2023towards")
    assert done.code == 2
    assert "attrcert catalogue papers" in done.err
