"""1 is a verdict: whatever goes wrong ends with another code, in two lines, and results that are lost are never a success."""

import errno
import io
import multiprocessing
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from reference.program import Done, attrcert
from safetensors import SafetensorError
from safetensors.torch import save_file

from attrcert.cli.app import main
from attrcert.errors import UNEXPECTED, FileError, OutOfMemoryError, UnexpectedError, told
from attrcert.running.engines.engine import Worker
from attrcert.running.engines.local_workers import ProcessHand

FILES = FileError.exit_code
FAILING = ("--require", "max(T_e) <= 0")


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    assert attrcert("bound", "--limit", 2, "--quiet", "--out", path).code == 0
    return path


@pytest.fixture
def failing_gate(rows, tmp_path, monkeypatch) -> Callable[..., Done]:
    """`attrcert gate` with a rule that fails, or an error at that place; files of this test alone are in the temporary folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(*words: object, error: BaseException | None = None) -> Done:
        def judge(*_: object) -> None:
            assert error is not None
            raise error

        with pytest.MonkeyPatch.context() as patched:
            if error is not None:
                patched.setattr("attrcert.reporting.gating.gates.judge_files", judge)
            return attrcert("gate", rows, *FAILING, *words)

    return run


def broken(words: tuple[object, ...], *, out: io.StringIO | None = None, err: io.StringIO | None = None) -> Done:
    """The program with streams of one's own."""
    out, err = out or io.StringIO(), err or io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "argv", ["attrcert", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


class Full(io.StringIO):
    """A file on a full disk, which says so at the first write or only when it is flushed."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    def write(self, text: str) -> int:
        if self.at == "write":
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)

    def flush(self) -> None:
        if self.tell() or self.at == "write":
            raise OSError(errno.ENOSPC, "No space left on device")


# what is not expected


def test_a_mistake_of_ours_is_one_line_and_a_traceback_that_only_its_owner_reads(failing_gate, tmp_path):
    done = failing_gate(error=RuntimeError("a mistake\nof our \x1b[31mown"))
    assert done.code == UNEXPECTED
    assert done.err.splitlines()[0] == "error: something went wrong that should not: RuntimeError: a mistake"
    assert "Traceback" not in done.err
    (kept,) = tmp_path.glob("attrcert-*.txt")
    assert f"the traceback in {kept}" in done.err
    assert kept.stat().st_mode & 0o777 == 0o600
    text = kept.read_text()
    assert "attrcert gate" in text
    assert "in judge\n" in text
    assert "RuntimeError: a mistake\nof our" in text


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_traceback_is_shown_where_it_is_asked_for(rows, tmp_path, monkeypatch, place):
    def judge(*_: object) -> None:
        raise RuntimeError("a mistake\n\x1b[31mof our own")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("attrcert.reporting.gating.gates.judge_files", judge)
    words: list[object] = ["gate", rows, *FAILING]
    words.insert(place, "--traceback")
    done = attrcert(*words)
    assert done.code == UNEXPECTED
    assert "Traceback (most recent call last)" in done.err
    assert "\\x1b[31mof our own" in done.err
    assert list(tmp_path.glob("attrcert-*")) == []


def test_a_traceback_of_wrong_usage_is_shown_too(rows):
    done = attrcert("gate", rows, "--format", "xml", "--traceback")
    assert done.code == 2
    assert "in gate" in done.err


def test_what_follows_two_dashes_is_a_file():
    done = attrcert("gate", *FAILING, "--", "--traceback")
    assert done.code == 2
    assert "--traceback cannot be read" in done.shown


def test_a_traceback_is_shown_where_no_file_can_be_written(failing_gate, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    done = failing_gate(error=RuntimeError("a mistake"))
    assert done.code == UNEXPECTED
    assert "Traceback" in done.err
    assert "with the traceback above" in done.err


def test_the_exit_code_is_right_although_nothing_can_be_said(failing_gate, monkeypatch):
    def talk(*_: object, **__: object) -> None:
        raise ValueError("Rich is broken")

    monkeypatch.setattr("attrcert.cli.endings.talk", talk)
    done = failing_gate(error=OSError(errno.EIO, "I/O error"))
    assert done.code == FILES
    assert "I/O error" in done.err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x\x1b.csv"), FILES, r"x\x1b.csv cannot be read or written: No space"),
        (OSError(errno.EIO, "Input/output error"), FILES, "a file cannot be read or written: Input/output error"),
        (PermissionError(errno.EACCES, "Permission denied", b"\xff"), FILES, r"\udcff cannot be read or written"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), FILES, "Broken pipe"),
        (EOFError("Ran out of input"), UNEXPECTED, "EOFError: Ran out of input"),
        (SystemExit(1), UNEXPECTED, "SystemExit: 1"),
        (RecursionError(), UNEXPECTED, "should not: RecursionError"),
        (UnicodeEncodeError("utf-8", "\udc80", 0, 1, "surrogates not allowed"), UNEXPECTED, "UnicodeEncodeError"),
        (MemoryError(), OutOfMemoryError.exit_code, "memory ran out"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 4, "memory ran out"),
        (KeyboardInterrupt(), 130, ""),
    ],
)  # fmt: skip
def test_every_accident_has_a_code_that_is_no_verdict(failing_gate, error, code, said):
    done = failing_gate(error=error)
    assert done.code == code
    assert said in done.err
    assert "Traceback" not in done.err


def test_an_error_of_the_system_that_safetensors_puts_into_words_is_one_of_files(tmp_path):
    with pytest.raises(SafetensorError) as raised:
        save_file({"x": torch.zeros(9)}, tmp_path / "none" / "x.safetensors")
    error = told(raised.value)
    assert error.exit_code == FILES
    assert error.message == "a file cannot be read or written: No such file or directory"


# stdout and stderr


@pytest.mark.parametrize("at", ["write", "flush"])
@pytest.mark.parametrize("shape", ["table", "json", "markdown"])
def test_results_that_cannot_be_written_are_an_error_and_come_before_the_verdict(rows, at, shape):
    done = broken(("gate", rows, *FAILING, "--format", shape), out=Full(at))
    assert done.code == FILES
    assert done.err == "error: stdout cannot be written: No space left on device\n"


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("gate", "--help")])
def test_help_that_cannot_be_written_is_an_error_too(words):
    assert broken(words, out=Full("flush")).code == FILES


def test_talk_that_cannot_be_written_changes_no_exit_code(rows, tmp_path):
    words = ("bound", "--limit", 1, "--out", tmp_path / "out.csv")
    assert broken(words, err=Full("write")).code == 0
    assert broken(words, err=Full("write")).code == 2
    assert broken(("gate", rows, *FAILING), err=Full("write")).code == 1


def test_the_streams_are_afterwards_what_they_were():
    before = sys.stdout, sys.stderr
    attrcert("--version")
    assert (sys.stdout, sys.stderr) == before


def gate_in_a_shell(rows: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    command = f'"$0" -m attrcert gate "$1" --require "max(T_e) <= 0" {redirection}'
    return subprocess.run(["bash", "-c", command, sys.executable, rows], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("> /dev/full", FILES, "error: stdout cannot be written: No space left on device\n"),
        (">&-", FILES, "error: stdout cannot be written: Bad file descriptor\n"),
        ("> /dev/full 2>&1", FILES, ""),
        (">&- 2>&-", FILES, ""),
        ("2> /dev/full", 1, ""),
    ],
)
def test_a_shell_sees_that_results_were_lost(rows, redirection, code, said):
    done = gate_in_a_shell(rows, redirection)
    assert (done.returncode, done.stderr) == (code, said)


def test_a_reader_that_has_gone_ends_the_program_quietly(rows):
    done = gate_in_a_shell(rows, "| exec 0<&-; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_worker_whose_line_broke_does_not_end_the_program():
    attrcert("--version")
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN
    ProcessHand(multiprocessing.Process(), ours).give((1, 2))


# reports beside stdout


@pytest.mark.parametrize("how", ["--junit", "GITHUB_STEP_SUMMARY"])
def test_a_report_that_cannot_be_written_is_an_error_and_comes_before_the_verdict(rows, tmp_path, monkeypatch, how):
    path = tmp_path / ("x" * 300)  # never a device: whoever replaces a file whole would replace that
    words: tuple[object, ...] = ("--junit", path)
    if how != "--junit":
        monkeypatch.setenv(how, str(path))
        words = ()
    done = attrcert("gate", rows, *FAILING, *words)
    assert done.code == FILES
    assert f"{path} cannot be written: File name too long" in done.err


def test_too_long_a_name_is_an_error_of_files(tmp_path):
    done = attrcert("bound", "--limit", 1, "--out", tmp_path / ("x" * 300))
    assert done.code == FILES
    assert "File name too long" in done.err


# workers


def test_what_goes_wrong_in_a_worker_keeps_its_kind_and_its_traceback(monkeypatch):
    def opened(*_: object) -> None:
        raise RuntimeError("a mistake in a worker")

    monkeypatch.setattr("attrcert.running.engines.engine.open_run", opened)
    from attrcert.running.opening.runs import Source
    from attrcert.settings.computing import RunOptions
    from attrcert.settings.sources import DataSpec, ModelSpec
    from attrcert.settings.tasks import BoundConfig

    error = Worker(Source(ModelSpec(), DataSpec(), BoundConfig(), RunOptions())).attempt((0,), keep=False)
    assert isinstance(error, UnexpectedError)
    assert "in opened\n" in error.trace


FAULTY = """
import multiprocessing
from torch import nn

def factory():
    if multiprocessing.parent_process() is not None:
        from attrcert.running.evaluating.bounding import Bounds
        def explain(*_):
            raise RuntimeError("a mistake in a worker")
        Bounds.explain = explain
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 4), nn.Softplus(), nn.Linear(4, 10))
"""


def test_a_mistake_in_a_worker_is_no_verdict_and_its_traceback_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "faulty.py").write_text(FAULTY)
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, 4), torch.nn.Softplus(), torch.nn.Linear(4, 10)
    )
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    arch = ("--arch", f"{tmp_path / 'faulty.py'}:factory")
    done = attrcert("bound", tmp_path / "weights.safetensors", "fashion-test", *arch, "--limit", 4, "--workers", 2)
    assert done.code == UNEXPECTED
    assert "RuntimeError: a mistake in a worker" in done.err
    (kept,) = tmp_path.glob("attrcert-*.txt")
    assert re.search(r"faulty.py.*in explain", kept.read_text())


def test_the_help_names_the_option():
    assert "--traceback" in attrcert("--help").out


def test_no_command_is_wrong_usage_and_shows_the_help():
    done = attrcert()
    assert done.code == 2
    assert "bound" in done.out


def test_results_come_before_what_is_said_of_them_in_a_log_of_both_streams(rows):
    done = gate_in_a_shell(rows, "--format json --exit-zero 2>&1")
    assert done.stdout.splitlines()[-1] == "--exit-zero: the verdict's exit code 1 becomes 0"
