"""Damaged files are gone on with or refused with what to do; nothing else happens, and what is refused stays as it was."""

import json
import os
import random
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reference.canned import Runs, canned_runs

from attrcert import AttackConfig
from attrcert.errors import ResumeError, UsageError
from attrcert.reporting.gating.gates import read_gate
from attrcert.reporting.gating.promises import broken
from attrcert.reporting.summaries.bounds import summarise
from attrcert.reporting.summaries.overviews import overview
from attrcert.saved.array_files import Arrays
from attrcert.saved.deltas import DeltaFile
from attrcert.saved.runfiles import read_table

CONFIG = AttackConfig(attack=("euclidean", "cosine"), steps=1, restarts=0, random_draws=2)
SAMPLES = 3
NUMBERS = (
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"9" * 5000,
    b"0x10",
    b"1_0",
    b" 3",
    b"True",
    b"-0.0",
    b"1e308",
    b"5e-324",
)
WORDS = (
    b"",
    b"\x00",
    b'"',
    b'""',
    b"ok",
    b"error:",
    b"\xff\xfe",
    "\u0663".encode(),
    b"first-order",
    b"x" * 200_000,
    b"\r",
    b"=1+1",
)
VALUES = (None, True, 0, -1, 10**30, 1.5, "", "x", [], {}, [[1]], {"a": []}, "\ud800", 1e308)


@pytest.fixture(autouse=True)
def no_power_cut(monkeypatch):
    """Which takes its time to be safe from."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def runs() -> Runs:
    return canned_runs(CONFIG, SAMPLES)


@pytest.fixture(scope="module")
def begun(runs, tmp_path_factory) -> Path:
    """Two of three samples, as a kill leaves them."""
    home = tmp_path_factory.mktemp("begun")

    class Killed(BaseException):
        pass

    def engine(run: Any, order: Any) -> Any:
        found = runs.engine(run, order)
        yield next(found)
        yield next(found)
        raise Killed

    engine.workers = 1  # type: ignore[attr-defined]
    with pytest.raises(Killed):
        Runs(runs.run, engine)(home)  # type: ignore[arg-type]
    return home


def flipped(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]


def truncated(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def inserted(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + chance.choice((*WORDS, *NUMBERS, b",", b"\n", b"\x00" * 64)) + content[place:]


def dropped(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + content[place + chance.randrange(1, 100) :]


def doubled_line(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines, chance.choice(lines)])


def shuffled_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def other_cell(content: bytes, chance: random.Random) -> bytes:
    cells = re.split(rb"([,\n])", content)
    cells[2 * chance.randrange(len(cells) // 2)] = chance.choice(WORDS + NUMBERS)
    return b"".join(cells)


def other_value(content: bytes, chance: random.Random) -> bytes:
    """A value of a manifest's, at any depth, is another or gone."""
    whole = json.loads(content)
    part = whole if chance.random() < 0.6 else chance.choice([v for v in whole.values() if isinstance(v, dict) and v])
    key = chance.choice(list(part))
    if chance.random() < 0.3:
        del part[key]
    else:
        part[key] = chance.choice(VALUES)
    return json.dumps(whole).encode()


def other_json(content: bytes, chance: random.Random) -> bytes:
    return chance.choice(
        (
            b"[" * 100_000,
            b'{"a":' * 50_000,
            b"[]",
            b"3",
            b"null",
            b"",
            b'"\xff"',
            b"\xef\xbb\xbf{}",
            b"NaN",
            b"9" * 9999,
        )
    )


TEXT = (flipped, truncated, inserted, dropped, doubled_line, shuffled_lines, other_cell, other_cell, other_cell)
JSON = (flipped, truncated, inserted, dropped, other_value, other_value, other_value, other_json)
BINARY = (flipped, truncated, inserted, dropped)


def content(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def part_of(home: Path) -> str:
    return str(sorted(home.glob("x.safetensors.parts/*"))[0].relative_to(home))


@pytest.mark.parametrize(
    ("name", "changes", "times"), [("x.csv", TEXT, 180), ("x.csv.json", JSON, 180), ("part", BINARY, 60)]
)
def test_a_damaged_file_is_gone_on_with_or_refused_and_then_left_as_it_was(
    runs, begun, tmp_path, name, changes: tuple[Callable, ...], times
):
    chance = random.Random(zlib.crc32(name.encode()))
    outcomes = {"gone on": 0, "refused": 0}
    for number in range(times):
        home = shutil.copytree(begun, tmp_path / str(number))
        damaged = home / (part_of(home) if name == "part" else name)
        change = changes[number % len(changes)]
        damaged.write_bytes(change(damaged.read_bytes(), chance))
        before = content(home)
        try:
            rows = runs(home, resume=True)
        except ResumeError as error:
            refused = error
        else:
            refused = None
        if refused:
            assert refused.hint
            assert content(home) == before, (number, change)
            outcomes["refused"] += 1
        else:
            assert len(rows) == SAMPLES * len(CONFIG.cases), (number, change)
            overview("attack", rows, summarise(rows, {}))
            broken(rows)
            outcomes["gone on"] += 1
        shutil.rmtree(home)
    assert min(outcomes.values()) > 5


@pytest.mark.parametrize(("name", "changes"), [("x.csv", TEXT), ("x.csv.json", JSON)])
def test_a_damaged_file_is_read_or_refused_by_what_judges_it(begun, tmp_path, name, changes):
    chance = random.Random(zlib.crc32(name.encode()))
    home = shutil.copytree(begun, tmp_path / "home")
    whole = (home / name).read_bytes()
    refused = 0
    for number in range(150):
        (home / name).write_bytes(changes[number % len(changes)](whole, chance))
        try:
            read_table(home / "x.csv")
        except UsageError:
            refused += 1
    assert 5 < refused < 150


RULES = b"""# what a release must keep, and why; people write a line or two here
[gate]
min_samples = 1
max_incomplete = 0.5
allow_refuted = true
require = [{rule = "p95(T_c_deg[eps=0.1]) <= 15", name = "stable", reason = "shown"}, "fraction(status == vacuous) <= 1%"]
max_regression = ["mean(T_c_deg) 5%"]
waive = [{index = 3, reason = "mislabelled"}]
"""


@pytest.mark.parametrize("change", [flipped, inserted, dropped])
def test_a_damaged_configuration_of_a_gate_is_read_or_refused(tmp_path, change):
    chance, path = random.Random(zlib.crc32(change.__name__.encode())), tmp_path / "attrcert.toml"
    path.write_bytes(RULES)
    assert read_gate(path)["min_samples"] == 1
    refused = 0
    for _ in range(150):
        path.write_bytes(change(RULES, chance))
        try:
            read_gate(path)
        except UsageError:
            refused += 1
    assert 0 < refused < 150


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (read_gate, read_table, lambda path: Arrays(path, "deltas")):
        with pytest.raises(UsageError, match="it is no"):
            read(pipe)
    (tmp_path / "d.safetensors.parts").mkdir()
    os.mkfifo(tmp_path / "d.safetensors.parts" / "x.safetensors")
    with pytest.raises(UsageError, match=r"d\.safetensors\.parts"):
        DeltaFile(tmp_path / "d.safetensors", resume=True, overwrite=False)
