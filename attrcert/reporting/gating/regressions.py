"""Whether a run is worse than a baseline: the same figure of both, paired by sample, with a bootstrap interval of the difference."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attrcert.columns import verdicts
from attrcert.reporting.gating.baselines import Pair
from attrcert.reporting.gating.comparisons import complies
from attrcert.reporting.gating.judgements import Refuted, Terms, finite
from attrcert.reporting.gating.possibilities import check_can_worsen
from attrcert.reporting.gating.refutations import WORST
from attrcert.reporting.gating.rules import Allowance, Comparison
from attrcert.reporting.gating.selections import Selection, applies, no_run_has, quick_statistic, select, statistic
from attrcert.reporting.gating.verdicts import Judged, Observation
from attrcert.saved.runfiles import RunTable
from attrcert.vocabulary import Status

RESAMPLES, FEWEST, COVERED = 2000, 500, 0.95
WORK = 10_000_000  # numbers that a bootstrap draws at most; with more samples it draws fewer resamples
SEED = 0


def judge_allowance(allowance: Allowance, pairs: Sequence[Pair], terms: Terms) -> Judged:
    """The figure has not become worse than the baseline's by more than was allowed, in any case that both runs have; it passes if no
    attack exceeded the figures of either.
    """
    figure = allowance.figure
    having = [pair for pair in pairs if applies(figure, pair.new) and applies(figure, pair.old)]
    if not having:
        raise no_run_has(figure, [table for pair in pairs for table in (pair.new, pair.old)])
    observations = []
    without = [pair.new.name for pair in pairs if pair not in having]
    notes = [f"{name} is not compared: it or its baseline has no such figure" for name in without]
    for pair in having:
        sign = _sign(allowance, pair.new)
        check_can_worsen(allowance, sign, pair.new)
        matched, alone_cases = _matched(allowance, pair, terms.waived)
        notes += alone_cases
        for new, old in matched:
            here, there = _common(new, old) if pair.paired else (new, old)
            if not len(here):
                raise figure.error(f"{new.run} and {old.run} must have a sample in common")
            terms.check_enough(here)
            terms.check_enough(there)
            alone = len({*new.indices, *old.indices}) - len(here) if pair.paired else None
            refuted = terms.refuted(figure, here, pair.new)
            refuted += terms.refuted(figure, there, pair.old).said_of("the baseline")
            observations.append(_observed(allowance, sign, here, there, alone, refuted))
    return observations, notes


def _matched(
    allowance: Allowance, pair: Pair, waived: frozenset[int]
) -> tuple[list[tuple[Selection, Selection]], tuple[str, ...]]:
    """The cases of both, and a note of the others; where nothing may differ, there are none."""
    figure = allowance.figure
    new, old = ({one.key: one for one in select(figure, table, waived)} for table in (pair.new, pair.old))
    if pair.allowed and len(new) == len(old) == 1:  # one case each, which may differ
        return list(zip(new.values(), old.values(), strict=True)), ()
    alone = [one for side in (new, old) for key, one in side.items() if not (key in new and key in old)]
    if alone and (not pair.allowed or len(alone) == len(new) + len(old)):
        other = pair.old if alone[0].run == pair.new.name else pair.new
        raise figure.error(
            f"{alone[0].run} has {alone[0].case or 'a case'}, and {other.name} has not",
            "a filter such as [eps=0.1] picks the cases to compare",
        )
    notes = tuple(f"{one.case} of {one.run} is not compared: the other run has it not" for one in alone)
    return [(one, old[key]) for key, one in new.items() if key in old], notes


def _sign(allowance: Allowance, table: RunTable) -> int:
    """1 where more is worse, -1 where less is."""
    figure = allowance.figure
    column = table.column(figure.column) if figure.column and figure.statistic != "std" else None
    faults = bool(figure.counted) and all(map(_is_fault, figure.counted))
    known = {"up": 1, "down": -1, None: 0}[column.worse if column else None] or int(faults)
    if not (known or allowance.sign):
        raise figure.error(
            f"it is not known which way {figure.text} gets worse",
            "give a sign: +5% for at most 5% more, -5% for at most 5% less",
        )
    if known and allowance.sign not in (0, known):
        raise figure.error(
            f"{figure.text} gets worse {'upwards' if known > 0 else 'downwards'}, and the sign says the opposite",
            "leave the sign out",
        )
    return known or allowance.sign


def _is_fault(term: Comparison) -> bool:
    """Whether what is counted is a fault: an exceeded bound, or a status that is not ok."""
    value = term.value.text.lower() if term.value else "true"
    if term.column in {flag.name for flag, _ in verdicts()}:
        return (value == "true") is (term.comparator in ("", "=="))
    return term.column == "status" and (value != Status.OK) is (term.comparator == "==")


def _observed(
    allowance: Allowance, sign: int, new: Selection, old: Selection, alone: int | None, refuted: Refuted
) -> Observation:
    """By how much it is worse; the verdict is the estimate's, the interval says how much of it the choice of samples could be.

    `alone` samples are in one run only; None where samples are not paired.
    """
    figure = allowance.figure
    now, before = (statistic(figure, side.values) for side in (new, old))
    difference = float(_difference(now, before, relative=allowance.relative))
    if np.isnan(difference):
        raise figure.error(
            f"{figure.text} is {now:g} and was {before:g}, of which there is no difference",
            "leave out the samples without a bound: [status != vacuous]",
        )
    low, high = _interval(allowance, new, old, paired=alone is not None)
    return Observation(
        run=new.run,
        case=new.case,
        observed=f"{before:.4g} to {now:.4g}: {_text(difference, allowance)}{_range((low, high), allowance)}",
        outcome=refuted.outcome(held=complies(sign * difference, "<=", allowance.amount)),
        samples=len(new),
        notes=(*_notes(alone), *refuted.notes),
        worst=_moved(new, old, sign) if alone is not None else (),
        figures={
            "observed": finite(difference),
            "limit": sign * allowance.amount,
            "now": finite(now),
            "baseline": finite(before),
            "low": finite(low),
            "high": finite(high),
        },
        refutations=refuted.refutations,
    )


def _text(difference: float, allowance: Allowance) -> str:
    return f"{difference:+.1%}" if allowance.relative else f"{difference:+.4g}"


def _range(interval: tuple[float, float], allowance: Allowance) -> str:
    if not np.isfinite(interval).all():
        return ""
    return f" [{', '.join(_text(end, allowance) for end in interval)}]"


def _notes(alone: int | None) -> Iterable[str]:
    if alone is None:
        yield "not paired by sample, since the runs are not known to have the same images"
    elif alone:
        yield f"{alone} samples are in one run only, or have no figure in the other"


def _common(new: Selection, old: Selection) -> tuple[Selection, Selection]:
    """The samples that both have, in one order."""
    places = {index: place for place, index in enumerate(old.indices)}
    both = [(place, places[index]) for place, index in enumerate(new.indices) if index in places]
    return _picked(new, [a for a, _ in both]), _picked(old, [b for _, b in both])


def _picked(one: Selection, places: list[int]) -> Selection:
    return replace(
        one,
        places=tuple(one.places[p] for p in places),
        indices=tuple(one.indices[p] for p in places),
        values=one.values[places],
    )


def _difference(now: Any, before: Any, *, relative: bool) -> Any:
    """Absolute, or as a share of the baseline's size; no change of nothing is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.subtract(now, before)
        return np.where(difference == 0, 0.0, difference / np.abs(before)) if relative else difference


def _interval(allowance: Allowance, new: Selection, old: Selection, *, paired: bool) -> tuple[float, float]:
    """Percentile bootstrap over samples; both runs draw the same samples where they are paired."""
    rng = np.random.default_rng(SEED)
    resamples = max(FEWEST, min(RESAMPLES, WORK // max(len(new), len(old))))
    differences = np.empty(resamples)
    for i in range(resamples):
        a = rng.integers(len(new), size=len(new))
        b = a if paired else rng.integers(len(old), size=len(old))
        now, before = quick_statistic(allowance.figure, new.values[a]), quick_statistic(allowance.figure, old.values[b])
        differences[i] = _difference(now, before, relative=allowance.relative)
    if not np.isfinite(differences).all():
        return float("nan"), float("nan")
    low, high = np.quantile(differences, [(1 - COVERED) / 2, (1 + COVERED) / 2])
    return float(low), float(high)


def _moved(new: Selection, old: Selection, sign: int) -> tuple[tuple[int, str], ...]:
    """The samples that got worse the most."""
    with np.errstate(invalid="ignore"):
        change = np.nan_to_num(sign * (new.values - old.values), nan=0.0)
    order = np.argsort(-change, kind="stable")[:WORST]
    return tuple(
        (new.indices[place], f"{old.values[place]:.6g} to {new.values[place]:.6g}")
        for place in order
        if change[place] > 0
    )
