"""Files are written whole or not at all, and never into what is no file."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from safetensors import SafetensorError

from attrcert.errors import AttrcertError, FileError, UsageError, reason

PART = ".attrcert-part"  # how the names of files end that are not whole yet
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
NO_FOLDER_SYNC = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EACCES, errno.EPERM)
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def check_target(path: Path) -> None:
    """What is written must be a file or not be there yet, in a folder that exists.

    A link is refused, too, wherever it points: a file is replaced by a rename, which would replace the link and not what it names.
    """
    found = _mode(path.parent, follow=True)
    if found is None or not stat.S_ISDIR(found):
        raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
    found = _mode(path, follow=False)
    if found is not None and not stat.S_ISREG(found):
        kind = kind_of(found)
        raise UsageError(
            f"{path} must be a file or not be there yet, and it is {kind}",
            hint="give the name of the file itself" if kind == "a link" else "choose another name",
        )


def check_free(*paths: Path, overwrite: bool) -> None:
    """Nothing is replaced unasked."""
    for path in paths:
        check_target(path)
        if path.exists() and not overwrite:
            raise UsageError(f"{path} exists", hint="--overwrite replaces it")


def _mode(path: Path, *, follow: bool) -> int | None:
    """What is there, without opening it, which may hang; None where nothing is."""
    try:
        return os.stat(path, follow_symlinks=follow).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise cannot_write(path, error) from error
    except ValueError as error:  # a null in the name
        raise UsageError(f"{str(path)!r} is not the name of a file: {error}") from error


def kind_of(mode: int) -> str:
    """What a file is that is no regular one."""
    return KINDS.get(stat.S_IFMT(mode), "a device")


def cannot_write(path: Path, error: Exception, hint: str = "") -> AttrcertError:
    """What the system says of a file that it does not let us write; a wrong place is wrong usage."""
    wrong = isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError)
    return (UsageError if wrong else FileError)(f"{path} cannot be written: {reason(error)}", hint=hint)


def readable(path: Path) -> AbstractContextManager[None]:
    """What the system refuses to read is a FileError."""
    return _allowed(f"{path} cannot be read")


@contextmanager
def _allowed(otherwise: str) -> Iterator[None]:
    """What the system refuses is a FileError: missing rights, too long a name, a disk that fails."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{otherwise}: {reason(error)}") from error


@contextmanager
def _opened(path: Path, how: int) -> Iterator[int]:
    """The number of an open file, which a link is not followed to."""
    target = os.open(path, how | NO_LINK, 0o666)
    try:
        yield target
    finally:
        os.close(target)


def read_text(path: Path) -> str:
    """The text of a regular file: a pipe would be waited for, and a device has no end."""
    mode = _mode(path, follow=True)
    if mode is not None and not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return path.read_text(encoding="utf-8")


def write_whole(path: Path, write: Callable[[Path], object], *, hint: str = "") -> None:
    """`write` fills a file of a random name, which then takes the place of `path`, and is on the disk when this returns.

    It has the rights that any new file gets here (safetensors would let nobody else read).
    """
    check_target(path)
    part = path.with_name(f"{part_prefix(path)}{secrets.token_hex(8)}{PART}")
    try:
        with _removed_on_failure(part):
            mode = _create(part)
            write(part)
            os.chmod(part, mode)
            _sync(part)
            os.replace(part, path)
        _sync_folder(path.parent)
    except (OSError, SafetensorError) as error:
        raise cannot_write(path, error, hint) from error


def write_bytes(path: Path, content: bytes, *, hint: str = "") -> None:
    write_whole(path, lambda part: _fill(part, content), hint=hint)


def write_text(path: Path, text: str, *, hint: str = "") -> None:
    """Names of files need not be text: what is none is escaped."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), hint=hint)


def append(path: Path, content: bytes, *, size: int, hint: str = "") -> None:
    """Behind the `size` bytes that are there, and on the disk when this returns; a failure leaves what was there."""
    try:
        with _opened(path, os.O_WRONLY | os.O_APPEND) as target:
            found = os.fstat(target).st_size
            if found != size:
                raise FileError(
                    f"{path} has {found} bytes and not the {size} of this run: something else writes into it",
                    hint="--resume says what of it can be used",
                )
            try:
                write_all(target, content)
                os.fsync(target)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(target, size)
                raise
    except OSError as error:
        raise cannot_write(path, error, hint) from error


def remove(path: Path) -> None:
    """A file, if it is there."""
    with _allowed(f"{path} cannot be removed"), suppress(FileNotFoundError):
        os.unlink(path)


def make_folder(path: Path) -> None:
    """With those above it, where it is not there."""
    with _allowed(f"the folder {path} cannot be made"):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise UsageError(f"{path} must be a folder or not be there yet", hint="choose another name") from error


def remove_folder(path: Path) -> None:
    """An own folder of files, if it is there."""
    with _allowed(f"the folder {path} cannot be removed"), suppress(FileNotFoundError):
        for name in os.listdir(path):
            os.unlink(path / name)
        os.rmdir(path)


def part_prefix(path: Path) -> str:
    """How the names of a file's parts begin: a long name becomes no longer."""
    return f".{sha256(os.fsencode(path.name)).hexdigest()[:8]}-"


@contextmanager
def _removed_on_failure(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _create(part: Path) -> int:
    """An empty file that was not there, whose mode is returned."""
    with _opened(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as target:
        return stat.S_IMODE(os.fstat(target).st_mode)


def _fill(part: Path, content: bytes) -> None:
    with _opened(part, os.O_WRONLY) as target:
        write_all(target, content)


def write_all(target: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(target, left) :]


def _sync(path: Path) -> None:
    with _opened(path, os.O_RDONLY) as target:
        os.fsync(target)


def _sync_folder(folder: Path) -> None:
    """So that a rename outlives a power cut; some file systems cannot."""
    try:
        _sync(folder.resolve())
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
