"""How often maps find the object: the shares over all samples that the metric localisation leads to, from rows alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attrcert.columns import Row
from attrcert.columns.score import HITS, STEPS
from attrcert.errors import UsageError
from attrcert.reporting.summaries.statistics import by_part, mean, part_columns, usable
from attrcert.reporting.tables.text_table import TextTable, plain, told
from attrcert.vocabulary import Guarantee, parse_indices, plain_name


@dataclass(frozen=True)
class Peak:
    """The largest share of samples that are hit at one threshold, and the least such threshold."""

    share: float
    threshold: float


@dataclass(frozen=True)
class Localised:
    """Of all samples of the attribution in `of`; `any_part` is by the least IoU."""

    of: Mapping[str, str]
    samples: int
    gt_known: float
    top1: float | None
    largest_part: Peak
    any_part: Mapping[str, Peak]

    @property
    def max_box_acc_v2(self) -> float:
        return sum(best.share for best in self.any_part.values()) / len(self.any_part)

    def as_json(self) -> dict[str, Any]:
        figures = {"gt_known_loc": self.gt_known, "top1_loc": self.top1, "max_box_acc": asdict(self.largest_part)}
        by_iou = {level: asdict(best) for level, best in self.any_part.items()}
        return {**self.of, "samples": self.samples, **figures, "max_box_acc_v2": self.max_box_acc_v2, "by_iou": by_iou}


def summarise_localised(rows: Iterable[Row]) -> tuple[Localised, ...]:
    """Of the rows of that metric; samples that failed are left out."""
    having = [row for row in usable(rows) if row.get("box_hits") is not None]
    return tuple(_group({name: str(cell) for name, cell in of}, part) for of, part in by_part(having).items())


def _group(of: Mapping[str, str], rows: Sequence[Row]) -> Localised:
    largest, *others = (_best(rows, name) for name in HITS)
    return Localised(
        {"attribution": plain_name(str(rows[0].get("attribution"))), **of},
        len(rows),
        _share(rows, "gt_known_loc") or 0.0,
        _share(rows, "top1_loc"),
        largest,
        {name.removeprefix("any "): best for name, best in zip(list(HITS)[1:], others, strict=True)},
    )


def _share(rows: Sequence[Row], name: str) -> float | None:
    return mean([float(bool(row[name])) for row in rows if row.get(name) is not None])


def _best(rows: Sequence[Row], name: str) -> Peak:
    counts = Counter(place for row in rows for place in hit_at(str(row["box_hits"]), name))
    place = min(counts, key=lambda one: (-counts[one], one), default=0)
    return Peak(counts[place] / len(rows), place / STEPS)


def hit_at(text: str, name: str) -> tuple[int, ...]:
    """The thresholds of a kind of hit; none where people have written something else."""
    parts = dict(part.strip().partition(":")[::2] for part in text.split(";"))
    try:
        return parse_indices(parts.get(name, "").strip())
    except UsageError:
        return ()


def localised_table(found: Sequence[Localised]) -> TextTable:
    """A line for each attribution."""
    columns = {
        "Top-1 Loc": lambda one: told(one.top1, _percent),
        "GT-known Loc": lambda one: told(one.gt_known, _percent),
        "MaxBoxAcc": lambda one: _best_text(one.largest_part),
        "MaxBoxAccV2": lambda one: told(one.max_box_acc_v2, _percent),
        **{f"at IoU {level}": _level(level) for level in found[0].any_part},
        "samples": lambda one: str(one.samples),
    }
    keys = part_columns(found)
    notes = (
        "Top-1 Loc, GT-known Loc: the box at --loc-threshold has an IoU of 0.5 or more, and for Top-1 the prediction is right. MaxBoxAcc: "
        "the same at the threshold (@) that is best for all these samples, and for V2 with the box of any part, the mean over IoU 0.3, "
        "0.5 and 0.7. A threshold that was chosen on the samples that it is judged on flatters the map.",
    )
    title = f"How often the map finds the object ({Guarantee.EMPIRICAL})"
    return TextTable.of(title, found, {**keys, **columns}, notes=notes, keys=len(keys))


def _level(level: str) -> Any:
    return lambda one: _best_text(one.any_part[level])


def _best_text(best: Peak) -> str:
    return f"{_percent(best.share)} @{best.threshold:g}"


def _percent(share: float, digits: int = 4) -> str:
    return f"{plain(100 * share, digits)}%"
