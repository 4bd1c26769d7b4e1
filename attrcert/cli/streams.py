"""stdout and stderr of a command: results that cannot be written are an error, talk that cannot be written is not."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from attrcert.errors import FileError


class Results:
    """stdout. An error is told as one of stdout, and reaches nobody who would take it for another's (typer, Rich)."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _counted():
            return self._stream.write(text)

    def flush(self) -> None:
        with _counted():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Talk:
    """stderr. What cannot be said is lost, and the exit code stays what it is."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _ignored():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with _ignored():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Both streams while a command runs. What is left unwritten then is dropped: Python would change the exit code for it."""
    before = sys.stdout, sys.stderr
    out = _text(sys.stdout or _closed(1, os.O_RDONLY))  # every write to it fails
    err = _text(sys.stderr or _closed(2, os.O_WRONLY))
    sys.stdout, sys.stderr = Results(out), Talk(err)
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
def _counted() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        _end_as_others_do(error)
    except OSError as error:
        raise _unwritten(error) from error


@contextmanager
def _ignored() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        _end_as_others_do(error)
    except OSError:
        pass


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
