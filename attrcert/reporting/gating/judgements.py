"""How demands are judged on the rows of runs: rules, whether runs are complete, and whether a promise was broken."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attrcert.errors import UsageError
from attrcert.reporting.gating.comparisons import complies
from attrcert.reporting.gating.possibilities import check_can_fail
from attrcert.reporting.gating.promises import exceeded
from attrcert.reporting.gating.refutations import WORST, Evidence, Refutation
from attrcert.reporting.gating.rules import Figure, Rule
from attrcert.reporting.gating.selections import Selection, applies, no_run_has, select, statistic
from attrcert.reporting.gating.verdicts import Judged, Judgement, Observation, Outcome
from attrcert.saved.runfiles import RunTable
from attrcert.vocabulary import Status, parse_indices, round_down, round_up


@dataclass(frozen=True)
class Terms:
    """What counts beside the rows: what attacks reached, whether a rule may pass on estimates that they exceeded, which samples are
    waived, and how many there must be.
    """

    evidence: Evidence
    allow_refuted: bool = False
    waived: frozenset[int] = frozenset()
    min_samples: int = 1

    def refuted(self, figure: Figure, selection: Selection, table: RunTable) -> "Refuted":
        found = self.evidence.against(figure, selection, table)
        notes = tuple(_exceeded(figure, one) for one in found)
        return Refuted(found, notes, any(one.promised or not self.allow_refuted for one in found))

    def check_enough(self, selection: Selection) -> None:
        if len(selection) < self.min_samples:
            where = f"{selection.run}{f' at {selection.case}' if selection.case else ''}"
            raise UsageError(
                f"min-samples asks for {self.min_samples} samples, and {where} has {len(selection)} with the figure"
            )


@dataclass(frozen=True)
class Refuted:
    """What attacks exceeded of a figure, in words too, and whether the rule must not pass for it."""

    refutations: tuple[Refutation, ...]
    notes: tuple[str, ...]
    decisive: bool

    def __add__(self, other: "Refuted") -> "Refuted":
        return Refuted(self.refutations + other.refutations, self.notes + other.notes, self.decisive or other.decisive)

    def said_of(self, run: str) -> "Refuted":
        return replace(self, notes=tuple(f"{run}: {note}" for note in self.notes))

    def outcome(self, *, held: bool) -> Outcome:
        if not held:
            return Outcome.FAILED
        return Outcome.REFUTED if self.decisive else Outcome.PASSED


def _exceeded(figure: Figure, one: Refutation) -> str:
    samples = f"sample{'s' if len(one.worst) > 1 else ''} " + ", ".join(
        f"{index} ({text})" for index, text in one.worst
    )
    put_in = "" if one.put_in is None else f"; with what they reached, {figure.text} is {one.put_in:.6g}"
    return f"{one}, the most on {samples}{put_in}"


def judge_rule(rule: Rule, tables: Sequence[RunTable], terms: Terms) -> Judged:
    """A rule holds if it holds in every case (eps, attack, threshold, radius) of every run that has its columns; it passes if no
    attack exceeded the figures that it holds of.
    """
    having = [table for table in tables if applies(rule.figure, table)]
    if not having:
        raise no_run_has(rule.figure, tables)
    selections = [(one, table) for table in having for one in select(rule.figure, table, terms.waived)]
    for table in having:
        check_can_fail(rule, table)
    for selection, _ in selections:
        terms.check_enough(selection)
    skipped = [f"{table.name} is not judged: it has no such figure or case" for table in tables if table not in having]
    return [_observed(rule, one, terms.refuted(rule.figure, one, table)) for one, table in selections], skipped


def _observed(rule: Rule, selection: Selection, refuted: Refuted) -> Observation:
    value = statistic(rule.figure, selection.values)
    if np.isnan(value):
        raise rule.figure.error(
            f"{rule.figure.text} is not a number where bounds are infinite",
            "leave out the samples without a bound: [status != vacuous]",
        )
    return Observation(
        run=selection.run,
        case=selection.case,
        observed=rounded(value, rule.comparator),
        outcome=refuted.outcome(held=complies(value, rule.comparator, rule.limit)),
        samples=len(selection),
        notes=(*_notes(rule, selection), *refuted.notes),
        worst=worst(rule, selection),
        figures={"observed": finite(value), "limit": rule.limit},
        refutations=refuted.refutations,
    )


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if np.isfinite(value) else None


def rounded(value: float, comparator: str) -> str:
    """Away from the demand: what is limited from above is rounded up."""
    if comparator in ("==", "!=") or not np.isfinite(value) or float(f"{value:.6g}") == value:
        return f"{value:.10g}"
    return (round_down if comparator in (">=", ">") else round_up)(value, 6)


def _notes(rule: Rule, selection: Selection) -> list[str]:
    notes = []
    if rule.figure.statistic == "count" and rule.comparator in ("<=", "<") and len(selection) <= rule.limit:
        notes.append(f"no count of {len(selection)} samples is larger than {rule.limit:g}")
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
        whole = len(set(parse_indices(told)) - waived) if told and not table.identity.get("shard") else samples
    except UsageError:  # edited by hand
        whole = samples
    return f"{missing} without a figure" + (f", {samples} of {whole} samples" if samples < whole else "")


def judge_completeness(tables: Sequence[RunTable], waived: frozenset[int], allowed: float) -> Judgement:
    """Every run has ended, and no more than a share of its samples has no figure, or one that has not converged."""
    observations = []
    for table in tables:
        samples: dict[int, bool] = {}
        for cell, status, failed in zip(table.cells["index"], table.cells["status"], table.failed, strict=True):
            index = int(cell or 0)
            if index not in waived:
                samples[index] = samples.get(index, False) or failed or status == Status.NOT_CONVERGED
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
                outcome=Outcome.PASSED if whole and len(missing) / len(samples) <= allowed else Outcome.INCOMPLETE,
                samples=len(samples),
                notes=tuple(notes),
                worst=tuple((index, "") for index in missing[:WORST]),
                figures={"observed": float(len(missing)), "limit": float(allowed * len(samples))},
            )
        )
    demand = f"the run ended, and at most {allowed:.4g} of its samples have no converged figure"
    return Judgement.of("complete", demand, "", observations)


def judge_promises(tables: Sequence[RunTable]) -> tuple[Judgement, ...]:
    """None where no attack exceeded a bound that is proved or holds with confidence; no gate passes where one did."""
    counts = {table.name: count for table in tables if (count := exceeded(table))}
    if not counts:
        return ()
    observations = [
        Observation(run, "", f"exceeded on {count} rows", Outcome.FAILED, count) for run, count in counts.items()
    ]
    demand, notes = "no attack exceeded a proved or confidence bound", ["something is wrong: no option allows this"]
    return (Judgement.of("promises", demand, "", observations, notes),)
