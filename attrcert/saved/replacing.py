"""A file that a command made is replaced by what it makes now, and no other file is."""

from collections.abc import Sequence
from pathlib import Path

from attrcert.errors import UsageError
from attrcert.saved.files import cannot_write, check_target

HEAD = 4096  # bytes in which a file says who made it


def check_ours(path: Path, marks: Sequence[str], *, what: str, other: str) -> None:
    """What is there begins with a mark of `what` we make; if not, the option `other` is to name another file."""
    check_target(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD)
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_write(path, error) from error
    if not any(mark.encode() in head for mark in marks):
        raise UsageError(f"{path} exists and is not {what}", hint=f"choose another {other}")
