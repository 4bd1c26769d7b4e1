"""What each version of the files has: how rows and settings of an older version read today, and which files are too new.

A new column says `since` which schema it is there and is a step in `MIGRATIONS`, with `SCHEMA` one higher; a new setting is a line in
`INTRODUCED`, with `SETTINGS` one higher; a command with a new name is a line in `RENAMED`. Version 1 is what attrcert 0.1 wrote.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from attrcert.columns import COLUMNS, Cell, Column, Row, column_named, with_columns

SCHEMA = 5  # of the columns
SETTINGS = 2  # of the identity's keys
MISCLASSIFIED = "misclassified"  # in schema 1 a status of its own, which vacuous hid
RENAMED = {"smooth": "certify"}  # commands whose rows had another name: the certificates of --smooth, in 0.1
# a later setting: since which version, and what all did before; runs without --proved do the same whatever their effort
INTRODUCED: dict[str, tuple[int, Any]] = {
    "k": (2, None), "min_top_k": (2, []), "transfer_from": (2, []), "lrp_rule": (2, "zb"), "lrp_stabiliser": (2, 1e-6),
    "layer": (2, None), "proved_effort": (2, 16), "fill": (2, "zero"), "shares": (2, 20),
}  # fmt: skip


def _with_correct(row: Row) -> Row:
    """Since schema 2 a column says whether the prediction is the label."""
    label, predicted = row.get("label"), row.get("predicted")
    correct = None if label is None or predicted is None else label == predicted
    return {**row, "status": "ok" if row["status"] == MISCLASSIFIED else row["status"], "correct": correct}


def _as_it_is(row: Row) -> Row:
    """What later schemas added was not computed before."""
    return row


# from a schema: a row of it as the next one has it
MIGRATIONS: Mapping[int, Callable[[Row], Row]] = {1: _with_correct, 2: _as_it_is, 3: _as_it_is, 4: _as_it_is}


def of_today(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest of whatever version under the names that this one has."""
    command = manifest.get("command")
    return {**manifest, "command": RENAMED.get(str(command), command)}


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings in which two runs differ, and both values. A missing one is what versions did that did not have it."""
    return {
        key: (setting(ours, key), setting(theirs, key))
        for key in dict.fromkeys((*ours, *theirs))
        if setting(ours, key) != setting(theirs, key)
    }


def setting(identity: Mapping[str, Any], key: str) -> Any:
    return identity[key] if key in identity else INTRODUCED.get(key, (SETTINGS, None))[1]


def too_new(manifest: Mapping[str, Any]) -> str:
    """What of a file this version cannot know, and which version wrote it; nothing where it can."""
    for name, known in (("schema", SCHEMA), ("settings", SETTINGS)):
        found = manifest.get(name, 1)
        if isinstance(found, int) and found > known:
            return (
                f"was written by {_writer(manifest)} with {name} version {found}, and this version knows up to {known}"
            )
    return ""


def _writer(manifest: Mapping[str, Any]) -> str:
    versions = manifest.get("versions")
    named = versions.get("attrcert") if isinstance(versions, dict) else None
    return f"attrcert {named}" if isinstance(named, str) else "a later attrcert"


def columns_at(columns: Sequence[Column], schema: int, header: Collection[str]) -> tuple[Column, ...]:
    """Those of today's columns that a schema had; those that were registered from outside, where the header has them."""
    return tuple(one for one in columns if one.since <= schema and (not one.added or one.name in header))


def schema_of(header: Sequence[str], columns: Sequence[Column]) -> int | None:
    """The latest schema in which these columns have this header."""
    names = list(header)
    fitting = (s for s in range(SCHEMA, 0, -1) if names == [column.name for column in columns_at(columns, s, names)])
    return next(fitting, None)


def migrated(row: Row, schema: int) -> dict[str, Cell]:
    """A row of an older schema as it is written today."""
    for step in range(schema, SCHEMA):
        row = MIGRATIONS[step](row)
    return dict(row)


def columns_now(header: Sequence[str], command: str) -> tuple[Column, ...]:
    """Today's columns of a run whose CSV has this header, of whatever schema; an attack may have transferred figures too."""
    own = {column.name for column in COLUMNS[command]}
    others = (column_named(name, command) for name in header if name not in own)
    return with_columns(command, [column for column in others if column is not None])


def is_header(names: Iterable[str]) -> bool:
    """Whether a CSV of any command begins so, in any version."""
    header = list(names)
    return any(schema_of(header, columns_now(header, command)) is not None for command in COLUMNS)
