"""Rows and the files they live in: an append-only CSV and its manifest."""

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrcert.columns import COLUMNS, Cell, Column, Row
from attrcert.errors import ResumeError, UsageError

SCHEMA = 1


def render(value: Cell) -> str:
    """A cell as text: floats by repr, empty for not applicable."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def parse(text: str, kind: type) -> Cell:
    if text == "":
        return None
    return {"True": True, "False": False}[text] if kind is bool else kind(text)


def to_csv(rows: Iterable[Row], columns: Sequence[Column], *, header: bool) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow([column.name for column in columns])
    writer.writerows([render(row.get(column.name)) for column in columns] for row in rows)
    return stream.getvalue()


def read_rows(path: Path, columns: Sequence[Column]) -> list[dict[str, Cell]]:
    """The whole rows of a CSV; a torn last line is left out."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    while whole.count(b'"') % 2:  # torn inside a quoted cell of several lines
        whole = whole[: whole.rfind(b"\n", 0, -1) + 1]
    reader = csv.DictReader(io.StringIO(whole.decode(), newline=""))
    names = [column.name for column in columns]
    if reader.fieldnames != names:
        raise ResumeError(
            f"{path} has other columns than this version writes", hint="choose another --out, or --overwrite"
        )
    kinds = {column.name: column.kind for column in columns}
    rows = []
    for number, line in enumerate(reader, 2):
        try:
            rows.append({name: parse(text, kinds[name]) for name, text in line.items()})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ResumeError(
                f"row {number} of {path} cannot be read: {error}", hint="mend or delete that row, or use --overwrite"
            ) from error
    return rows


class RowFile:
    """The CSV of a run and the manifest beside it; every batch is flushed, and a killed run can go on.

    `identity` is what makes two runs the same run: a run is resumed only where it is equal.
    """

    def __init__(
        self,
        path: Path,
        command: str,
        identity: Mapping[str, Any],
        *,
        columns: Sequence[Column] | None = None,
        rows_per_sample: int | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.path, self.columns = path, columns or COLUMNS[command]
        self._rows_per_sample = rows_per_sample or len(identity["eps"])
        self.rows: list[dict[str, Cell]] = []
        self.earlier: Mapping[str, Any] = {}
        self._head = {"schema": SCHEMA, "command": command, "identity": json.loads(json.dumps(identity, default=str))}
        if resume and overwrite:
            raise UsageError("--resume and --overwrite exclude each other")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
        if path.is_dir():
            raise UsageError(f"the rows go into a file, and {path} is a folder")
        if path.exists() and not (resume or overwrite):
            raise UsageError(f"{path} exists", hint="--resume continues that run, --overwrite replaces it")
        if overwrite and path.exists() and not path.read_bytes().startswith(b"index,"):
            raise UsageError(f"{path} is not a file that attrcert wrote, and is not overwritten")
        if resume and path.exists():
            self._continue()
        else:
            _replace(path, to_csv([], self.columns, header=True))

    @property
    def finished(self) -> frozenset[Cell]:
        """The samples whose rows are all there."""
        return frozenset(row["index"] for row in self.rows)

    @property
    def manifest_path(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def append(self, rows: Sequence[Row]) -> None:
        """The rows of whole samples, in one write."""
        with self.path.open("a") as stream:
            stream.write(to_csv(rows, self.columns, header=False))
            stream.flush()
            os.fsync(stream.fileno())
        self.rows += [dict(row) for row in rows]

    def write_manifest(self, facts: Mapping[str, Any]) -> None:
        """The run's identity and whatever else is known of it."""
        _replace(self.manifest_path, json.dumps({**self._head, **facts}, indent=2, default=str) + "\n")

    def _continue(self) -> None:
        """Keep the finished samples of an earlier run of the same identity; cut what a kill tore."""
        self.earlier = _read_manifest(self.manifest_path)
        theirs, ours = self.earlier.get("identity", {}), self._head["identity"]
        differing = [
            f"{key} was {theirs.get(key)!r} and is {ours.get(key)!r}"
            for key in sorted(theirs.keys() | ours.keys())
            if theirs.get(key) != ours.get(key)
        ]
        if differing or self.earlier.get("schema") != SCHEMA:
            raise ResumeError(
                f"{self.path} belongs to another run: {'; '.join(differing) or 'another schema'}",
                hint="choose another --out, or --overwrite",
            )
        rows = read_rows(self.path, self.columns)
        counts = Counter(row["index"] for row in rows)
        self.rows = [row for row in rows if counts[row["index"]] == self._rows_per_sample]
        _replace(self.path, to_csv(self.rows, self.columns, header=True))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """A file whole or not at all, with the rights that any new file gets here (safetensors would let nobody else read)."""
    part = path.with_name(path.name + ".part")
    try:
        part.touch()
        mode = part.stat().st_mode
        write(part)
        part.chmod(mode)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def _replace(path: Path, text: str) -> None:
    write_whole(path, lambda part: part.write_text(text))


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ResumeError(
            f"cannot resume: there is no manifest {path.name} beside the CSV", hint="use --overwrite"
        ) from error
    except json.JSONDecodeError as error:
        raise ResumeError(f"cannot resume: the manifest {path.name} is not JSON", hint="use --overwrite") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("identity"), dict):
        raise ResumeError(f"cannot resume: {path.name} is not a manifest", hint="use --overwrite")
    return manifest
