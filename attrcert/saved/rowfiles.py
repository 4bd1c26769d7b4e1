"""Rows and the files they live in: an append-only CSV and its manifest."""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attrcert.columns import Cell, Column, Row
from attrcert.errors import ResumeError, UsageError
from attrcert.saved.arrays import jacobian_file
from attrcert.saved.files import append, check_target, readable, write_bytes, write_text
from attrcert.saved.locks import Lock
from attrcert.saved.manifests import (
    COMPLETE,
    OWN,
    REPLACING,
    RUNNING,
    check_replaceable,
    head,
    header_in,
    is_altered,
    manifest_of,
    manifest_of_run,
)
from attrcert.saved.records import MEND, rows_in, to_bytes
from attrcert.saved.schemas import schema_of

KEPT = "the rows so far are kept; go on with --resume once it can be written"


@dataclass(frozen=True)
class OwnRows:
    """What a run writes, by which its file is known again.

    `identity` is what makes two runs the same run: a run is resumed only where it is equal. `cases` are what the rows of one sample
    differ in, so that it is known when a sample has all of them; `samples` are those that the run has, where that is known.
    """

    command: str
    identity: Mapping[str, Any]
    columns: Sequence[Column]
    cases: Sequence[Row]
    samples: Collection[int] | None = None

    def lacks_rows(self, content: bytes) -> bool:
        """Whether this is the file of such a run that was killed when it had written no more than the header."""
        _, newline, rest = content.partition(b"\n")
        known = schema_of(header_in(content), self.columns) is not None
        return not content or (known and newline != b"" and not rest)

    def check(self, rows: Sequence[Row], path: Path) -> None:
        """Rows that this run cannot have written are refused: they are somebody's, and not thrown away."""
        left: dict[Cell, list[Row]] = {}
        worded = [column for column in self.columns if column.words]
        for number, row in enumerate(rows, 2):
            place, index = f"row {number} of {path}", row["index"]
            if index is None or (self.samples is not None and index not in self.samples):
                raise ResumeError(f"{place} is of sample {index}, which this run does not have", hint=MEND)
            for column in worded:
                _check_word(row[column.name], column, place)
            cases = left.setdefault(index, list(self.cases))
            case = next((case for case in cases if _fits(row, case)), None)
            if case is None:
                raise ResumeError(
                    f"{place} is none of the {len(self.cases)} that this run writes for sample {index}, or one of them again",
                    hint="did two runs write into the file? choose another --out, or --overwrite",
                )
            cases.remove(case)
        if len(left) > 1 and all(left.values()):
            raise ResumeError(
                f"no sample in {path} has the {len(self.cases)} rows that this run writes for each",
                hint="is it of a run with other settings? choose another --out, or --overwrite",
            )


class RowFile(Lock):
    """The CSV of a run and the manifest beside it; every batch is flushed, and a killed run can go on.

    The manifest comes before the rows, so that none are without. It says `replacing` until all of an earlier run is gone: rows that
    are there then are not this run's. A resumed file is changed when the manifest or rows are written, not before.
    One process writes the file at a time; `close`, or the end of `with`, lets others.
    """

    def __init__(self, path: Path, run: OwnRows, *, resume: bool = False, overwrite: bool = False) -> None:
        if resume and overwrite:
            raise UsageError("--resume and --overwrite exclude each other")
        self.path, self._run = path, run
        self.rows: list[dict[str, Cell]] = []
        self.earlier: Mapping[str, Any] = {}
        self._head, self._facts, self._state = head(run.command, run.identity), dict[str, Any](), ""
        self._size, self._hash = 0, hashlib.sha256()
        self._pending: bytes | None = None
        super().__init__(path, self.manifest_path, jacobian_file(path))
        try:
            self._open(resume=resume, overwrite=overwrite)
        except BaseException:
            self.close()
            raise

    @property
    def finished(self) -> frozenset[Cell]:
        """The samples whose rows are all there."""
        return frozenset(row["index"] for row in self.rows)

    @property
    def manifest_path(self) -> Path:
        return manifest_of(self.path)

    @property
    def replaces(self) -> bool:
        """Whether what lies beside the rows may still be an earlier run's, which is to go."""
        return self._state == REPLACING

    def append(self, rows: Sequence[Row]) -> None:
        """The rows of whole samples, in one write."""
        if self._state != RUNNING or self._pending is not None:
            self.write_manifest(self._facts, state=RUNNING)
        content = to_bytes(rows, self._run.columns, header=False)
        append(self.path, content, size=self._size, hint=KEPT)
        self._count(content)
        self.rows += [dict(row) for row in rows]

    def write_manifest(self, facts: Mapping[str, Any], *, state: str = COMPLETE) -> None:
        """The run's identity, its state, what rows there are, and whatever else is known of it."""
        if self._pending is not None and state != RUNNING:
            self.write_manifest(self._facts, state=RUNNING)
        counts = {"state": state, "rows": len(self.rows), "status": dict(Counter(str(r["status"]) for r in self.rows))}
        ended = {} if state in (RUNNING, REPLACING) else {"rows_sha256": self._hash.hexdigest()}
        told = {**self._head, **facts, **counts, **ended}
        write_text(self.manifest_path, json.dumps(told, indent=2, default=str) + "\n", hint=KEPT)
        self._state, self._facts = state, dict(facts)
        if self._pending is not None:
            write_bytes(self.path, self._pending, hint=KEPT)
            self._pending = None

    def _open(self, *, resume: bool, overwrite: bool) -> None:
        check_target(self.manifest_path)
        there = [path for path in (self.path, self.manifest_path) if path.exists()]
        if there and not (resume or overwrite):
            raise UsageError(f"{there[0]} exists", hint="--resume continues that run, --overwrite replaces it")
        if overwrite:
            check_replaceable(self.path)
            self._begin(REPLACING)
        elif there:
            self._continue()
        else:
            self._begin(RUNNING)

    def _begin(self, state: str) -> None:
        """A header, and no rows."""
        header = to_bytes([], self._run.columns, header=True)
        self._count(header)
        self.write_manifest({}, state=state)
        write_bytes(self.path, header)

    def _count(self, content: bytes) -> None:
        self._size += len(content)
        self._hash.update(content)

    def _continue(self) -> None:
        """Keep the finished samples of an earlier run of the same identity; what a kill tore is to be cut."""
        with readable(self.path):
            content = self.path.read_bytes() if self.path.exists() else b""
        manifest = manifest_of_run(self.path, self._head)
        if manifest is None and not self._run.lacks_rows(content):
            raise ResumeError(
                f"cannot resume: there is no manifest {self.manifest_path.name} beside the CSV",
                hint="bring it back, or use --overwrite",
            )
        if manifest is None or not content or manifest.get("state") == REPLACING:
            self._begin(REPLACING if manifest and manifest.get("state") == REPLACING else RUNNING)
            return
        rows = rows_in(content, self._run.columns, self.path)
        self._run.check(rows, self.path)
        counts = Counter(row["index"] for row in rows)
        self.rows = [row for row in rows if counts[row["index"]] == len(self._run.cases)]
        self._note(manifest, content, partial=len(counts) - len(self.finished))
        self.earlier, self._state = manifest, str(manifest.get("state"))
        self._facts = {key: value for key, value in manifest.items() if key not in OWN}
        kept = to_bytes(self.rows, self._run.columns, header=True)
        self._count(kept)
        self._pending = None if kept == content else kept

    def _note(self, manifest: Mapping[str, Any], content: bytes, *, partial: int) -> None:
        if is_altered(manifest, content):
            # where nothing is missing, what is there would pass for the run's own
            if len(self.rows) == manifest.get("rows"):
                hint = "restore it, or use --overwrite"
                raise ResumeError(f"{self.path} was changed after its run had ended", hint=hint)
            self.notes.append(f"{self.path} was changed after its run had ended; its rows are taken as they are")
        if partial:
            self.notes.append(f"{self.path}: {partial} samples lack rows and are computed again")


def _check_word(cell: Cell, column: Column, place: str) -> None:
    """A cell that can only be one of some words; a status must be one, or an error."""
    if cell in column.words or (column.name == "status" and str(cell).startswith("error:")):
        return
    if cell is not None or column.name == "status":
        raise ResumeError(f"{place} cannot be read: {column.name} must not be {str(cell)[:40]!r}", hint=MEND)


def _fits(row: Row, case: Row) -> bool:
    """A row without figures may not say all of its case."""
    return all(row.get(name) in (None, value) for name, value in case.items())
