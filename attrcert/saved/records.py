"""Rows as the text of a CSV, and back: what a kill tore off is left out, and what is damaged is refused with its place."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrcert.columns import Cell, Column, Row, checked
from attrcert.errors import ResumeError
from attrcert.foreign import guarded, unguarded
from attrcert.saved.schemas import columns_at, migrated, schema_of

WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}
NOT_FINITE = ("inf", "-inf", "nan")  # as they are rendered; any other text that means one is damaged
MEND = "mend or delete that row, or use --overwrite to start anew"


def render(value: Cell) -> str:
    """A cell as text: floats by repr, empty for not applicable."""
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else guarded(str(value)) if isinstance(value, str) else str(value)


def parse(text: str, kind: type) -> Cell:
    if text == "":
        return None
    return {"True": True, "False": False}[text] if kind is bool else unguarded(text) if kind is str else kind(text)


def to_csv(rows: Iterable[Row], columns: Sequence[Column], *, header: bool) -> str:
    """Every cell of the rows must be declared."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if header:
        writer.writerow([column.name for column in columns])
    writer.writerows([render(row.get(column.name)) for column in columns] for row in checked(rows, columns))
    return stream.getvalue()


def to_bytes(rows: Iterable[Row], columns: Sequence[Column], *, header: bool) -> bytes:
    """As it is in files; names of files, which messages have, need not be text."""
    return to_csv(rows, columns, header=header).encode("utf-8", "backslashreplace")


def lines_in(content: bytes) -> Iterator[list[str]]:
    """The cells of every line of a CSV, as texts."""
    return csv.reader(io.StringIO(content.decode("utf-8"), newline=""))


def rows_in(content: bytes, columns: Sequence[Column], path: Path) -> list[dict[str, Cell]]:
    """The rows of a CSV of this or an older schema, as this one has them; a torn last line is left out."""
    try:
        lines = list(lines_in(_untorn(content, path)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ResumeError(f"{path} cannot be read: {error}", hint="restore it, or use --overwrite") from error
    header = lines[0] if lines else []
    schema = schema_of(header, columns)
    if schema is None:
        raise ResumeError(_other_columns(header, columns, path), hint="choose another --out, or --overwrite")
    there, empty = columns_at(columns, schema, header), {column.name: None for column in columns}
    rows = (_row(line, there, f"row {n} of {path}") for n, line in enumerate(lines[1:], 2) if line)
    return [{**empty, **migrated(row, schema)} for row in rows]


def _untorn(content: bytes, path: Path) -> bytes:
    """Without what a kill left of the last row, which may have several lines; a quote that is lost elsewhere is damage."""
    whole = content[: content.rfind(b"\n") + 1]
    end, odd = len(whole), whole.count(b'"') % 2
    while odd:
        start = whole.rfind(b"\n", 0, end - 1) + 1
        odd ^= whole.count(b'"', start, end) % 2
        end = start
    cells = whole.partition(b"\n")[0].count(b",")
    for line in whole[end:].split(b"\n")[1:]:
        if re.match(rb"\d+,", line) and line.count(b",") >= cells:
            place = whole.count(b"\n", 0, end) + 1
            raise ResumeError(f"line {place} of {path} has a quote that does not end", hint=MEND)
    return whole[:end]


def _other_columns(header: Sequence[str], columns: Sequence[Column], path: Path) -> str:
    known = {column.name for column in columns}
    unknown = [name for name in header if name not in known]
    if unknown and known <= set(header):
        return f"{path} has the column {unknown[0][:40]!r}, which a later version or another run writes"
    return f"{path} has other columns than this run writes"


def _row(line: Sequence[str], columns: Sequence[Column], place: str) -> dict[str, Cell]:
    if len(line) != len(columns):
        raise ResumeError(f"{place} has {len(line)} cells, and the header {len(columns)}", hint=MEND)
    return {column.name: _cell(text, column, place) for column, text in zip(columns, line, strict=True)}


def _cell(text: str, column: Column, place: str) -> Cell:
    try:
        cell = parse(text, column.kind)
        if isinstance(cell, float) and not math.isfinite(cell) and text not in NOT_FINITE:
            raise ValueError
    except (ValueError, KeyError):
        said = f"{column.name} must be {WORDS[column.kind]} or empty, got {text[:40]!r}"
        raise ResumeError(f"{place} cannot be read: {said}", hint=MEND) from None
    return cell
