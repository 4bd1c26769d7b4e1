"""stdout and stderr of a command: results that cannot be written are an error, talk that cannot be written is not."""

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

from attrcert.errors import FileError


class Guarded:
    """A stream each of whose writes goes through a guard: what it raises reaches nobody who would take it for another's (typer, Rich)."""

    def __init__(self, stream: Any, guard: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream, self._guard = stream, guard

    def write(self, text: str) -> int:
        with self._guard():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._guard():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Both streams while a command runs. What is left unwritten then is dropped: Python would change the exit code for it."""
    before = sys.stdout, sys.stderr
    out = _text(sys.stdout or _closed(1, os.O_RDONLY))  # every write to it fails
    err = _text(sys.stderr or _closed(2, os.O_WRONLY))
    sys.stdout, sys.stderr = Guarded(out, partial(_guard, _unwritten)), Guarded(err, partial(_guard, None))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in (out, err):
            _drop(stream)


def _text(stream: Any) -> Any:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")  # names of files need not be text
    return stream


def _closed(number: int, mode: int) -> Any:
    """A stream that the shell closed (`>&-`). Its number is taken, or the next file would get what is printed."""
    opened = os.open(os.devnull, mode)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return open(number, "w", encoding="utf-8", closefd=False)


def _drop(stream: Any) -> None:
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):  # it has no number
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


@contextmanager
def _guard(told: Callable[[OSError], FileError] | None) -> Iterator[None]:
    """What cannot be written of results is told; what cannot be said on stderr is lost, and the exit code stays what it is."""
    try:
        yield
    except BrokenPipeError as error:
        _end_as_others_do(error)
    except OSError as error:
        if told:
            raise told(error) from error


def _end_as_others_do(error: BrokenPipeError) -> NoReturn:
    """Quietly, by SIGPIPE, when the reader has gone: `attrcert ... | head`. The signal itself stays ignored, since a worker's line
    may break too.
    """
    if hasattr(signal, "SIGPIPE") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
    raise _unwritten(error) from error


def _unwritten(error: OSError) -> FileError:
    return FileError(f"stdout cannot be written: {error.strerror or error}")
