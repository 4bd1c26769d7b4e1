"""The tables of `max-eps`, `min-radius` and of smoothing certificates: a line per case, what holds in words below."""

from collections.abc import Iterable, Sequence

from attrcert.columns import Row
from attrcert.reporting.summaries.bounds import Statistic, Summary, counts_text, figures, number
from attrcert.reporting.summaries.cases import CaseSummary, LowStatistic, asked_for, summarise_cases
from attrcert.reporting.tables.text_table import TextTable
from attrcert.vocabulary import Guarantee, Status, round_down, round_up

EVERYWHERE = (
    "everywhere: the threshold is kept at the largest eps that was tested, the largest distance of two images; "
    "eps_max is that distance."
)
CERTIFIED = (
    "What is certified is the smoothed attribution of the bounded g, in exact expectation over the noise; "
    "C/M is the share of its largest possible length that was certified."
)
FALSE = (
    "The published rule is false (a network of four ReLUs breaks it) and is fed with estimates instead of bounds: "
    f"{Guarantee.EMPIRICAL}, for comparison only."
)
BIASED = (
    f"The paper's clt interval is not a confidence bound, being centred at an estimate that is too long: {Guarantee.EMPIRICAL}, "
    "for comparison only."
)


def max_eps_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """First-order or proved: per threshold, the eps that keep it."""
    guarantee = next((str(row["guarantee"]) for row in rows if row.get("guarantee")), Guarantee.FIRST_ORDER.value)
    proved = guarantee == Guarantee.PROVED
    kept = "Within eps_max no perturbation exceeds the threshold."
    return TextTable(
        title="The largest eps that keeps a threshold: "
        + ("proved bounds" if proved else "first-order estimates, not certificates"),
        facts=summary.told("failure"),
        header=("threshold", "at most", "guarantee", "eps_max mean", "median", "p5", "min", "samples"),
        cells=tuple(
            (
                str(part.case["threshold_kind"]),
                f"{number(part.case['threshold']):g}",
                guarantee,
                *_figures(part.statistic),
                str(part.samples),
            )
            for part in summarise_cases(rows)
        ),
        notes=(
            _counts(summary),
            f"{guarantee}: {Guarantee(guarantee).meaning}. "
            + (kept if proved else "Below eps_max the bound keeps the threshold; an attack may not."),
            *([EVERYWHERE] if any(row["status"] == Status.EVERYWHERE for row in rows) else []),
        ),
    )


def smooth_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """Of whichever task the rows are."""
    make = {"cosine": _cosine_table, "eps_max": _largest_table, "radius_min": _radius_table}[asked_for(rows)]
    return make(summary, rows)


def _cosine_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    parts, met = summarise_cases(rows), _met(rows)
    threshold = next((number(row["threshold"]) for row in rows if row.get("threshold") is not None), None)
    verdict = f"{met}: the cosine is " + (
        "above 0." if threshold is None else f"at least {threshold:g} (--min-cosine)."
    )
    return TextTable(
        title=_title(rows, "The cosine that the smoothed attribution keeps within eps"),
        facts=summary.told("failure"),
        header=(_spread(rows), "eps", "C/M", "cosine mean", "median", "p5", "min", "angle mean", met, "samples"),
        cells=tuple(
            (
                *(f"{number(part.case[key]):.4g}" for key in ("radius", "eps")),
                _ratio(part),
                *_figures(part.statistic),
                "-" if part.angle_deg is None else f"{round_up(part.angle_deg, 3)}°",
                f"{part.met}/{part.samples}",
                str(part.samples),
            )
            for part in parts
        ),
        notes=(
            *_notes(summary, rows),
            verdict,
            "Means are over the samples that have a cosine; of the others nothing follows at that eps.",
        ),
    )


def _largest_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    parts = summarise_cases(rows)
    return TextTable(
        title=_title(rows, "The largest eps within which the smoothed attribution keeps the cosine"),
        facts=summary.told("failure"),
        header=(_spread(rows), "cosine >=", "C/M", "eps_max mean", "median", "p5", "min", "abstained", "samples"),
        cells=tuple(
            (
                f"{number(part.case['radius']):.4g}" if "radius" in part.case else "best",
                f"{number(part.case['threshold']):.4g}",
                _ratio(part),
                *_figures(part.statistic),
                _share(part, Status.ABSTAINED),
                str(part.samples),
            )
            for part in parts
        ),
        notes=(*_notes(summary, rows), *_choices(parts, rows)),
    )


def _radius_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    spread, parts = _spread(rows), summarise_cases(rows)
    return TextTable(
        title=_title(rows, f"The smallest {spread} of the grid at which the cosine is {_met(rows)} within eps"),
        facts=summary.told("failure"),
        header=("eps", "cosine >=", f"{spread} mean", "median", "p95", "max", "infeasible", "samples"),
        cells=tuple(
            (
                *(f"{number(part.case[key]):.4g}" for key in ("eps", "threshold")),
                *_figures(part.statistic),
                _share(part, Status.INFEASIBLE),
                str(part.samples),
            )
            for part in parts
        ),
        notes=(
            *_notes(summary, rows),
            f"Means are over the samples that have a {spread}; the others are infeasible on this grid.",
            *_ends(rows),
        ),
    )


def _title(rows: Sequence[Row], claim: str) -> str:
    return f"{claim}: NOT a certificate" if _not_certified(rows) else claim


def _not_certified(rows: Sequence[Row]) -> bool:
    return any(row.get("guarantee") == Guarantee.EMPIRICAL for row in rows)


def _met(rows: Sequence[Row]) -> str:
    return "claimed" if _not_certified(rows) else "certified"


def _spread(rows: Sequence[Row]) -> str:
    return "sigma" if any(row.get("noise") == "gaussian" for row in rows) else "radius"


def _notes(summary: Summary, rows: Sequence[Row]) -> Iterable[str]:
    yield _counts(summary)
    yield from _draws(rows)
    if any(row.get("rule") == "published" for row in rows):
        yield FALSE
    if any(row.get("confidence") == "clt" for row in rows):
        yield BIASED
    if not _not_certified(rows):
        failure = next((number(row["failure"]) for row in rows if row.get("failure") is not None), 0.0)
        shared = f" {summary.facts['failure']}" if summary.facts.get("failure") else ""
        yield f"{Guarantee.CONFIDENCE}: {Guarantee.CONFIDENCE.meaning}; failure {failure:g}{shared}."
        yield CERTIFIED


def _draws(rows: Sequence[Row]) -> Iterable[str]:
    """How many were used; fewer than asked for where drawing stopped early."""
    used = figures(list({row["index"]: row for row in rows if row.get("samples") is not None}.values()), "samples")
    if used and min(used) < max(used):
        yield f"Draws used: {sum(used) / len(used):.0f} on average, {min(used):.0f} to {max(used):.0f}."
    elif used:
        yield f"Draws used: {max(used):.0f} for each sample."


def _choices(parts: Sequence[CaseSummary], rows: Sequence[Row]) -> Iterable[str]:
    """Which radii were the best, and whether others might be better."""
    spread = _spread(rows)
    for part in parts:
        chosen = ", ".join(f"{radius:g} on {count}" for radius, count in part.chosen.items())
        if chosen:
            yield f"cosine >= {number(part.case['threshold']):g}: the best {spread} is {chosen} of {part.samples} samples."
    grid = next((_tried(row) for row in rows if row.get("radii_tried")), [])
    for end, word, factor in ((grid[0], "smaller", 0.5), (grid[-1], "larger", 2.0)) if grid else ():
        count = sum(part.chosen.get(end, 0) for part in parts)
        if count:
            yield (
                f"{count} of these are at the {word} end of the grid, and {word} ones may do better: "
                f"try --{spread} {factor * end:g},{factor**2 * end:g}."
            )


def _ends(rows: Sequence[Row]) -> Iterable[str]:
    """Whether smaller or larger radii should be tried."""
    lowest = sum(row.get("radius_min") == min(_tried(row)) for row in rows if row.get("radius_min") is not None)
    if lowest:
        yield f"{lowest} rows have the smallest {_spread(rows)} of the grid: smaller ones may do too (--radii)."
    if any(row["status"] == Status.INFEASIBLE for row in rows):
        yield "Where it is infeasible: try larger ones (--max-radius), more --samples, a smaller --eps or a lower --min-cosine."


def _tried(row: Row) -> list[float]:
    """The radii tested, from the smallest."""
    return sorted(float(part.partition(":")[0]) for part in str(row["radii_tried"]).split("; "))


def _counts(summary: Summary) -> str:
    counts = counts_text(summary.status, summary.misclassified)
    return f"{summary.samples} samples (worst status over cases): {counts}."


def _figures(statistic: LowStatistic | Statistic) -> tuple[str, ...]:
    """A lower figure is rounded down, an upper one up."""
    if isinstance(statistic, LowStatistic):
        low = (statistic.mean, statistic.median, statistic.p5, statistic.min)
        return tuple("-" if figure is None else round_down(figure, 4) for figure in low)
    high = (statistic.mean, statistic.median, statistic.p95, statistic.max)
    return tuple("-" if figure is None else round_up(figure, 4) for figure in high)


def _ratio(part: CaseSummary) -> str:
    return "-" if part.ratio is None else round_down(part.ratio, 3)


def _share(part: CaseSummary, status: Status) -> str:
    return f"{part.status.get(status, 0)}/{part.samples}"
