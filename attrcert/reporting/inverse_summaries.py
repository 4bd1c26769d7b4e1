"""The summaries of `max-eps`, `min-radius` and of smoothing certificates: a line per case, what holds in words below."""

from collections.abc import Callable, Iterable, Sequence

from attrcert.records import Cell, Row
from attrcert.reporting.summaries import Statistic, Summary, TextTable
from attrcert.vocabulary import Guarantee, Status, round_down, round_up


def max_eps_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """First-order: per threshold, the eps that keep it."""
    groups = _grouped(rows, ("threshold_kind", "threshold"))
    guarantee = next((str(row["guarantee"]) for row in rows if row.get("guarantee")), Guarantee.FIRST_ORDER.value)
    return TextTable(
        title="The largest eps that keeps a threshold: first-order estimates, not certificates",
        facts=_facts(summary),
        header=("threshold", "at most", "guarantee", "eps_max mean", "median", "p5", "min", "samples"),
        cells=tuple(
            (str(kind), f"{_number(value):g}", guarantee, *_lower(group, "eps_max"), str(len(group)))
            for (kind, value), group in groups.items()
        ),
        notes=(
            _counts(summary),
            f"{guarantee}: {Guarantee(guarantee).meaning}. Below eps_max the bound keeps the threshold; an attack may not.",
        ),
    )


def smooth_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """Of whichever task the rows are."""
    if any(row.get("radii_tried") for row in rows):
        return _radius_table(summary, rows)
    if any(row.get("threshold") is not None and row.get("eps") is None for row in rows):
        return _largest_table(summary, rows)
    return _cosine_table(summary, rows)


def _cosine_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    groups = _grouped(rows, ("radius", "eps"))
    return TextTable(
        title=_title(rows, "The cosine that the smoothed attribution keeps within eps"),
        facts=_facts(summary),
        header=("radius", "eps", "C/M", "cosine mean", "median", "p5", "min", "angle mean", "certified", "samples"),
        cells=tuple(
            (
                *(f"{_number(part):.4g}" for part in case),
                _ratio(group),
                *_lower(group, "cosine"),
                _mean(group, "angle_deg", lambda value: f"{round_up(value, 3)}°"),
                _share(_certified(group), len(group)),
                str(len(group)),
            )
            for case, group in groups.items()
        ),
        notes=(
            *_notes(summary, rows),
            "Means are over the samples that have a cosine; of the others nothing follows at that eps.",
        ),
    )


def _largest_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    groups = _grouped(rows, ("radius", "threshold"))
    return TextTable(
        title=_title(rows, "The largest eps within which the smoothed attribution keeps the cosine"),
        facts=_facts(summary),
        header=("radius", "cosine >=", "C/M", "eps_max mean", "median", "p5", "min", "abstained", "samples"),
        cells=tuple(
            (
                *(f"{_number(part):.4g}" for part in case),
                _ratio(group),
                *_lower(group, "eps_max"),
                _share(_abstained(group), len(group)),
                str(len(group)),
            )
            for case, group in groups.items()
        ),
        notes=tuple(_notes(summary, rows)),
    )


def _radius_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    groups = _grouped(rows, ("eps", "threshold"))
    return TextTable(
        title=_title(rows, "The smallest radius of the grid at which the cosine is certified within eps"),
        facts=_facts(summary),
        header=("eps", "cosine >=", "radius mean", "median", "p95", "max", "infeasible", "samples"),
        cells=tuple(
            (
                *(f"{_number(part):.4g}" for part in case),
                *_upper(group, "radius_min"),
                _share(sum(row["status"] == Status.INFEASIBLE for row in group), len(group)),
                str(len(group)),
            )
            for case, group in groups.items()
        ),
        notes=(
            *_notes(summary, rows),
            "Means are over the samples that have a radius; the others are infeasible on this grid.",
        ),
    )


def _title(rows: Sequence[Row], claim: str) -> str:
    return f"{claim}: NOT a certificate" if _not_certified(rows) else claim


def _not_certified(rows: Sequence[Row]) -> bool:
    return any(row.get("guarantee") == Guarantee.EMPIRICAL for row in rows)


def _notes(summary: Summary, rows: Sequence[Row]) -> Iterable[str]:
    yield _counts(summary)
    if _not_certified(rows):
        yield (
            "The published rule is false (a network of four ReLUs breaks it) and is fed with estimates instead of bounds, and "
            f"the paper's clt interval is not a confidence bound: {Guarantee.EMPIRICAL}, for comparison only."
        )
        return
    failure = next((_number(row["failure"]) for row in rows if row.get("failure") is not None), 0.0)
    yield f"{Guarantee.CONFIDENCE}: {Guarantee.CONFIDENCE.meaning}; failure {failure:g}."
    yield (
        "What is certified is the smoothed attribution of the bounded g, in exact expectation over the noise; "
        "C/M is the share of its largest possible length that was certified."
    )


def _counts(summary: Summary) -> str:
    counts = ", ".join(f"{n} {status}" for status, n in sorted(summary.status.items(), key=lambda item: -item[1]))
    return f"{summary.samples} samples (worst status over cases): {counts}."


def _facts(summary: Summary) -> tuple[str, ...]:
    return tuple(f"{name}: {value}" for name, value in summary.facts.items() if value is not None)


def _grouped(rows: Sequence[Row], keys: tuple[str, ...]) -> dict[tuple[Cell, ...], list[Row]]:
    """Rows by case, without those of samples that failed."""
    groups: dict[tuple[Cell, ...], list[Row]] = {}
    for row in rows:
        case = tuple(row.get(key) for key in keys)
        if not str(row["status"]).startswith("error:") and None not in case:
            groups.setdefault(case, []).append(row)
    return groups


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [_number(row[name]) for row in rows if row.get(name) is not None]


def _lower(rows: Sequence[Row], name: str) -> tuple[str, ...]:
    """Mean, median, 5th percentile and least of a figure that is a lower bound; rows without it lie below every value."""
    missing = sum(row.get(name) is None for row in rows)
    negative = Statistic.of([-value for value in _values(rows, name)], beyond=missing)
    figures = (negative.mean, negative.median, negative.p95, negative.max)
    return tuple("-" if figure is None else round_down(-figure, 4) for figure in figures)


def _upper(rows: Sequence[Row], name: str) -> tuple[str, ...]:
    missing = sum(row.get(name) is None for row in rows)
    found = Statistic.of(_values(rows, name), beyond=missing)
    return tuple(
        "-" if figure is None else round_up(figure, 4) for figure in (found.mean, found.median, found.p95, found.max)
    )


def _ratio(rows: Sequence[Row]) -> str:
    ratios = [
        _number(row["C_lower"]) / _number(row["M"]) for row in rows if row.get("M") and row.get("C_lower") is not None
    ]
    return round_down(sum(ratios) / len(ratios), 3) if ratios else "-"


def _mean(rows: Sequence[Row], name: str, text: Callable[[float], str]) -> str:
    values = _values(rows, name)
    return text(sum(values) / len(values)) if values else "-"


def _abstained(rows: Sequence[Row]) -> int:
    return sum(row["status"] == Status.ABSTAINED for row in rows)


def _certified(rows: Sequence[Row]) -> int:
    """Rows with a cosine that is not below the threshold, if there is one."""
    return sum(row.get("cosine") is not None and row["status"] != Status.ABSTAINED for row in rows)


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole}"


def _number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return float(cell)
