"""Tables from .csv and .parquet files: a column of labels, and features that are numbers."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from attrcert.errors import DataError, UsageError
from attrcert.loading.class_names import numbered
from attrcert.loading.files import capped, decoding, regular
from attrcert.settings.sources import UNLABELLED
from attrcert.vocabulary import did_you_mean, some

ENDINGS = (".csv", ".parquet")
LABELS = ("label", "target", "class")
NUMBER = 8  # bytes
MOST_WORDS = 20  # that are listed with their numbers


@dataclass(frozen=True)
class Table:
    """The features, a row a sample; labels, and the names of their classes where they are words; what was settled about them."""

    features: np.ndarray
    labels: np.ndarray | None
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of the features


def read_table(path: Path, label_column: str | None, classes: Sequence[str] | None, max_input: str) -> Table:
    """All columns but that of the labels are features, in their order."""
    size = regular(path, "data file", DataError)
    with decoding(f"{path.name} is not a readable {path.suffix} file", DataError):
        if path.suffix == ".csv":
            table = _arrow("csv").read_csv(path)
            column = _checked(table.schema, label_column, path.name)
        else:
            with _arrow("parquet").ParquetFile(path) as file:
                column = _checked(file.schema_arrow, label_column, path.name)
                held = file.metadata.num_rows * file.metadata.num_columns * NUMBER
                capped(held, max_input, path.name, DataError, on_disk=size)
            table = _arrow("parquet").read_table(path, read_dictionary=[column] if column else None)
        if not table.num_rows:
            raise DataError(f"{path.name} must have a row for each sample, and has none below the names of its columns")
        names = tuple(name for name in table.column_names if name != column)
        matrix = np.stack([_numbers(table.column(name)) for name in names], axis=1)
        if column is None:
            return Table(matrix, None, columns=names)
        return Table(matrix, *_labels(table.column(column), column, classes, path.name), names)


def _checked(schema: Any, label_column: str | None, file: str) -> str | None:
    """The column of the labels, if the others are features: names of their own, and numbers. Nothing is read yet of a .parquet."""
    names, types = list(schema.names), _arrow("types")
    if names and all(_is_number(name) for name in names):
        raise DataError(f"{file} must begin with a line of column names, got {some(names)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{file} must have columns of different names, and has several of {some(twice)}")
    column = _label_column(names, label_column, file)
    features = [name for name in names if name != column]
    if not features:
        raise DataError(f"{file} must have columns of features beside {column}")
    for name in features:
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)):
            raise DataError(
                f"features must be numbers, but {name!r} of {file} holds {kind}",
                hint="encode it as numbers, or leave the column out",
            )
    return column


def _arrow(module: str) -> ModuleType:
    """pyarrow, which is an extra."""
    try:
        return importlib.import_module(f"pyarrow.{module}")
    except ModuleNotFoundError as error:
        raise UsageError(
            "tables are read with pyarrow, which is not installed", hint="pip install 'attrcert[tables]'"
        ) from error


def _label_column(names: Sequence[str], said: str | None, file: str) -> str | None:
    if said in names:
        return said
    if said == UNLABELLED:
        return None
    if said is not None:
        raise UsageError(
            f"--label-column must be a column of {file}, got {said!r}",
            hint=did_you_mean(said, names, f"it has {some(names)}"),
        )
    found = [name for name in names if name in LABELS]
    if len(found) == 1:
        return found[0]
    has = f"several of {', '.join(LABELS)}: {', '.join(found)}" if found else f"none of {', '.join(LABELS)}"
    raise UsageError(
        f"the labels of {file} must be in one column, and it has {has}",
        hint=f"say which: --label-column NAME, or '--label-column {UNLABELLED}' where there are no labels",
    )


def _numbers(column: Any) -> np.ndarray:
    """A column of features; what is missing is not a number."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _labels(
    column: Any, name: str, classes: Sequence[str] | None, file: str
) -> tuple[np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Numbers as they are; words by their places among the classes. Each word is held once, however often it comes."""
    if column.null_count:
        raise DataError(f"every sample of {file} must have a label, and {column.null_count} in {name!r} have none")
    types = _arrow("types")
    if types.is_integer(column.type) or types.is_floating(column.type):
        return column.to_numpy(), (), ()
    encoded = column if types.is_dictionary(column.type) else column.dictionary_encode()
    parts = [
        ([str(word) for word in chunk.dictionary.to_pylist()], chunk.indices.to_numpy()) for chunk in encoded.chunks
    ]
    present = sorted({words[place] for words, places in parts for place in np.unique(places)})
    numbers = numbered(present, classes, f"labels in {name!r} of {file}")
    labels = [np.array([numbers.get(word, -1) for word in words], dtype=np.int64)[places] for words, places in parts]
    # no more than the alphabet says what they mean; false is 0 whatever a model was trained with
    told = (
        () if types.is_boolean(column.type) or set(present) & set(classes or ()) else (_numbering(numbers, name, file),)
    )
    return np.concatenate(labels), tuple(classes or present), told


def _numbering(numbers: Mapping[str, int], name: str, file: str) -> str:
    listed = some([f"{word}={number}" for word, number in numbers.items()], MOST_WORDS)
    return f"labels in {name!r} of {file} are words, numbered by the alphabet: {listed} (--classes FILE says another order)"


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
