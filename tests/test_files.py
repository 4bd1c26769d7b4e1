"""Files are written whole or not at all, by one writer at a time, and never into what is no file."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from reference.program import attrcert
from safetensors.torch import save_file

from attrcert.errors import FileError, UsageError
from attrcert.saved import files, locks
from attrcert.saved.files import (
    append,
    check_target,
    make_folder,
    remove,
    remove_folder,
    write_bytes,
    write_text,
    write_whole,
)
from attrcert.saved.locks import Lock


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/full")


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def link(path: Path) -> None:
    path.with_name("mine.txt").write_text("mine")
    path.symlink_to(path.with_name("mine.txt"))


NO_FILES = {
    "a pipe": pipe,
    "a link": link,
    "a dangling link": dangling,
    "a link to a device": device,
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("made", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_refused_and_left_alone(tmp_path, made):
    path = tmp_path / "out.csv"
    made(path)
    before = os.lstat(path)
    with pytest.raises(UsageError, match="must be a file or not be there yet, and it is"):
        write_text(path, "ours")
    assert os.lstat(path) == before
    assert not (tmp_path / "mine.txt").exists() or (tmp_path / "mine.txt").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_device_is_named_as_one():
    with pytest.raises(UsageError, match=r"/dev/full .* a device"):
        check_target(Path("/dev/full"))


WRITERS = {
    "--out": ("bound", "--limit", 1, "--quiet", "--out"),
    "--out --overwrite": ("bound", "--limit", 1, "--quiet", "--overwrite", "--out"),
    "--out --resume": ("bound", "--limit", 1, "--quiet", "--resume", "--out"),
    "--save-deltas": ("attack", "--limit", 1, "--quiet", "--save-deltas"),
    "report": ("report", "x.csv", "-o"),
    "report --plots": ("report", "x.csv", "-o", "r.html", "--plots"),
    "merge": ("merge", "x.csv", "-o"),
    "gate --junit": ("gate", "x.csv", "--require", "mean(T_e) >= 1e-9", "--junit"),
    "smooth": ("smooth", "--limit", 1, "--samples", 50, "--out"),
    "smooth --png": ("smooth", "--limit", 1, "--samples", 50, "--out", "m.npz", "--png"),
}
ENDINGS = {"--save-deltas": ".safetensors", "smooth": ".npz"}


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("computed") / "x.csv"
    assert attrcert("bound", "--limit", 2, "--quiet", "--out", out).code == 0
    return out


@pytest.fixture
def here(computed, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path in (computed, Path(f"{computed}.json")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize("name", WRITERS)
def test_a_command_refuses_a_pipe_at_once_instead_of_waiting_for_its_other_end(here, name):
    target = here / f"pipe{ENDINGS.get(name, '')}"
    os.mkfifo(target)
    done = attrcert(*WRITERS[name], target)
    assert done.code == 2
    assert target.name in done.said


@pytest.mark.parametrize("name", WRITERS)
def test_a_name_that_is_too_long_is_an_error_of_the_file(here, name):
    done = attrcert(*WRITERS[name], f"{'x' * 300}{ENDINGS.get(name, '')}")
    assert done.code == 74
    assert "File name too long" in done.said


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("--out --resume", "--out --overwrite")])
def test_a_disk_that_is_full_is_an_error_of_the_file_that_leaves_nothing(here, name, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = {path.name: path.read_bytes() for path in here.iterdir()}
    monkeypatch.setattr(files, "write_all", full)
    monkeypatch.setattr(locks, "write_all", full)
    monkeypatch.setattr(files, "_create", full)
    done = attrcert(*WRITERS[name], f"out{ENDINGS.get(name, '')}")
    assert done.code == 74
    assert "No space left on device" in done.said
    assert before == {path.name: path.read_bytes() for path in here.iterdir() if path.is_file()}


def test_a_name_that_only_the_files_beside_it_would_make_too_long_is_one(tmp_path):
    out = tmp_path / f"{'x' * 240}.csv"
    assert attrcert("bound", "--limit", 1, "--quiet", "--out", out).code == 0
    assert attrcert("bound", "--limit", 1, "--quiet", "--out", out, "--overwrite").code == 0
    assert attrcert("merge", out, "-o", tmp_path / f"{'y' * 240}.csv").code == 0
    assert attrcert("bound", "--limit", 1, "--quiet", "--out", out, "--overwrite", "--save-jacobian", 0).code == 74


# written whole


def test_nothing_of_a_name_that_can_be_guessed_is_touched_on_the_way(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    for ending in (".part", ".part.npz", ".tmp"):
        (tmp_path / f"v.csv{ending}").symlink_to(mine)
    write_text(tmp_path / "v.csv", "ours")
    assert (mine.read_text(), (tmp_path / "v.csv").read_text()) == ("mine", "ours")


def test_a_part_that_is_there_already_is_not_written_into(tmp_path, monkeypatch):
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "same")
    part = tmp_path / f"{files.part_prefix(tmp_path / 'v.csv')}same{files.PART}"
    (tmp_path / "mine.txt").write_text("mine")
    part.symlink_to(tmp_path / "mine.txt")
    with pytest.raises(FileError, match="File exists"):
        write_text(tmp_path / "v.csv", "ours")
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("error", [OSError(errno.EDQUOT, "Disk quota exceeded"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_no_part_of_the_new_one(tmp_path, error):
    path = tmp_path / "v.csv"
    path.write_text("old")

    def fail(part: Path) -> None:
        part.write_text("half of the n")
        raise error

    with pytest.raises((FileError, KeyboardInterrupt)):
        write_whole(path, fail)
    assert (names(tmp_path), path.read_text()) == (["v.csv"], "old")


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_file_gets_the_rights_of_any_new_file(tmp_path, mask):
    before = os.umask(mask)
    write_text(tmp_path / "v.csv", "rows")
    write_whole(tmp_path / "d.safetensors", lambda part: save_file({"a": torch.ones(2)}, part))
    os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o666 & ~mask}


def test_a_file_and_its_folder_are_on_the_disk_before_writing_ends(tmp_path, monkeypatch):
    steps = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *words, name=name, real=real: (steps.append((name, words)), real(*words))[1]
        )
    write_text(tmp_path / "v.csv", "rows")
    assert [name for name, _ in steps] == ["fsync", "replace", "fsync"]


def test_what_safetensors_says_of_a_full_disk_is_told_in_the_systems_words(tmp_path):
    path = tmp_path / "gone"
    path.mkdir()

    def save(part: Path) -> None:
        part.unlink()
        path.rmdir()
        save_file({"a": torch.ones(2)}, part)

    with pytest.raises(FileError) as caught:
        write_whole(path / "d.safetensors", save)
    assert caught.value.message.endswith("d.safetensors cannot be written: No such file or directory")


def test_what_follows_a_failed_append_is_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "v.csv"
    path.write_bytes(b"rows\n")
    real = os.write

    def half(target: int, content: bytes) -> int:
        if len(content) > 2:
            return real(target, content[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(FileError, match="No space left on device"):
        append(path, b"1234\n", size=5)
    assert path.read_bytes() == b"rows\n"


def test_an_append_behind_what_somebody_else_wrote_is_refused(tmp_path):
    path = tmp_path / "v.csv"
    path.write_bytes(b"rows\nof others\n")
    with pytest.raises(FileError, match="15 bytes and not the 5 of this run: something else writes into it"):
        append(path, b"more\n", size=5)
    assert path.read_bytes() == b"rows\nof others\n"


def test_folders_are_made_and_removed_or_the_reason_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="must be a folder"):
        make_folder(tmp_path / "file")
    with pytest.raises(FileError, match="Not a directory"):
        make_folder(tmp_path / "file" / "below")
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "file").write_text("")
    remove_folder(tmp_path / "a" / "b")
    remove_folder(tmp_path / "a" / "b")
    remove(tmp_path / "a" / "gone")
    assert names(tmp_path / "a") == []
    with pytest.raises(FileError, match="cannot be removed"):
        remove(tmp_path / "a")


# one writer

HOLD = """
import sys, time
from pathlib import Path
from attrcert.saved.locks import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that writes the file."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "v.csv")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path, holder):
    with pytest.raises(FileError) as caught:
        Lock(tmp_path / "v.csv")
    assert f"v.csv is being written by process {holder.pid} on {os.uname().nodename} since 20" in caught.value.message
    assert caught.value.exit_code == 74
    Lock(tmp_path / "other.csv").close()


@pytest.mark.parametrize("words", [("bound", "--limit", 1, "--quiet"), ("smooth", "--limit", 1, "--samples", 50)])
def test_a_command_that_is_not_the_first_writes_nothing(tmp_path, words):
    out = tmp_path / ("v.npz" if words[0] == "smooth" else "v.csv")
    with Lock(out):
        done = attrcert(*words, "--out", out)
    assert done.code == 74
    assert f"is being written by this process {os.getpid()}" in done.said
    assert names(tmp_path) == []


def test_runs_that_keep_perturbations_in_one_file_exclude_each_other(tmp_path):
    with Lock(tmp_path / "d.safetensors"):
        done = attrcert(
            "attack", "--limit", 1, "--quiet", "--out", tmp_path / "v.csv", "--save-deltas", tmp_path / "d.safetensors"
        )
    assert done.code == 74
    assert names(tmp_path) == []


def test_a_killed_writer_holds_nothing_and_its_parts_are_cleared(tmp_path, holder):
    (tmp_path / f"{files.part_prefix(tmp_path / 'v.csv')}0123{files.PART}").write_text("half")
    (tmp_path / f"{files.part_prefix(tmp_path / 'w.csv')}0123{files.PART}").write_text("of another file")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert ".v.csv.lock" in names(tmp_path)
    with Lock(tmp_path / "v.csv"):
        assert str(os.getpid()) in (tmp_path / ".v.csv.lock").read_text()
        assert len(names(tmp_path)) == 2
    assert not (tmp_path / ".v.csv.lock").exists()


def test_a_lock_that_was_removed_before_it_was_taken_is_taken_again(tmp_path, monkeypatch):
    """The one who had it removed the file between our opening and our locking it."""
    real, removed = locks.fcntl.flock, []

    def flock(target: int, how: int) -> None:
        if not removed:
            removed.append(os.fstat(target).st_ino)
            (tmp_path / ".v.csv.lock").unlink()
        real(target, how)

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    with Lock(tmp_path / "v.csv"), pytest.raises(FileError, match="is being written"):
        Lock(tmp_path / "v.csv")
    assert removed


def test_a_lock_that_nobody_refers_to_is_given_back(tmp_path):
    Lock(tmp_path / "v.csv")
    assert names(tmp_path) == []


def test_a_drive_without_locks_is_written_to_and_that_is_told(tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", none)
    done = attrcert("bound", "--limit", 1, "--out", tmp_path / "v.csv")
    assert done.code == 0, done.err
    assert "has no locks (No locks available): make sure that no other run writes v.csv" in done.said


def test_a_system_without_locks_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "fcntl", None)
    with Lock(tmp_path / "v.csv") as lock:
        assert lock.notes == []


def test_a_folder_that_may_not_be_written_into_is_told_before_anything_is_computed(tmp_path, monkeypatch):
    real = os.open

    def forbidden(path, flags, *rest, **options):
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", forbidden)
    done = attrcert("bound", "--limit", 1, "--quiet", "--out", tmp_path / "v.csv")
    assert (done.code, "Permission denied" in done.said) == (74, True)


# what is replaced


def test_maps_of_others_are_not_overwritten_and_own_ones_are(tmp_path):
    words = ("smooth", "--limit", 1, "--samples", 50, "--overwrite", "--out")
    np.savez(tmp_path / "data.npz", images=np.zeros(3))
    done = attrcert(*words, tmp_path / "data.npz")
    assert done.code == 2
    assert "is not a file of maps that attrcert wrote" in done.said
    assert np.load(tmp_path / "data.npz").files == ["images"]
    assert attrcert(*words, tmp_path / "maps.npz").code == 0
    assert attrcert(*words, tmp_path / "maps.npz").code == 0
    assert names(tmp_path) == ["data.npz", "maps.npz"]


def test_a_folder_of_others_is_not_taken_for_parts(tmp_path):
    (tmp_path / "d.safetensors.parts").mkdir()
    (tmp_path / "d.safetensors.parts" / "thesis.tex").write_text("mine")
    done = attrcert("attack", "--limit", 1, "--quiet", "--save-deltas", tmp_path / "d.safetensors", "--overwrite")
    assert done.code == 2
    assert (tmp_path / "d.safetensors.parts" / "thesis.tex").read_text() == "mine"


def test_jacobians_of_others_are_neither_replaced_nor_removed(tmp_path):
    beside = tmp_path / "v.csv.jacobians.safetensors"
    save_file({"weight": torch.ones(3)}, beside)
    before = beside.read_bytes()
    for words in (("--save-jacobian", 0), ("--overwrite",), ("--save-jacobian", 0, "--overwrite")):
        assert attrcert("bound", "--limit", 1, "--quiet", "--out", tmp_path / "v.csv", *words).code == 2
        assert beside.read_bytes() == before
    assert names(tmp_path) == [beside.name]


def test_bytes_are_written_as_they_are(tmp_path):
    write_bytes(tmp_path / "v", b"\x00\xff\r\n")
    assert (tmp_path / "v").read_bytes() == b"\x00\xff\r\n"
