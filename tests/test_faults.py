"""Whatever step of writing fails or is the last before a kill, the same command with --resume ends with the undisturbed result."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from reference.canned import Runs, canned_runs
from safetensors.torch import load_file

from attrcert import AttackConfig
from attrcert.errors import AttrcertError, FileError, ResumeError
from attrcert.saved import array_files

STEPS = ("open", "write", "fsync", "replace", "unlink", "chmod", "ftruncate", "rmdir", "listdir", "save")
CONFIG = AttackConfig(attack=("euclidean", "cosine"), eps=(0.1,), steps=1, restarts=0, random_draws=2)
SAMPLES = 2


class Killed(BaseException):
    """Nothing runs after this."""


@dataclass
class System:
    """The operating system, whose step number `at` fails, or is where the process is killed."""

    at: int | None = None
    kill: bool = False
    taken: int = 0
    log: list[str] = field(default_factory=list)
    files: set[int] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.step(name, real) if name in STEPS else real

    def step(self, name: str, real: Callable) -> Callable:
        def taken(*words: Any, **options: Any) -> Any:
            here = self.taken == self.at
            self.taken += 1
            self.log.append(name)
            if here and name == "write":  # a line is torn
                real(words[0], words[1][: len(words[1]) // 2])
            if here or (self.kill and self.at is not None and self.taken > self.at):
                raise Killed if self.kill else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if name == "fsync":  # no power cut here, and it takes its time
                return None
            done = real(*words, **options)
            if name == "open":
                self.files.add(done)
            return done

        return taken

    def close(self, number: int) -> None:
        self.files.discard(number)
        os.close(number)

    def end(self) -> None:
        """What the kernel does for a process that is gone: its files are closed, and its locks given back."""
        for number in self.files:
            os.close(number)


def disturbed(runs: Runs, home: Path, system: System, **how: bool) -> BaseException | None:
    """What ended the run, if it did not end by itself."""
    with pytest.MonkeyPatch.context() as patched:
        for module in ("files", "locks"):
            patched.setattr(f"attrcert.saved.{module}.os", system)
        patched.setattr(array_files, "save_file", system.step("save", array_files.save_file))
        try:
            runs(home, **how)
        except (AttrcertError, Killed) as error:
            return error
        finally:
            system.end()
    return None


@pytest.fixture(scope="module")
def runs() -> Runs:
    return canned_runs(CONFIG, SAMPLES)


@pytest.fixture(scope="module")
def undisturbed(runs, tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("undisturbed")
    runs(home)
    return home


def assert_whole(home: Path, undisturbed: Path) -> None:
    assert {path.name for path in home.iterdir()} == {"x.csv", "x.csv.json", "x.safetensors"}
    assert (home / "x.csv").read_bytes() == (undisturbed / "x.csv").read_bytes()
    ours, theirs = load_file(home / "x.safetensors"), load_file(undisturbed / "x.safetensors")
    assert ours.keys() == theirs.keys()
    manifest = json.loads((home / "x.csv.json").read_text())
    assert (manifest["state"], manifest["rows"]) == ("complete", SAMPLES * len(CONFIG.cases))
    assert manifest["rows_sha256"] == sha256((home / "x.csv").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def begun(runs, tmp_path_factory) -> dict[str, Path]:
    """What may be there: nothing, a run that was killed in a line of its second sample, and a whole one with another seed."""
    homes = {name: tmp_path_factory.mktemp(name) for name in ("new", "resumed", "overwriting")}
    seen = System()
    assert disturbed(runs, tmp_path_factory.mktemp("seen"), seen) is None
    last_but_one = [place for place, step in enumerate(seen.log) if step == "write"][-2]  # then comes the manifest
    assert isinstance(disturbed(runs, homes["resumed"], System(last_but_one, kill=True)), Killed)
    other = replace(runs, run=replace(runs.run, work=replace(runs.run.work, config=replace(CONFIG, seed=1))))
    assert disturbed(other, homes["overwriting"], System()) is None
    return homes


def content(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.rglob("*") if path.is_file() and not path.match(".*")}


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "disk full"])
@pytest.mark.parametrize(
    ("state", "how"),
    [("new", {}), ("resumed", {"resume": True}), ("overwriting", {"overwrite": True})],
    ids=["new", "resumed", "overwriting"],
)
def test_a_run_that_ends_at_any_step_of_writing_is_resumed_to_the_undisturbed_result(
    runs, undisturbed, begun, tmp_path, state, how, kill
):
    there, counted = content(begun[state]), System()
    home = shutil.copytree(begun[state], tmp_path / "first")
    assert disturbed(runs, home, counted, **how) is None
    assert_whole(home, undisturbed)
    assert counted.taken > 50
    for at in range(counted.taken):
        home = shutil.copytree(begun[state], tmp_path / str(at))
        ended = disturbed(runs, home, System(at, kill=kill), **how)
        if not kill and ended is not None:
            assert isinstance(ended, FileError), (at, counted.log[at], ended)
            assert "No space left on device" in ended.message
        again = {"resume": True}
        if state == "overwriting" and (home / "x.csv.json").read_bytes() == there["x.csv.json"]:
            refused = disturbed(runs, home, System(), **again)  # nothing was replaced yet
            assert isinstance(refused, ResumeError)
            assert "seed was 1 and is 0" in refused.message
            assert content(home) == there
            again = {"overwrite": True}
        assert disturbed(runs, home, System(), **again) is None, (at, counted.log[at])
        assert_whole(home, undisturbed)
