"""The tables of a run, whichever command made its rows."""

from collections.abc import Sequence
from pathlib import Path

from attrcert.columns import Row
from attrcert.errors import UsageError
from attrcert.reporting.summaries.areas import area_table
from attrcert.reporting.summaries.attacks import attack_tables, summarise_attacks
from attrcert.reporting.summaries.bounds import Summary, bound_tables, summarise
from attrcert.reporting.summaries.fidelity import fidelity_tables
from attrcert.reporting.summaries.inverses import max_eps_table, smooth_table
from attrcert.reporting.summaries.labels import label_tables
from attrcert.reporting.summaries.localised import localised_table, summarise_localised
from attrcert.reporting.summaries.pixels import pixel_table
from attrcert.reporting.summaries.scores import score_table
from attrcert.reporting.summaries.turned import turned_table
from attrcert.reporting.tables.text_table import TextTable


def overview(command: str, rows: Sequence[Row], summary: Summary, *, auc: bool = False) -> tuple[TextTable, ...]:
    """What the command prints."""
    return (*_of_command(command, rows, summary, auc=auc), *label_tables(rows), *fidelity_tables(rows))


def _of_command(command: str, rows: Sequence[Row], summary: Summary, *, auc: bool) -> tuple[TextTable, ...]:
    if command == "attack":
        attacks = summarise_attacks(rows)
        return (*attack_tables(summary, attacks), *([area_table(attacks)] if auc else []))
    if command == "attack-smooth":
        return smooth_table(summary, rows), turned_table(rows)
    if command == "max-eps":
        return (max_eps_table(summary, rows),)
    if command == "score":
        found = summarise_localised(rows)
        return (score_table(summary, rows), *([localised_table(found)] if found else []))
    if command == "pixels":
        return (pixel_table(summary, rows),)
    return (smooth_table(summary, rows),) if command == "certify" else bound_tables(summary)


def overview_of_file(command: str, rows: Sequence[Row], path: Path) -> tuple[TextTable, ...]:
    """Of rows that were read, which may have been edited by hand and hold what no summary is made of."""
    try:
        return overview(command, rows, summarise(rows, {}))
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be summarised: {type(error).__name__}: {error}",
            hint="was it edited, or written by another version?",
        ) from error
