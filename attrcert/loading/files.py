"""Files that others wrote: only regular ones are opened, and only if what they declare stays within the cap."""

import hashlib
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrcert.errors import AttrcertError, InputError
from attrcert.saved.files import kind_of, readable
from attrcert.sizes import parse_bytes, readable_bytes
from attrcert.vocabulary import shortened


def regular(path: Path, what: str, kind: type[InputError]) -> int:
    """The size of a regular file; opening anything else could wait for ever."""
    with readable(path):
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # no name has a NUL in it
            raise kind(f"there is no {what} {path}") from error
    if not stat.S_ISREG(status.st_mode):
        raise kind(f"a {what} must be a regular file, but {path} is {kind_of(status.st_mode)}")
    return status.st_size


def capped(declared: int, max_input: str, name: str, kind: type[InputError], *, on_disk: int = 0) -> None:
    """Refuse, before anything is read, what would fill more memory than --max-input and more than it takes on the disk."""
    if declared <= max(parse_bytes(max_input, "--max-input"), on_disk):
        return
    gigabytes = -(-declared // 10**9)
    size = readable_bytes(declared) if gigabytes < 10**6 else "over 1000 TB"
    raise kind(
        f"{name} would fill {size} of memory, more than --max-input {max_input}",
        hint=f"if you trust it, give --max-input {gigabytes}GB" if gigabytes < 10**6 else "",
    )


@contextmanager
def decoding(otherwise: str, kind: type[InputError]) -> Iterator[None]:
    """Readers of files raise whatever a broken one leads them to: it is an error of this kind."""
    try:
        yield
    except AttrcertError:
        raise
    except Exception as error:
        raise kind(f"{otherwise}: {shortened(str(error)) or type(error).__name__}") from error


def sha256(path: Path) -> str:
    with readable(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
