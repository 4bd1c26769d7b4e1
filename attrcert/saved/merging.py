"""One CSV of the CSVs of shards: what several machines computed, as if one had."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attrcert.columns import Column, Row
from attrcert.errors import FileError, UsageError
from attrcert.saved.array_files import Arrays, check_replaceable, joined, write_arrays
from attrcert.saved.arrays import DELTAS, JACOBIANS, jacobian_file
from attrcert.saved.files import check_free, remove
from attrcert.saved.locks import Lock
from attrcert.saved.manifests import COMPLETE, OWN, SIZES, manifest_of
from attrcert.saved.rowfiles import OwnRows, RowFile
from attrcert.saved.runfiles import RunTable, read_table
from attrcert.saved.schemas import columns_at, columns_now, differing, migrated, schema_of
from attrcert.vocabulary import parse_indices

SHARD = "shard"  # the one key in which identities may differ
OF_ONE = (*OWN, *SIZES, "deltas")  # what a manifest says of its own file


@dataclass(frozen=True)
class Merged:
    """The rows of all files in the order of the samples, the samples that no file has, the manifest's parts, and the arrays that lay
    beside the rows, by what they are.
    """

    command: str
    identity: Mapping[str, Any]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    missing: tuple[int, ...]
    facts: Mapping[str, Any]
    arrays: Mapping[str, Mapping[str, Any]]

    @property
    def samples(self) -> int:
        return len({row["index"] for row in self.rows})

    def write(self, path: Path, *, overwrite: bool) -> tuple[dict[str, Path], list[str]]:
        """A CSV and a manifest that a run with the same settings, but without --shard, can resume, and the arrays beside them. Returns the
        arrays' files by what they hold, and what there is to know of the writing.
        """
        homes = {DELTAS: path.with_suffix(".safetensors"), JACOBIANS: jacobian_file(path)}
        check_free(path, manifest_of(path), overwrite=overwrite)
        # a report would take it for this run's
        stale = os.path.lexists(homes[JACOBIANS]) and JACOBIANS not in self.arrays
        for kind in [*self.arrays, *([JACOBIANS] if stale else [])]:
            check_replaceable(homes[kind], kind, overwrite=overwrite)
        try:
            notes = self._write(path, homes, stale=stale, overwrite=overwrite)
        except FileError as error:
            raise FileError(
                error.message, hint="the files to join are as they were; merge again, with --overwrite if need be"
            ) from error
        return {kind: homes[kind] for kind in self.arrays}, notes

    def _write(self, path: Path, homes: Mapping[str, Path], *, stale: bool, overwrite: bool) -> list[str]:
        with ExitStack() as held:
            locks = [held.enter_context(Lock(homes[kind])) for kind in self.arrays]
            rows = OwnRows(self.command, self.identity, self.columns, cases=({},))
            file = held.enter_context(RowFile(path, rows, overwrite=overwrite))
            if stale:
                remove(homes[JACOBIANS])
            for kind, arrays in self.arrays.items():
                write_arrays(homes[kind], arrays, kind)
            file.append(self.rows)
            named = {"deltas": homes[DELTAS].name} if DELTAS in self.arrays else {}
            file.write_manifest({**self.facts, **named}, state="incomplete" if self.missing else COMPLETE)
            return [note for one in (*locks, file) for note in one.notes]


def merge(paths: Sequence[Path]) -> Merged:
    """Refuses files that are not shards of one run, and a sample that two of them have."""
    tables = [read_table(path) for path in paths]
    first = tables[0]
    for table in tables:
        _check(first, table)
    expected = _expected(tables)
    rows: dict[int, list[Row]] = {}
    homes: dict[int, str] = {}
    for table in tables:
        for index, of_sample in _by_sample(table).items():
            if index in homes:
                raise UsageError(f"sample {index} is in {homes[index]} and in {table.name}", hint="give one of them")
            rows[index], homes[index] = of_sample, table.name
    each = max(map(len, rows.values()), default=0)
    # a kill may tear one apart
    rows = {index: of_sample for index, of_sample in rows.items() if len(of_sample) == each}
    missing = tuple(index for index in expected if index not in rows)
    ordered = tuple(row for index in expected for row in rows.get(index, ()))
    files = {
        DELTAS: _deltas(paths, tables),
        JACOBIANS: [f for path in paths if os.path.exists(f := jacobian_file(path))],
    }
    return Merged(
        first.command,
        _identity(first),
        _columns(first),
        ordered,
        missing,
        _facts(tables),
        arrays={kind: joined(Arrays(file, kind) for file in found) for kind, found in files.items() if found},
    )


def _deltas(paths: Sequence[Path], tables: Sequence[RunTable]) -> list[Path]:
    """The files of perturbations that the manifests name."""
    named = [(path, _manifest(table).get("deltas")) for path, table in zip(paths, tables, strict=True)]
    files = [(path, path.parent / str(name)) for path, name in named if name]
    for path, file in files:
        if not file.is_file():
            raise UsageError(
                f"{path} was run with --save-deltas, and there is no {file}",
                hint="bring that file to where it was, seen from the CSV; a run that was stopped writes it when it is resumed",
            )
    return [file for _, file in files]


def _manifest(table: RunTable) -> Mapping[str, Any]:
    if table.manifest is None:
        raise UsageError(f"{table.name} has no manifest, so it is not known which run it is a shard of")
    return table.manifest


def _identity(table: RunTable) -> dict[str, Any]:
    return {**_manifest(table)["identity"], SHARD: None}


def _check(first: RunTable, other: RunTable) -> None:
    told = differing(_identity(first), _identity(other)).items()
    listed = [f"{key} is {ours!r} in the first and {theirs!r} in the second" for key, (ours, theirs) in told]
    if first.command != other.command:
        listed = [f"the first has rows of {first.command} and the second of {other.command}"]
    if listed:
        raise UsageError(f"{first.name} and {other.name} are not shards of one run: {'; '.join(listed)}")
    if [column.name for column in _columns(first)] != [column.name for column in _columns(other)]:
        raise UsageError(f"{first.name} and {other.name} have other columns")


def _columns(table: RunTable) -> tuple[Column, ...]:
    """As this version writes them, where a version wrote them, in whatever order they are read."""
    now = columns_now(table.header, table.command)
    if (
        {column.name for column in columns_at(now, 1, table.header)}
        <= set(table.header)
        <= {column.name for column in now}
    ):
        return now
    return tuple(column for name in table.header if (column := table.column(name)) is not None)


def _expected(tables: Sequence[RunTable]) -> tuple[int, ...]:
    """All samples of the whole run."""
    told = {str(_manifest(table).get("samples") or "") for table in tables}
    if len(told) != 1 or "" in told:
        raise UsageError("the manifests do not agree on the samples of the whole run", hint="run the shards again")
    expected = parse_indices(told.pop())
    beyond = {int(cell or 0) for table in tables for cell in table.cells["index"]} - set(expected)
    if beyond:
        raise UsageError(f"sample {min(beyond)} does not belong to the run that the manifests tell of")
    return expected


def _by_sample(table: RunTable) -> dict[int, list[Row]]:
    names = list(table.cells)
    schema = schema_of(table.header, columns_now(table.header, table.command))
    found: dict[int, list[Row]] = {}
    for cells in zip(*table.cells.values(), strict=True):
        row: Row = dict(zip(names, cells, strict=True))
        row = row if schema is None else migrated(row, schema)
        found.setdefault(int(row["index"] or 0), []).append(row)
    return found


def _facts(tables: Sequence[RunTable]) -> dict[str, Any]:
    manifests = [_manifest(table) for table in tables]
    return {
        **{key: value for key, value in manifests[0].items() if key not in OF_ONE},
        "merged": [
            {"file": table.name, SHARD: manifest["identity"].get(SHARD)}
            for table, manifest in zip(tables, manifests, strict=True)
        ],
        "started": min(str(manifest.get("started", "")) for manifest in manifests),
        "ended": max(str(manifest.get("ended", "")) for manifest in manifests),
    }
