"""A file that a command made is replaced by what it makes now, and no other file is."""

from collections.abc import Callable
from pathlib import Path

from attrcert.errors import UsageError
from attrcert.saved.files import cannot_write, check_target

HEAD = 4096  # bytes in which a file says who made it


def check_ours(path: Path, is_ours: Callable[[Path], bool], *, what: str, other: str) -> None:
    """What is there is `what` we make; if not, the option `other` is to name another file."""
    check_target(path)
    try:
        if path.exists() and not is_ours(path):
            raise UsageError(f"{path} exists and is not {what}", hint=f"choose another {other}")
    except OSError as error:
        raise cannot_write(path, error) from error


def begins_with(mark: str) -> Callable[[Path], bool]:
    """Whether a mark is near the beginning of a file."""

    def has(path: Path) -> bool:
        with path.open("rb") as stream:
            return mark.encode() in stream.read(HEAD)

    return has
