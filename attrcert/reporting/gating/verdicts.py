"""The verdict of a gate: what every demand came to in every case of every run, and the exit code that follows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import inf
from typing import TypeVar

from attrcert.errors import UsageError
from attrcert.foreign import printable
from attrcert.reporting.gating.refutations import Refutation
from attrcert.reporting.gating.rules import Allowance, Rule
from attrcert.saved.runfiles import RunTable, Warned


class Outcome(StrEnum):
    """How a demand ended, the gravest last."""

    PASSED = "passed"
    INCOMPLETE = "incomplete"  # samples without a figure, or a run that did not end
    REFUTED = "refuted"  # it holds, of figures that attacks exceeded
    FAILED = "failed"
    ERROR = "error"  # it could not be judged

    @property
    def exit_code(self) -> int:
        return {Outcome.PASSED: 0, Outcome.INCOMPLETE: 4, Outcome.REFUTED: 1, Outcome.FAILED: 1, Outcome.ERROR: 2}[self]


def gravest(outcomes: Iterable[Outcome]) -> Outcome:
    return max(outcomes, key=list(Outcome).index, default=Outcome.PASSED)


@dataclass(frozen=True)
class Observation:
    """What a figure is in one case of one run, and how that compares with the demand; `worst` are the samples that weigh most,
    `refutations` what attacks exceeded of it.
    """

    run: str
    case: str
    observed: str
    outcome: Outcome
    samples: int
    notes: tuple[str, ...] = ()
    worst: tuple[tuple[int, str], ...] = ()
    figures: Mapping[str, float | None] = field(default_factory=dict)
    refutations: tuple[Refutation, ...] = ()

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED

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

    @staticmethod
    def of(
        name: str, demand: str, reason: str, observations: Sequence[Observation], notes: Sequence[str] = ()
    ) -> "Judgement":
        """As grave as the gravest of what was observed."""
        outcome = gravest(one.outcome for one in observations)
        return Judgement(name, demand, outcome, reason, tuple(observations), notes=tuple(notes))

    @property
    def gravest(self) -> Observation | None:
        """Of those that did not pass, the one that is the furthest from it."""
        order = list(Outcome)
        bad = (one for one in self.observations if not one.passed)
        return max(bad, key=lambda one: (order.index(one.outcome), one.excess), default=None)


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
class WarnedRuns(Warned):
    """What a check before runs warned of, and which runs."""

    runs: tuple[str, ...]

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"warning of {', '.join(self.runs)}: {self.check}: {self.message}{hint}"


def findings(tables: Iterable[RunTable]) -> tuple[WarnedRuns, ...]:
    """Of all runs, each once."""
    runs: dict[Warned, dict[str, None]] = {}
    for table in tables:
        for one in table.warnings:
            runs.setdefault(one, {})[table.name] = None
    return tuple(WarnedRuns(**asdict(one), runs=tuple(names)) for one, names in runs.items())


@dataclass(frozen=True)
class Verdict:
    """All judgements, from which every output is made; `findings` are what the runs warned of, each with the runs that did."""

    runs: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    waivers: tuple[Waiver, ...] = ()
    unused: tuple[Waiver, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[WarnedRuns, ...] = ()

    @property
    def outcome(self) -> Outcome:
        return gravest(one.outcome for one in self.judgements)

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED

    def count(self, outcome: Outcome) -> int:
        return sum(one.outcome is outcome for one in self.judgements)


T = TypeVar("T", Rule, Allowance)
Judged = tuple[Sequence[Observation], Sequence[str]]  # with notes


def attempt(one: T, judge: Callable[[T], Judged]) -> Judgement:
    """A judgement, or why there is none."""
    try:
        return Judgement.of(one.name, one.demand, one.reason, *judge(one))
    except UsageError as error:
        return refused(one.name, one.demand, one.reason, error)


def refused(name: str, demand: str, reason: str, error: UsageError) -> Judgement:
    """What cannot be judged, and why."""
    hint = f"\nhint: {error.hint}" if error.hint else ""
    message = error.message if error.in_lines else printable(error.message)
    return Judgement(name, demand, Outcome.ERROR, reason, message=message + hint)
