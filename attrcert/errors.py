"""Errors that a user can act on: what must hold, what came, what to do, and the exit code."""

import os
import re
import traceback
from typing import Any

OS_ERROR = re.compile(r"\(os error (\d+)\)")
UNEXPECTED = 70  # the exit code of what should not happen, as sysexits.h has it


class AttrcertError(Exception):
    """A message for the user, a hint what to do, and the command line's exit code."""

    exit_code = 3
    in_lines = False  # whether line breaks in its message are ours

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """With all that it has: errors come home from other processes."""
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UsageError(AttrcertError):
    """The command or call is wrong: an unknown name, an impossible value, two options that exclude each other."""

    exit_code = 2


class InputError(AttrcertError):
    """The model, checkpoint or data cannot be used."""

    exit_code = 3


class ModelError(InputError):
    """The network cannot be built, run or differentiated as asked."""


class AttributionError(InputError):
    """The user's own attribution cannot be run, gives something else than maps, or is not what is asked of it."""


class CheckpointError(InputError):
    """The checkpoint cannot be read or does not fit the architecture."""


class DataError(InputError):
    """The data cannot be read or do not fit the model."""


class SampleError(InputError):
    """One sample cannot be used; the run goes on and its row says `error:<kind>`."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class FileError(AttrcertError):
    """A file cannot be written or read though nothing is wrong with what was asked: a full disk, missing rights, too long a name."""

    exit_code = 74


class ResumeError(UsageError):
    """An earlier run's files do not match this one."""


class OutOfMemoryError(AttrcertError):
    """Memory ran out where less could not be tried. The run is incomplete, and can be resumed with less."""

    exit_code = 4


class UnexpectedError(AttrcertError):
    """What should not happen; `trace` is the traceback of the process in which it did."""

    exit_code = UNEXPECTED

    def __init__(self, message: str, *, hint: str = "", trace: str = "") -> None:
        super().__init__(message, hint=hint)
        self.trace = trace


def told(error: BaseException) -> AttrcertError:
    """What an error is that nobody expected: itself, files that cannot be used, too little memory, or a mistake of ours."""
    if isinstance(error, AttrcertError):
        return error
    if isinstance(error, OSError) or (type(error).__name__ == "SafetensorError" and OS_ERROR.search(str(error))):
        return FileError(f"{_file(error)} cannot be read or written: {reason(error)}", hint="--traceback shows where")
    if out_of_memory(error):
        return OutOfMemoryError(
            f"memory ran out: {_summary(error)}",
            hint="a smaller --batch-size, --chunk or --memory may help; what --out has can be resumed",
        )
    return UnexpectedError(
        f"something went wrong that should not: {_summary(error)}",
        trace="".join(traceback.format_exception(error)),
    )


def out_of_memory(error: BaseException) -> bool:
    """Python's own, or torch's, which is known by its words."""
    words = ("out of memory", "not enough memory", "can't allocate memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


def reason(error: BaseException) -> str:
    """Why the system refused a file, in its words: safetensors has only a number of its own for them."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    number = OS_ERROR.search(str(error))
    return os.strerror(int(number[1])) if number else str(error) or type(error).__name__


def _file(error: BaseException) -> str:
    name = getattr(error, "filename", None)
    return os.fsdecode(name) if isinstance(name, str | bytes) else "a file"


def _summary(error: BaseException) -> str:
    """Its kind, and the first line of what it says."""
    said = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
