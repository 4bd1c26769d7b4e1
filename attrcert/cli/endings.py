"""How a command ends: an exit code, and what stderr says of an error. 1 is a verdict, and no accident ends with it."""

import os
import sys
import traceback as tracebacks
from collections.abc import Callable

from attrcert.cli.console import talk, talk_lines
from attrcert.errors import AttrcertError, FileError, UnexpectedError, told
from attrcert.foreign import shell

INTERRUPTED = 130  # as shells say it of Ctrl-C


def ended(command: Callable[[], object], *, traceback: bool) -> int:
    """The command's exit code. Results that were lost on their way out come before its verdict: whoever reads them has not all."""
    code = _code(command, traceback=traceback)
    try:
        sys.stdout.flush()
    except FileError as error:
        return code if code == error.exit_code else _told(error, traceback=traceback)
    return code


def _code(command: Callable[[], object], *, traceback: bool) -> int:
    try:
        command()
    except SystemExit as ending:  # typer's
        return ending.code if isinstance(ending.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _told(error, traceback=traceback)
    return 0


def _told(error: Exception, *, traceback: bool) -> int:
    known = told(error)
    try:
        _tell(known, _trace(known, error), traceback=traceback)
    except Exception:  # whatever is wrong with telling it, the exit code is right
        sys.stderr.write(f"error: {known!r}\n")
    return known.exit_code


def _trace(known: AttrcertError, error: Exception) -> str:
    """Of the process in which it happened."""
    return (known.trace if isinstance(known, UnexpectedError) else "") or "".join(tracebacks.format_exception(error))


def _tell(error: AttrcertError, trace: str, *, traceback: bool) -> None:
    kept = "" if traceback or not isinstance(error, UnexpectedError) else _kept(trace)
    if traceback or (isinstance(error, UnexpectedError) and not kept):
        for line in trace.splitlines():
            talk(line)
    (talk_lines if error.in_lines else talk)(f"error: {error.message}", style="bold red")
    if error.hint:
        talk(f"hint: {error.hint}")
    if isinstance(error, UnexpectedError):
        where = f"the traceback in {kept}" if kept else "the traceback above"
        talk(f"hint: please report it, with {where}; the README says how")


def _kept(trace: str) -> str:
    """The name of a new file that only its owner can read; empty where none can be written."""
    import tempfile

    try:
        number, name = tempfile.mkstemp(prefix="attrcert-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{_version()}\n{shell(sys.argv)}\n\n{trace}")
    except OSError:
        return ""
    return name


def _version() -> str:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = f"attrcert {version('attrcert')}, "
    except PackageNotFoundError:
        own = ""
    return f"{own}Python {platform.python_version()}, {platform.platform()}"
