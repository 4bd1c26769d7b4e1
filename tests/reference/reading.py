"""Rows as a resumed run reads them from a file."""

from collections.abc import Sequence
from pathlib import Path

from attrcert.columns import Cell, Column
from attrcert.saved.records import rows_in


def read_rows(path: Path, columns: Sequence[Column]) -> list[dict[str, Cell]]:
    return rows_in(path.read_bytes(), columns, path)
