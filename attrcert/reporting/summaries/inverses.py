"""The tables of `max-eps`, `min-radius` and of smoothing certificates: a line per case, what holds in words below."""

from collections.abc import Callable, Iterable, Sequence

from attrcert.columns import Cell, Row
from attrcert.reporting.summaries.bounds import Summary, counts_text
from attrcert.reporting.summaries.cases import CaseSummary, asked_for, summarise_cases
from attrcert.reporting.summaries.statistics import LowStatistic, by_part, figures, mean, number, part_columns, spoken
from attrcert.reporting.tables.text_table import TextTable, plain, told
from attrcert.vocabulary import CENTRE, THRESHOLDS, Guarantee, Status, round_down, round_up

EVERYWHERE = (
    "everywhere: the threshold is kept at the largest eps that was tested, the largest distance of two images; "
    "eps_max is that distance."
)
CERTIFIED = "What is certified is the smoothed attribution of the bounded g, in exact expectation over the noise"
CENTRE_CERTIFIED = (
    "What is certified is the centre of half of the unit maps under noise, at x and, by draws of its own, at x + delta; not their mean. "
    "These rows are for comparison with --smooth gaussian"
)
SHARE = "C_lower/M is the share of its largest possible length that was certified"
FALSE = (
    "The published rule is false (a network of four ReLUs breaks it) and is fed with estimates instead of bounds: "
    f"{Guarantee.EMPIRICAL}, for comparison only."
)
BIASED = (
    f"The paper's clt interval is not a confidence bound, being centred at an estimate that is too long: {Guarantee.EMPIRICAL}, "
    "for comparison only."
)
WORTH_TELLING = 1.02
Columns = dict[str, Callable[[CaseSummary], str]]
Parts = tuple[str, Columns, Iterable[str]]  # of a table: what it claims, its columns, the notes of its own
LENGTH: Columns = {"C_lower/M": lambda part: told(part.ratio, round_down, 3)}
SAMPLES: Columns = {"samples": lambda part: str(part.samples)}


def max_eps_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """First-order or proved: per threshold, the eps that keep it."""
    guarantee = next((str(row["guarantee"]) for row in rows if row.get("guarantee")), Guarantee.FIRST_ORDER.value)
    proved = guarantee == Guarantee.PROVED
    kept = "Within eps_max no perturbation exceeds the threshold."
    cases = summarise_cases(rows)
    keys = part_columns(cases)
    return TextTable.of(
        "The largest eps that keeps a threshold: "
        + ("proved bounds" if proved else "first-order estimates, not certificates"),
        cases,
        {
            **keys,
            "threshold_kind": lambda part: str(part.case["threshold_kind"]),
            "threshold": lambda part: f"{_sign(part.case['threshold_kind'])} {number(part.case['threshold']):g}",
            "guarantee": lambda _: guarantee,
            **_statistics("eps_max", "p5", "min"),
            **SAMPLES,
        },
        facts=summary.told("failure"),
        notes=(
            _counts(summary),
            f"{guarantee}: {Guarantee(guarantee).meaning}. "
            + (kept if proved else "Below eps_max the bound keeps the threshold; an attack may not."),
            *([EVERYWHERE] if any(row["status"] == Status.EVERYWHERE for row in rows) else []),
        ),
        keys=len(keys) + 1,
    )


def smooth_table(summary: Summary, rows: Sequence[Row]) -> TextTable:
    """Of whichever task the rows are."""
    claim, columns, notes = {"cosine": _cosine, "eps_max": _largest, "radius_min": _smallest}[asked_for(rows)](rows)
    title = f"{claim}: NOT a certificate" if _not_certified(rows) else claim
    cases, facts = summarise_cases(rows), summary.told("failure")
    keys = part_columns(cases)
    return TextTable.of(
        title,
        cases,
        {**keys, **columns},
        facts=facts,
        notes=[*_notes(summary, rows), *notes],
        keys=len(keys) + 1,
    )


def _cosine(rows: Sequence[Row]) -> Parts:
    met = _met(rows)
    threshold = next((number(row["threshold"]) for row in rows if row.get("threshold") is not None), None)
    verdict = "above 0." if threshold is None else f"at least {threshold:g} (--min-cosine)."
    centred = [row for row in rows if row.get("noise") == CENTRE]
    vacuous = sum(number(row.get("cosine") or 0) <= 0 for row in centred)
    columns = {
        _spread(rows): _case("radius"),
        "eps": _case("eps"),
        **LENGTH,
        **_statistics("cosine", "p5", "min"),
        "angle_deg mean": lambda part: told(part.angle_deg, round_up, 3) + ("" if part.angle_deg is None else "°"),
        met: lambda part: f"{part.met}/{part.samples}",
        **SAMPLES,
    }
    notes = (
        f"{met}: the cosine is {verdict}",
        "Means are over the samples that have a cosine; of the others nothing follows at that eps.",
        *([f"Vacuous: 1 - cosine is not bounded below 1 on {vacuous} of {len(centred)} rows."] if vacuous else []),
    )
    return "The cosine that the smoothed attribution keeps within eps", columns, notes


def _largest(rows: Sequence[Row]) -> Parts:
    columns = {
        _spread(rows): lambda part: _case("radius")(part) if "radius" in part.case else "best",
        "cosine >=": _case("threshold"),
        **LENGTH,
        **_statistics("eps_max", "p5", "min"),
        **_share(Status.ABSTAINED),
        **SAMPLES,
    }
    claim = "The largest eps within which the smoothed attribution keeps the cosine"
    return claim, columns, _choices(summarise_cases(rows), rows)


def _smallest(rows: Sequence[Row]) -> Parts:
    spread = _spread(rows)
    columns = {
        "eps": _case("eps"),
        "cosine >=": _case("threshold"),
        **_statistics(spread, "p95", "max"),
        **_share(Status.INFEASIBLE),
        **SAMPLES,
    }
    means = f"Means are over the samples that have a {spread}; the others are infeasible on this grid."
    claim = f"The smallest {spread} of the grid at which the cosine is {_met(rows)} within eps"
    return claim, columns, (means, *_ends(rows))


def _not_certified(rows: Sequence[Row]) -> bool:
    return any(row.get("guarantee") == Guarantee.EMPIRICAL for row in rows)


def _met(rows: Sequence[Row]) -> str:
    return "claimed" if _not_certified(rows) else "certified"


def _spread(rows: Sequence[Row]) -> str:
    return "sigma" if any(row.get("noise") in ("gaussian", CENTRE) for row in rows) else "radius"


def _notes(summary: Summary, rows: Sequence[Row]) -> Iterable[str]:
    yield _counts(summary)
    yield from _draws(rows)
    if _spread(rows) != "radius":
        yield "sigma is the column radius of the rows."
    if any(row.get("rule") == "published" for row in rows):
        yield FALSE
    if any(row.get("confidence") == "clt" for row in rows):
        yield BIASED
    if not _not_certified(rows):
        failure = next((number(row["failure"]) for row in rows if row.get("failure") is not None), 0.0)
        shared = f" {summary.facts['failure']}" if summary.facts.get("failure") else ""
        yield f"{Guarantee.CONFIDENCE}: {Guarantee.CONFIDENCE.meaning}; failure {failure:g}{shared}."
        centred = any(row.get("noise") == CENTRE for row in rows)
        without = asked_for(rows) == "radius_min" or centred
        claim = CENTRE_CERTIFIED if centred else CERTIFIED
        yield f"{claim}." if without else f"{claim}; {SHARE}."
        for of, part in by_part(rows).items():
            yield from (": ".join([*spoken(dict(of)), note]) for note in _instead(part))


def _sign(kind: Cell) -> str:
    """Whether a threshold is a most or a least."""
    return ">=" if THRESHOLDS.get(str(kind), ("",))[0].startswith("min") else "<="


def _instead(rows: Sequence[Row]) -> Iterable[str]:
    """What more draws would give, and Gaussian noise in place of uniform noise."""
    name, draws = asked_for(rows), max(figures(rows, "samples"), default=0)
    for column, better, how in (
        ("twice", "Twice as many draws would give", f"--samples {2 * draws:.0f}"),
        (
            "gaussian", "Gaussian noise of sigma = radius / sqrt(d) averages over nearly the same images and would give",
            f"--smooth gaussian --sigma {max(figures(rows, 'gaussian_sigma'), default=0):.3g}",
        ),
    ):  # fmt: skip
        both = [row for row in rows if row.get(column) is not None and row.get(name) is not None]
        there, here = mean(figures(both, column)), mean(figures(both, name))
        if there is not None and here is not None and there > WORTH_TELLING * here:
            yield f"{better} a mean {name} of about {there:.3g} instead of {here:.3g} ({how})."


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
            yield ", ".join([*spoken(part.of), ""]) + (
                f"cosine >= {number(part.case['threshold']):g}: the best {spread} is {chosen} of {part.samples} samples."
            )
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


def _statistics(figure: str, *tail: str) -> Columns:
    """Mean, median and the tail; a lower figure is rounded down, an upper one up."""
    return {f"{figure} mean": _statistic("mean"), **{name: _statistic(name) for name in ("median", *tail)}}


def _statistic(name: str) -> Callable[[CaseSummary], str]:
    def cell(part: CaseSummary) -> str:
        rounded = round_down if isinstance(part.statistic, LowStatistic) else round_up
        return told(getattr(part.statistic, name), rounded)

    return cell


def _case(name: str) -> Callable[[CaseSummary], str]:
    return lambda part: plain(number(part.case[name]), 4)


def _share(status: Status) -> Columns:
    return {status.value: lambda part: f"{part.status.get(status, 0)}/{part.samples}"}
