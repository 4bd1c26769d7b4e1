"""The columns of rows, by command; a column is declared once, and everything that shows or judges it asks its declaration."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import product

from attrcert.columns.attack import (
    ATTACK,
    CORRECT,
    METRIC_COLUMNS,
    ON_REQUEST,
    TRANSFERRED,
    transfer_column,
    transferred,
)
from attrcert.columns.bound import BOUND, FIDELITY, TURNED
from attrcert.columns.column import DEGREES, OF_ROW, Cell, Column, Row
from attrcert.columns.common import APART, CLOSING, COMMON
from attrcert.columns.inverse import DEVIATION_ALLOWED, INVERSE
from attrcert.columns.pixels import COUNTS, PIXELS
from attrcert.columns.score import METRIC, score_row
from attrcert.columns.smoothed import SMOOTH
from attrcert.columns.turned import SMOOTH_ATTACK, TURN
from attrcert.errors import UsageError
from attrcert.vocabulary import MEASURED, Aim, Guarantee

__all__ = [
    "APART", "ATTACKING", "CORRECT", "COUNTS", "DEGREES", "DEVIATION_ALLOWED", "FIDELITY", "INVERSE", "METRIC", "METRIC_COLUMNS", "OF_ROW",
    "ON_REQUEST", "SMOOTH",
    "SMOOTH_ATTACK", "TRANSFERRED", "TURN", "TURNED", "Cell", "Column", "Row", "transfer_column",
]  # fmt: skip
COLUMNS: dict[str, tuple[Column, ...]] = {
    "bound": COMMON + BOUND + CLOSING,
    "attack": COMMON + BOUND + ATTACK + CLOSING,
    "max-eps": (*COMMON, *INVERSE, DEVIATION_ALLOWED, *BOUND, *CLOSING),
    "certify": (*COMMON, *INVERSE[:-1], replace(INVERSE[-1], compared=("mean",)), *SMOOTH, *CLOSING),
    "pixels": COMMON + PIXELS + CLOSING,
    "attack-smooth": (*COMMON, *INVERSE[:-1], *SMOOTH, *SMOOTH_ATTACK, *CLOSING),
    "score": (*COMMON, *score_row(), *CLOSING),
}
ATTACKING = ("attack", "attack-smooth")  # whose rows have verdicts


def register(column: Column, *commands: str) -> None:
    """Declare one more column of the rows of these commands, before what every row ends with; files without it are read as they are."""
    for command in commands:
        if command not in COLUMNS:
            raise UsageError(f"the command must be one of {', '.join(COLUMNS)}, got {command!r}")
        if any(own.name == column.name for own in COLUMNS[command]):
            raise UsageError(f"the column {column.name!r} of {command} is there already", hint="choose another name")
    for command in commands:
        COLUMNS[command] = with_columns(command, [replace(column, added=True)])


def with_columns(command: str, more: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a command and some more."""
    return (*COLUMNS[command][: -len(CLOSING)], *more, *CLOSING)


def declared() -> tuple[Column, ...]:
    """All columns of all commands, each once."""
    return tuple({(one.name, one.meaning): one for columns in COLUMNS.values() for one in columns}.values())


def headlines(command: str) -> list[Column]:
    """The figures that summaries show, in their order."""
    return sorted((column for column in COLUMNS[command] if column.headline), key=lambda column: column.rank)


def verdicts(command: str = "attack") -> list[tuple[Column, Column]]:
    """The flags of an attack's rows, each with the bound that it is about."""
    by_name = {column.name: column for column in COLUMNS[command]}
    return [(column, by_name[column.judges]) for column in COLUMNS[command] if column.judges]


def checked(rows: Iterable[Row], columns: Iterable[Column]) -> Iterable[Row]:
    """Rows as they are; a cell that no column declares is a mistake of the program that made it."""
    names = {column.name for column in columns}
    for row in rows:
        undeclared = row.keys() - names
        assert not undeclared, f"no column is declared for the cells {', '.join(sorted(undeclared))}"
        yield row


def filled(rows: Iterable[Row], columns: Sequence[Column]) -> list[Row]:
    """Rows with every cell of the columns, empty where they have none."""
    empty = {column.name: None for column in columns}
    return [{**empty, **row} for row in checked(rows, columns)]


def guarantees(name: str, command: str, of_rows: Iterable[Cell]) -> tuple[Guarantee, ...]:
    """What the figures of a column promise in a run whose rows say `of_rows`; nothing where it is no figure of that kind."""
    column = column_named(name, command)
    if column is None or column.guarantee is None:
        return ()
    if column.guarantee == OF_ROW:
        present = set(of_rows)
        return tuple(guarantee for guarantee in Guarantee if guarantee.value in present)
    return (column.guarantee,)


def worth(name: str, command: str, guarantee: Guarantee) -> str:
    """What a guarantee says of the figures of a column: not all that is empirical was sought as a worst case."""
    column = column_named(name, command)
    if guarantee is not Guarantee.EMPIRICAL or column is None:
        return guarantee.meaning
    if command == "score" or column in ON_REQUEST.values():
        return MEASURED
    if column.aim is Aim.PREDICTION or name.endswith(CORRECT):
        return "what an attack reached: a stronger one may fool more samples"
    return (
        guarantee.meaning
        if column.worse == "up"
        else "what an attack or a sample reached: the worst case is as bad, or worse"
    )


def column_named(name: str, command: str) -> Column | None:
    """A column that rows of this command can have."""
    own = (column for column in COLUMNS.get(command, ()) if column.name == name)
    if found := next(own, None):
        return found
    if command == "attack" and (asked := next((one for one in ON_REQUEST.values() if one.name == name), None)):
        return asked
    figure = next((figure for figure in (*TRANSFERRED, *CORRECT) if name.endswith(f"_{figure}")), None)
    if command != "attack" or figure is None:
        return None
    other = "checkpoint" if figure in CORRECT else "attribution"
    return transferred(name, figure, f"{figure} of another {other} at the same perturbation")


def unit_of(name: str) -> str:
    """Of whatever command's column."""
    found = (column_named(name, command) for command in COLUMNS)
    return next((column.unit for column in found if column is not None), "")


def attack_columns(
    transfer: Sequence[str], metrics: Collection[str] = (), checkpoints: Sequence[str] = ()
) -> tuple[Column, ...]:
    """The columns of an attack, with those of the scores that were asked for, and of the attributions and checkpoints that it was
    transferred to.
    """
    told = [*product(transfer, TRANSFERRED), *product(checkpoints, CORRECT)]
    carried = [
        transferred(transfer_column(name, figure), figure, f"{figure} of {name} at the same perturbation")
        for name, figure in told
    ]
    return with_columns("attack", [*(column for name, column in ON_REQUEST.items() if name in metrics), *carried])
