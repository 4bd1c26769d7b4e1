"""The rows of a run by column, read from its CSV, and the manifest beside it."""

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from attrcert.columns import APART, COLUMNS, Cell, Column, Row, column_named, declared
from attrcert.errors import UsageError
from attrcert.foreign import unguarded
from attrcert.saved.manifests import COMPLETE, is_altered, read_manifest
from attrcert.saved.records import WORDS, lines_in, parse
from attrcert.saved.schemas import MISCLASSIFIED, migrated
from attrcert.vocabulary import Aim, Status, part_name

ALWAYS = ("index", "status", "guarantee", "radii_tried")  # that are read, and what a run's cases differ in
SMOOTHED = ("certify", "attack-smooth")  # whose identity tells the task
LARGEST = 2**53  # whole numbers that a float holds
Case = tuple[tuple[str, Cell], ...]


@dataclass(frozen=True)
class Warned:
    """What a check before a run warned of, and what to do about it."""

    check: str
    message: str
    hint: str


@dataclass(frozen=True)
class RunTable:
    """Of one run: the columns that there are, the cells of those that were asked for, and what its manifest says."""

    name: str
    command: str
    header: tuple[str, ...]
    cells: Mapping[str, Sequence[Cell]]
    manifest: Mapping[str, Any] | None = None
    torn: bool = False
    altered: bool = False  # not the rows that its run wrote

    def __len__(self) -> int:
        return len(self.cells["index"])

    @property
    def identity(self) -> Mapping[str, Any]:
        """What makes the run that run, as far as its manifest tells."""
        identity: Mapping[str, Any] = (self.manifest or {}).get("identity", {})
        return identity

    def column(self, name: str) -> Column | None:
        """What is known of a column of these rows."""
        if name not in self.header:
            return None
        return column_named(name, self.command) or Column(name, _kind(self.cells.get(name, ())), "")

    def asked(self, name: str) -> bool:
        """Whether the run was asked for a figure: a row has it, or the manifest says so; a run without one is taken at its rows."""
        column = self.column(name)
        if self.cases and not any(self.tells(name, case) for case in self.cases):
            return False
        if column is None or column.asked is None or self._told(name):
            return column is not None
        key, value = column.asked
        return bool(self.identity.get(key) == value)

    def tells(self, name: str, case: Case) -> bool:
        """Whether the rows of a case are of the kind that has this column."""
        column, told = self.column(name), dict(case)
        key, value = (column and column.only) or ("", None)
        aim, attack = column and column.aim, told.get("attack")
        return told.get(key) in (None, value) and (not aim or attack is None or Aim.of(attack) is aim)

    @cached_property
    def failed(self) -> Sequence[bool]:
        """Which rows have no figures."""
        return [str(status).startswith("error:") for status in self.cells["status"]]

    @cached_property
    def case_names(self) -> tuple[str, ...]:
        """The columns that tell cases apart; one that is empty throughout does not, whether a version had it or not."""
        chosen = self._told("radii_tried")  # then a radius is a result
        return tuple(name for name in _case() if self._told(name) and not (name == "radius" and chosen))

    def _told(self, name: str) -> bool:
        return any(cell is not None for cell in self.cells.get(name, ()))

    @cached_property
    def cases(self) -> Mapping[Case, Sequence[int]]:
        """The places of the rows of each case, in the order in which the cases came. A row without figures may lack cells that tell
        its case: it belongs to every case that it does not contradict.
        """
        keys = [tuple(self.cells[name][place] for name in self.case_names) for place in range(len(self))]
        groups: dict[tuple[Cell, ...], list[int]] = {}
        for place, key in enumerate(keys):
            if not self.failed[place]:
                groups.setdefault(key, []).append(place)
        usable = list(groups)
        for place in (place for place, failed in enumerate(self.failed) if failed):
            fitting = [key for key in usable if all(b in (None, a) for a, b in zip(key, keys[place], strict=True))]
            for key in fitting or [keys[place]]:
                groups.setdefault(key, []).append(place)
        return {tuple(zip(self.case_names, key, strict=True)): places for key, places in groups.items()}

    @cached_property
    def apart(self) -> tuple[str, ...]:
        """Of attribution, norm and softplus version, what it has several of."""
        return tuple(name for name in APART if len({*self.cells.get(name, ())} - {None}) > 1)

    @property
    def unfinished(self) -> str | None:
        """Why the run is not whole, if it is not; a manifest that does not say so is no reason."""
        state, rows = (self.manifest or {}).get("state", COMPLETE), (self.manifest or {}).get("rows", len(self))
        if state != COMPLETE:
            return f"its manifest says {state!r}"
        if self.torn:
            return "its last line is torn"
        return None if rows == len(self) else f"its manifest tells of {rows} rows, and it has {len(self)}"

    @property
    def kind(self) -> str:
        """What was asked for, as it is typed: the command, or the task of a smoothing certificate."""
        return f"{self.identity.get('task') or ''} --smooth".lstrip() if self.command in SMOOTHED else self.command

    @cached_property
    def warnings(self) -> tuple[Warned, ...]:
        """What was found wrong with the model or the settings, as the manifest tells it, which people may have edited."""
        findings = (self.manifest or {}).get("findings")
        told = [one for one in findings if isinstance(one, dict)] if isinstance(findings, list | tuple) else []
        return tuple(
            Warned(str(one.get("check")), str(one.get("message")), str(one.get("hint") or ""))
            for one in told
            if one.get("level") == "warn"
        )


def _case() -> tuple[str, ...]:
    """The columns that a run's cases differ in."""
    return tuple(dict.fromkeys(column.name for column in declared() if column.case))


def table_of(
    rows: Sequence[Row], columns: Sequence[Column], command: str, name: str, manifest: Mapping[str, Any] | None = None
) -> RunTable:
    """Rows that were just computed, and what a manifest would say of them."""
    names = tuple(column.name for column in columns)
    return RunTable(name, command, names, {name: [row.get(name) for row in rows] for name in names}, manifest)


def read_table(path: Path, wanted: Collection[str] | None = None, *, altered_too: bool = False) -> RunTable:
    """The columns `wanted`, or all, of a CSV; a torn last line is left out and told.

    A whole file whose rows are not those that its run wrote is refused, or told where `altered_too`.
    """
    try:
        if not path.is_file():
            raise UsageError(f"{path} cannot be read: " + ("it is no file" if path.exists() else "No such file"))
        manifest = read_manifest(path)
        content = path.read_bytes()
        header, texts, wrong = _columns(lines_in(content), wanted, path)
        altered = is_altered(manifest, content)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, csv.Error) as error:  # bytes that are no text, a path with a null
        raise UsageError(f"{path} is not a CSV: {error}") from error
    torn = not content.endswith(b"\n") or content.count(b'"') % 2 == 1
    if wrong and not torn:
        raise UsageError(wrong, hint="mend or compute the file again")
    command = _command(header, manifest)
    cells = {name: _parsed(column[: len(column) - torn], name, command, path) for name, column in texts.items()}
    if "correct" not in header:
        header, cells = _of_schema_1(header, cells)
    table = RunTable(str(path), command, header, cells, manifest, torn, altered)
    _check_unique(table, path)
    if altered and not (altered_too or table.unfinished):
        raise UsageError(
            f"{path} was changed after its run had ended: its bytes are not those that its manifest tells of",
            hint="restore it, or compute it again",
        )
    return table


def _of_schema_1(
    header: tuple[str, ...], cells: Mapping[str, list[Cell]]
) -> tuple[tuple[str, ...], dict[str, list[Cell]]]:
    """As the columns are today."""
    old = [name for name in ("status", "label", "predicted") if name in cells]
    rows = [migrated(dict(zip(old, row, strict=True)), 1) for row in zip(*(cells[name] for name in old), strict=True)]
    return (*header, "correct"), {**cells, **{name: [row[name] for row in rows] for name in ("status", "correct")}}


def _columns(
    reader: Iterator[list[str]], wanted: Collection[str] | None, path: Path
) -> tuple[tuple[str, ...], dict[str, list[str]], str]:
    """The header, the texts of the columns that were asked for, and what is wrong with the last line."""
    header = tuple(next(reader, ()))
    if not {"index", "status"} <= set(header):
        raise UsageError(
            f"{path} must be a CSV with the columns index and status, as --out writes, got "
            + (", ".join(header[:5]) or "an empty file")
        )
    if twice := [name for name in header if header.count(name) > 1]:
        raise UsageError(f"{path} has two columns {twice[0]!r}")
    needed = (*ALWAYS, *_case(), *(() if "correct" in header else ("label", "predicted")))  # from which it follows
    names = [name for name in header if wanted is None or name in wanted or name in needed]
    pick = itemgetter(*(header.index(name) for name in names))
    kept: list[tuple[str, ...]] = []
    wrong = ""
    for number, line in enumerate(reader, 2):
        if wrong:
            raise UsageError(wrong, hint="mend or compute the file again")
        if len(line) == len(header):
            kept.append(pick(line))
        elif line:  # the last line may be torn, and then it does not matter
            kept.append(("",) * len(names))
            wrong = f"row {number} of {path} has {len(line)} cells, and the header {len(header)}"
    columns = list(map(list, zip(*kept, strict=True))) if kept else [[] for _ in names]
    return header, dict(zip(names, columns, strict=True)), wrong


def _command(header: Sequence[str], manifest: Mapping[str, Any] | None) -> str:
    told = (manifest or {}).get("command")
    if isinstance(told, str) and told in COLUMNS:
        return told
    # without one, the command that has the most of these columns
    return max(COLUMNS, key=lambda command: sum(column.name in header for column in COLUMNS[command]))


def _parsed(texts: Sequence[str], name: str, command: str, path: Path) -> list[Cell]:
    column = column_named(name, command)
    kind = column.kind if column else _kind(texts)
    if kind is str:
        if name == "status":
            _check_statuses(texts, path)
        seen: dict[str, str] = {}
        return [seen.setdefault(text, unguarded(text)) or None for text in texts]
    found: list[Cell] = []
    for number, text in enumerate(texts, 2):
        try:
            cell = parse(text, kind)
        except (ValueError, KeyError):
            cell = math.nan
        if (isinstance(cell, float) and not math.isfinite(cell)) or (kind is int and abs(int(cell or 0)) > LARGEST):
            words = "a finite number" if kind is float else WORDS[kind]
            raise UsageError(
                f"row {number} of {path}: {name} must be {words} or empty, got {text!r}",
                hint="mend or compute the file again: a figure that is not a number judges nothing",
            )
        found.append(cell)
    return found


def _check_statuses(texts: Sequence[str], path: Path) -> None:
    known = (*Status, MISCLASSIFIED)
    for number, text in enumerate(texts, 2):
        if text not in known and not text.startswith("error:"):
            raise UsageError(f"row {number} of {path}: status must be {', '.join(known)} or error:<kind>, got {text!r}")


def _kind(cells: Iterable[Cell]) -> type:
    """Of a column that this version does not write: numbers where all its cells are."""
    try:
        numbers = [float(cell) for cell in cells if cell not in ("", None)]
    except ValueError:
        return str
    return float if numbers else str


def _check_unique(table: RunTable, path: Path) -> None:
    index = table.cells["index"]
    for case, places in table.cases.items():
        seen: set[Cell] = set()
        for place in places:
            if index[place] is None:
                raise UsageError(f"row {place + 2} of {path} has no index")
            if index[place] in seen:
                raise UsageError(
                    f"{path} has two rows for sample {index[place]} at {case_text(case, table.apart) or 'the same case'}",
                    hint="is it two runs one after the other? give two files",
                )
            seen.add(index[place])


def case_text(case: Case, apart: Collection[str] = ()) -> str:
    """What tells a case from the others: eps 0.1, attack top-k; of several attributions, norms or betas: saliency, l2, beta 20."""
    told = {name: cell for name, cell in case if cell is not None}
    words = [part_name(name, told[name]) for name in apart if name in told]
    words += [f"{name} {_short(told[name])}" for name in ("metric", "eps", "attack", "radius") if name in told]
    if "threshold" in told:
        words.append(f"{told.get('threshold_kind') or 'threshold'} {_short(told['threshold'])}")
    return ", ".join(words)


def _short(cell: Cell) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else " ".join(str(cell).split())
