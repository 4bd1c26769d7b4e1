"""The verdict of a gate: every demand judged on every case of every run, and the exit code that follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

import numpy as np

from attrcert.errors import UsageError
from attrcert.reporting.rules import Rule, RuleError
from attrcert.reporting.runfiles import RunTable
from attrcert.reporting.selections import Selection, applies, complies, no_run_has, select, statistic
from attrcert.vocabulary import Status, parse_indices, round_down, round_up

WORST = 5  # samples that a failure names


class Outcome(StrEnum):
    """How a demand ended, the gravest last."""

    PASSED = "passed"
    INCOMPLETE = "incomplete"  # samples without a figure, or a run that did not end
    FAILED = "failed"
    ERROR = "error"  # it could not be judged

    @property
    def exit_code(self) -> int:
        return {Outcome.PASSED: 0, Outcome.INCOMPLETE: 4, Outcome.FAILED: 1, Outcome.ERROR: 2}[self]


@dataclass(frozen=True)
class Observation:
    """What a figure is in one case of one run, and whether that is as demanded; `worst` are the samples that weigh most."""

    run: str
    case: str
    observed: str
    passed: bool
    samples: int
    notes: tuple[str, ...] = ()
    worst: tuple[tuple[int, str], ...] = ()
    figures: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def excess(self) -> float:
        """How far the figure is from its limit; without end where the figure is."""
        value, limit = self.figures.get("observed"), self.figures.get("limit")
        return inf if value is None or limit is None else abs(value - limit)


@dataclass(frozen=True)
class Judgement:
    """One demand: what was demanded, why, and how it ended."""

    name: str
    demand: str
    outcome: Outcome
    reason: str = ""
    observations: tuple[Observation, ...] = ()
    message: str = ""
    notes: tuple[str, ...] = ()

    @property
    def gravest(self) -> Observation | None:
        """Of those that are not as demanded, the one that is the furthest from it."""
        return max((one for one in self.observations if not one.passed), key=lambda one: one.excess, default=None)


@dataclass(frozen=True)
class Waiver:
    """A sample that no rule counts, and why."""

    index: int
    reason: str

    @staticmethod
    def parse(text: str) -> "Waiver":
        index, _, reason = text.partition(":")
        if not index.strip().isdecimal() or len(index) > 15 or not reason.strip():
            raise UsageError(
                f"a waiver must be INDEX:reason, got {text!r}", hint='e.g. --waive "17:mislabelled, see ticket 12"'
            )
        return Waiver(int(index), reason.strip())


@dataclass(frozen=True)
class Verdict:
    """All judgements, from which every output is made."""

    runs: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    waivers: tuple[Waiver, ...] = ()
    unused: tuple[Waiver, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        order = list(Outcome)
        return max((one.outcome for one in self.judgements), key=order.index, default=Outcome.PASSED)

    def count(self, outcome: Outcome) -> int:
        return sum(one.outcome is outcome for one in self.judgements)


def attempt(name: str, demand: str, reason: str, judge: Callable[[], Judgement]) -> Judgement:
    """A judgement, or why there is none."""
    try:
        return judge()
    except UsageError as error:
        return refused(name, demand, reason, error)


def refused(name: str, demand: str, reason: str, error: UsageError) -> Judgement:
    """What cannot be judged, and why."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    return Judgement(name, demand, Outcome.ERROR, reason, message=error.message + hint)


def judge_rule(rule: Rule, tables: Sequence[RunTable], waived: frozenset[int], min_samples: int) -> Judgement:
    """A rule holds if it holds in every case (eps, attack, threshold, radius) of every run that has its columns."""
    having = [table for table in tables if applies(rule.figure, table)]
    if not having:
        raise no_run_has(rule.figure, tables)
    selections = [one for table in having for one in select(rule.figure, table, waived)]
    for selection in selections:
        check_enough(selection, min_samples)
    observations = tuple(_observed(rule, selection) for selection in selections)
    outcome = Outcome.PASSED if all(one.passed for one in observations) else Outcome.FAILED
    skipped = tuple(
        f"{table.name} is not judged: it has no such figure or case" for table in tables if table not in having
    )
    return Judgement(rule.name, rule.demand, outcome, rule.reason, observations, notes=skipped)


def check_enough(selection: Selection, least: int) -> None:
    if len(selection) < least:
        where = f"{selection.run}{f' at {selection.case}' if selection.case else ''}"
        raise RuleError(f"min-samples asks for {least} samples, and {where} has {len(selection)} with the figure")


def _observed(rule: Rule, selection: Selection) -> Observation:
    value = statistic(rule.figure, selection.values)
    if np.isnan(value):
        raise rule.figure.error(
            f"{rule.figure.text} is not a number where bounds are infinite",
            rule.figure.place,
            "leave out the samples without a bound: [status != vacuous]",
        )
    return Observation(
        run=selection.run,
        case=selection.case,
        observed=rounded(value, rule.comparator),
        passed=complies(value, rule.comparator, rule.limit),
        samples=len(selection),
        notes=tuple(_notes(selection)),
        worst=worst(rule, selection),
        figures={"observed": finite(value), "limit": rule.limit},
    )


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if np.isfinite(value) else None


def rounded(value: float, comparator: str) -> str:
    """Away from the demand: what is limited from above is rounded up."""
    if comparator in ("==", "!=") or not np.isfinite(value) or float(f"{value:.6g}") == value:
        return f"{value:.10g}"
    return (round_down if comparator in (">=", ">") else round_up)(value, 6)


def _notes(selection: Selection) -> list[str]:
    notes = []
    if selection.lacking:
        notes.append(f"{selection.lacking} samples without a bound count as the worst")
    if selection.left_out:
        notes.append(f"{selection.left_out} samples have no such figure and are left out")
    return notes


def worst(rule: Rule, selection: Selection) -> tuple[tuple[int, str], ...]:
    """The samples that weigh most against a rule; of a condition those that decide it."""
    counting = rule.figure.column is None
    most = rule.comparator in ("<=", "<", "==") if counting else rule.comparator not in (">=", ">")
    order = np.argsort(-selection.values if most else selection.values, kind="stable")
    if counting:
        guilty = [place for place in order if bool(selection.values[place]) is most][:WORST]
        return tuple((selection.indices[place], "") for place in guilty)
    return tuple(
        (selection.indices[place], rounded(float(selection.values[place]), rule.comparator)) for place in order[:WORST]
    )


def _count(table: RunTable, waived: frozenset[int], samples: int, missing: int) -> str:
    """How many samples have no figure, and how many there are where that is not all."""
    told = str((table.manifest or {}).get("samples") or "")
    try:
        whole = (
            len(set(parse_indices(told)) - waived)
            if told and not (table.manifest or {})["identity"].get("shard")
            else samples
        )
    except UsageError:  # edited by hand
        whole = samples
    return f"{missing} without a figure" + (f", {samples} of {whole} samples" if samples < whole else "")


def judge_completeness(tables: Sequence[RunTable], waived: frozenset[int], allowed: float) -> Judgement:
    """Every run has ended, and no more than a share of its samples has no figure, or one that has not converged."""
    observations = []
    for table in tables:
        samples: dict[int, bool] = {}
        for index, status in zip(table.cells["index"], table.cells["status"], strict=True):
            if int(index or 0) not in waived:
                bad = str(status).startswith("error:") or status == Status.NOT_CONVERGED
                samples[int(index or 0)] = samples.get(int(index or 0), False) or bad
        missing = [index for index, bad in samples.items() if bad]
        whole = table.unfinished is None and bool(samples)
        notes = [table.unfinished] if table.unfinished else []
        if not samples:
            notes.append("it has no rows")
        if table.manifest is None:
            notes.append("no manifest: whether the run ended is not known")
        observations.append(
            Observation(
                run=table.name,
                case="",
                observed=_count(table, waived, len(samples), len(missing)),
                passed=whole and len(missing) / len(samples) <= allowed,
                samples=len(samples),
                notes=tuple(notes),
                worst=tuple((index, "") for index in missing[:WORST]),
                figures={"observed": float(len(missing)), "limit": allowed * len(samples)},
            )
        )
    outcome = Outcome.PASSED if all(one.passed for one in observations) else Outcome.INCOMPLETE
    demand = f"the run ended, and at most {allowed:.4g} of its samples have no converged figure"
    return Judgement("complete", demand, outcome, observations=tuple(observations))
