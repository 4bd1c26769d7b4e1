"""Errors that a user can act on: what must hold, what came, what to do, and the exit code."""

UNEXPECTED = 70  # the exit code of what should not happen, as sysexits.h has it


class AttrcertError(Exception):
    """A message for the user, a hint what to do, and the command line's exit code."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(AttrcertError):
    """The command or call is wrong: an unknown name, an impossible value, two options that exclude each other."""

    exit_code = 2


class InputError(AttrcertError):
    """The model, checkpoint or data cannot be used."""

    exit_code = 3


class ModelError(InputError):
    """The network cannot be built, run or differentiated as asked."""


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
