"""One writer of a file at a time."""

import errno
import os
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from attrcert.errors import FileError, reason
from attrcert.saved.files import NO_LINK, PART, cannot_write, check_target, part_prefix, write_all

try:
    import fcntl
except ImportError:  # then writers do not hear of each other
    fcntl = None  # type: ignore[assignment]

L = TypeVar("L", bound="Lock")
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


class Lock:
    """One writer of a file at a time; another is refused and told who it is.

    The kernel holds the lock on a file `.NAME.lock` beside the file, which is replaced by renames and cannot be locked itself; so a
    killed writer leaves no lock, only a file that the next writer takes over. Where the file system has no locks (some network
    drives), the run goes on without, and `notes` say so; `append` still notices a second writer.
    """

    def __init__(self, path: Path, *beside_it: Path) -> None:
        """`beside_it` are files that are written only by who writes `path`."""
        check_target(path)
        self.notes: list[str] = []  # for the user to know
        beside = path.with_name(f".{path.name}.lock")
        try:
            held = _take(beside, path)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise cannot_write(beside, error) from error
            self.notes.append(
                f"{path.parent} has no locks ({reason(error)}): make sure that no other run writes {path.name}"
            )
            held = None
        self._end = weakref.finalize(self, _give_back, held, beside, os.getpid())
        if held is not None:
            _remove_parts((path, *beside_it))

    def close(self) -> None:
        """Let others write the file."""
        self._end()

    def __enter__(self: L) -> L:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _take(beside: Path, path: Path) -> int | None:
    """The open, locked file; None on a system that has no such locks."""
    if fcntl is None:
        return None
    while True:
        target = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | NO_LINK, 0o666)
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _told(target)
            os.close(target)
            if isinstance(error, BlockingIOError):
                raise _refused(path, holder) from error
            raise
        try:
            if _is_at(beside, target):  # and not removed by the one who had it
                os.ftruncate(target, 0)
                write_all(target, _who().encode())
                return target
        except BaseException:
            _give_back(target, beside, os.getpid())
            raise
        os.close(target)


def _refused(path: Path, holder: str) -> FileError:
    ours = holder.startswith(_who().partition(" since ")[0])
    return FileError(
        f"{path} is being written by " + (f"this {holder}" if ours else holder or "another process"),
        hint="close the file that was opened first" if ours else "wait until it has ended, or choose another name",
    )


def _told(target: int) -> str:
    """Who has the lock; nothing where that is not written yet."""
    text = os.read(target, 200).decode("utf-8", "replace").strip()
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _who() -> str:
    return f"process {os.getpid()} on {socket.gethostname()} since {datetime.now(UTC).isoformat(timespec='seconds')}\n"


def _is_at(path: Path, target: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(target))
    except FileNotFoundError:
        return False


def _give_back(held: int | None, beside: Path, owner: int) -> None:
    """The file goes before the lock, so that nobody locks a file that is about to go."""
    if held is None or os.getpid() != owner:  # a fork has our memory, and not our lock
        return
    with suppress(OSError):
        if _is_at(beside, held):
            os.unlink(beside)
    with suppress(OSError):
        os.close(held)


def _remove_parts(paths: Sequence[Path]) -> None:
    """What a killed writer of these files left; with the lock in hand they are nobody's."""
    beginnings = tuple(part_prefix(path) for path in paths)
    with suppress(OSError):
        for name in os.listdir(paths[0].parent):
            if name.startswith(beginnings) and name.endswith(PART):
                os.unlink(paths[0].with_name(name))
