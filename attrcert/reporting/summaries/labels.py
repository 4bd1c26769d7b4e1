"""Figures without and with the label constraint beside each other, as Tables 6 and 7 of wang2023practical have them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attrcert.columns import COLUMNS, DEGREES, Cell, Row
from attrcert.reporting.summaries.statistics import InCase, by_part, figures, grouped, key_columns, mean, number, usable
from attrcert.reporting.tables.text_table import TextTable, told
from attrcert.vocabulary import round_down, round_up

PAIRS = {  # without the constraint, and with it
    "T_hat_e_free": "T_hat_e",
    "T_e": "T_e_label",
    "T_hat_c_free_deg": "T_hat_c_deg",
    "T_c_deg": "T_c_label_deg",
}
NOTE = (
    "T_hat_e_free, T_hat_c_free_deg, T_e and T_c_deg are of all perturbations, T_hat_e and T_hat_c_deg of those that keep the label, "
    "T_e_label and T_c_label_deg of those that keep it in the linearised model. What attacks reached is empirical, the bounds are "
    "first-order. label_matters: the samples whose first-order bound the constraint lowers."
)
FARTHER = "freed: the samples on which the attack gets farther where the label may change, by more than rounding."


@dataclass(frozen=True)
class Compared(InCase):
    """The samples at one eps, under one attack where there are attacks: means, of how many samples, on how many the constraint lowers the
    bound, and on how many what the attack reached.
    """

    attack: str | None
    means: Mapping[str, float | None]
    counts: Mapping[str, int]
    matters: int
    freed: int
    samples: int


def compared_labels(rows: Sequence[Row]) -> tuple[Compared, ...]:
    """In the order in which they came; nothing where that was not asked for."""
    good = [row for row in usable(rows) if row.get("label_matters") is not None]
    return tuple(
        _compared(dict(of), number(eps), None if attack is None else str(attack), group)
        for of, part in by_part(good).items()
        for (eps, attack), group in grouped(part, lambda row: (row["eps"], row.get("attack"))).items()
    )


def _compared(of: Mapping[str, Cell], eps: float, attack: str | None, rows: Sequence[Row]) -> Compared:
    found = {name: figures(rows, name) for pair in PAIRS.items() for name in pair}
    means, counts = {name: mean(one) for name, one in found.items()}, {name: len(one) for name, one in found.items()}
    matters = sum(row["label_matters"] is True for row in rows)
    return Compared(of, eps, attack, means, counts, matters, sum(map(_is_freed, rows)), len(rows))


def _is_freed(row: Row) -> bool:
    free, kept, floor = (number(row.get(name) or 0.0) for name in ("T_hat_e_free", "T_hat_e", "T_hat_floor"))
    return free - kept > floor


def label_tables(rows: Sequence[Row]) -> tuple[TextTable, ...]:
    """One, where a run compared them."""
    found = compared_labels(rows)
    names = [name for pair in PAIRS.items() for name in pair if any(one.counts[name] for one in found)]
    if not found:
        return ()
    attacks: dict[str, Callable[[Compared], str]] = {"attack": lambda one: str(one.attack)}
    keys = {**key_columns(found), **(attacks if found[0].attack else {})}
    columns = {
        **keys,
        **{name: _cell(name) for name in names},
        "label_matters": lambda one: f"{one.matters}/{one.samples}",
        **({"freed": lambda one: f"{one.freed}/{one.samples}"} if found[0].attack else {}),
    }
    notes = (NOTE, FARTHER) if found[0].attack else (NOTE,)
    return (TextTable.of("Without and with the label constraint, means", found, columns, notes=notes, keys=len(keys)),)


def _cell(name: str) -> Callable[[Compared], str]:
    """A mean, with the number of samples that it is over where that is not all."""
    column = next(column for column in COLUMNS["attack"] if column.name == name)
    rounded = round_down if column.reached else round_up

    def text(one: Compared) -> str:
        unit = "°" if column.unit == DEGREES and one.counts[name] else ""
        some = f" (n={one.counts[name]})" if 0 < one.counts[name] < one.samples else ""
        return told(one.means[name], rounded, 3) + unit + some

    return text


def labels_told(rows: Sequence[Row]) -> list[str]:
    """How often the constraint matters, in a sentence."""
    samples = grouped((row for row in rows if row.get("label_matters") is not None), lambda row: row["index"]).values()
    if not samples:
        return []
    lowered = sum(any(row["label_matters"] is True for row in one) for one in samples)
    said = f"Keeping the label lowers the first-order bound on {lowered} of {len(samples)} samples"
    if any(row.get("T_hat_e_free") is not None for row in rows):
        said += f", and what attacks reach on {sum(any(map(_is_freed, one)) for one in samples)}"
    return [f"{said}."]
