"""A gate: demands from the command line and a configuration file, judged on files."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from attrcert.columns import guarantees, worth
from attrcert.errors import UsageError
from attrcert.reporting.gating.baselines import pair_up
from attrcert.reporting.gating.judgements import Terms, judge_completeness, judge_promises, judge_rule
from attrcert.reporting.gating.refutations import Evidence, evidence
from attrcert.reporting.gating.regressions import judge_allowance
from attrcert.reporting.gating.rules import Allowance, Figure, Rule, parse_allowance, parse_rule
from attrcert.reporting.gating.verdicts import Judgement, Outcome, Verdict, Waiver, attempt, findings, refused
from attrcert.saved.files import read_text
from attrcert.saved.runfiles import RunTable, read_table
from attrcert.vocabulary import Guarantee, did_you_mean


@dataclass(frozen=True)
class Demand:
    """A rule or an allowance as it was written, with a name and a reason for the reports."""

    text: str
    name: str = ""
    reason: str = ""

    @property
    def title(self) -> str:
        return self.name or self.text.strip() or "an empty rule"


@dataclass(frozen=True)
class Gate:
    """What is demanded of runs. A configuration file has the same names."""

    require: tuple[Demand, ...] = ()
    max_regression: tuple[Demand, ...] = ()
    baseline: tuple[Path, ...] = ()
    waive: tuple[Waiver, ...] = ()
    allow_mismatch: tuple[str, ...] = ()
    min_samples: int = 1
    max_incomplete: float = 0.0
    allow_refuted: bool = False

    def __post_init__(self) -> None:
        if self.max_regression and not self.baseline:
            raise UsageError("--max-regression needs --baseline", hint="the CSV of the run that must not be undercut")
        if self.baseline and not self.max_regression:
            raise UsageError("--baseline needs --max-regression", hint='e.g. --max-regression "mean(T_c_deg) 5%"')
        if self.allow_mismatch and not self.baseline:
            raise UsageError("--allow-mismatch needs --baseline", hint="it says in what the compared runs may differ")
        if self.min_samples < 1:
            raise UsageError(f"min-samples must be at least 1, got {self.min_samples}")
        if not 0 <= self.max_incomplete <= 1:
            raise UsageError(f"max-incomplete must be a share between 0 and 1, got {self.max_incomplete:g}")
        indices = [waiver.index for waiver in self.waive]
        if twice := {index for index in indices if indices.count(index) > 1}:
            raise UsageError(f"sample {min(twice)} is waived twice", hint="give one reason")

    @property
    def waived(self) -> frozenset[int]:
        return frozenset(waiver.index for waiver in self.waive)


T = TypeVar("T", Rule, Allowance)


def judge_files(paths: Sequence[Path], gate: Gate) -> Verdict:
    """Of the CSVs that were named. What cannot be read or judged is a judgement too, so that every report tells it."""
    if not (gate.require or gate.max_regression):
        raise UsageError(
            "a gate needs at least one rule", hint='e.g. --require "p95(T_c_deg) <= 30", or --config attrcert.toml'
        )
    if twice := {path for path in paths if paths.count(path) > 1}:
        raise UsageError(f"{min(twice)} is given twice")
    rules, wrong_rules = _parsed(gate.require, parse_rule)
    allowances, wrong_allowances = _parsed(gate.max_regression, parse_allowance)
    figures = [*(rule.figure for rule in rules), *(allowance.figure for allowance in allowances)]
    tables, unread = _tables(paths, figures)
    baselines, unread_baselines = _tables(gate.baseline, figures)
    judgements = [*unread, *unread_baselines, *wrong_rules, *wrong_allowances]
    runs = (*tables, *baselines)
    if tables:
        terms = Terms(Evidence(runs), gate.allow_refuted, gate.waived, gate.min_samples)
        judgements += [attempt(rule, lambda rule: judge_rule(rule, tables, terms)) for rule in rules]
        if baselines:
            paired = partial(pair_up, tables, baselines, gate.allow_mismatch)
            judgements += [attempt(one, lambda one: judge_allowance(one, paired(), terms)) for one in allowances]
        judgements += [*judge_promises(runs), judge_completeness(runs, gate.waived, gate.max_incomplete)]
    seen = {int(index or 0) for table in tables for index in table.cells["index"]}
    unused = tuple(waiver for waiver in gate.waive if waiver.index not in seen)
    allowed = (f"allowed to differ from the baseline: {', '.join(gate.allow_mismatch)}",) if gate.allow_mismatch else ()
    notes = (*_refuted(judgements), *_worth(figures, tables), *_alone(tables, baselines), *allowed)
    return Verdict(tuple(map(str, paths)), tuple(judgements), gate.waive, unused, notes, findings(runs))


def _refuted(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """What to make of figures that attacks exceeded."""
    if any(one.outcome is Outcome.REFUTED for one in judgements):
        return (
            "refuted: the rule holds, but of figures that attacks in these files exceeded. Demand something of what attacks reach "
            "(T_hat_e, T_hat_c_deg) or of what is proved; `attrcert gate --allow-refuted` accepts the figures as they are.",
        )
    if any(part.refutations for one in judgements for part in one.observations if part.passed):
        return ("--allow-refuted: rules passed on figures that attacks in these files exceeded.",)
    return ()


def _alone(tables: Sequence[RunTable], baselines: Sequence[RunTable]) -> tuple[str, ...]:
    """Files that have no counterpart, where there are baselines."""
    if not baselines:
        return ()
    new, old = {table.kind for table in tables}, {table.kind for table in baselines}
    return (
        *(f"{table.name} has no baseline and is not compared" for table in tables if table.kind not in old),
        *(f"{table.name} is a baseline of none of the files" for table in baselines if table.kind not in new),
    )


def judge_table(table: RunTable, rules: Sequence[Rule]) -> Verdict:
    """Of rows that were just computed."""
    terms = Terms(Evidence([table]))
    judged = (attempt(rule, lambda rule: judge_rule(rule, [table], terms)) for rule in rules)
    judgements = (*judged, *judge_promises([table]))
    notes = (*_refuted(judgements), *_worth([rule.figure for rule in rules], [table]))
    return Verdict((table.name,), judgements, notes=notes, findings=findings([table]))


def _worth(figures: Sequence[Figure], tables: Sequence[RunTable]) -> tuple[str, ...]:
    """What the judged figures guarantee: a rule that holds of an estimate proves nothing."""
    found: dict[tuple[Guarantee, str], dict[str, None]] = {}
    for name in dict.fromkeys(name for figure in figures for name in figure.columns):
        for table in tables:
            told = guarantees(name, table.command, table.cells.get("guarantee", ())) if name in table.header else ()
            for guarantee in told:
                found.setdefault((guarantee, worth(name, table.command, guarantee)), {})[name] = None
    return tuple(f"{', '.join(names)}: {guarantee}, {meaning}." for (guarantee, meaning), names in found.items())


def _parsed(demands: Sequence[Demand], parse: Callable[..., T]) -> tuple[list[T], list[Judgement]]:
    good: list[T] = []
    bad = []
    for demand in demands:
        try:
            good.append(parse(demand.text, name=demand.name, reason=demand.reason))
        except UsageError as error:
            bad.append(refused(demand.title, demand.text, demand.reason, error))
    return good, bad


def _tables(paths: Sequence[Path], figures: Sequence[Figure]) -> tuple[list[RunTable], list[Judgement]]:
    wanted = {*evidence(), *(name for figure in figures for name in figure.columns)}
    good, bad = [], []
    for path in paths:
        try:
            good.append(read_table(path, wanted))
        except UsageError as error:
            bad.append(refused(str(path), "the file can be read", "", error))
    return good, bad


def read_gate(path: Path) -> dict[str, Any]:
    """The fields of a Gate that the table [gate] of a TOML file gives."""
    try:
        whole = tomllib.loads(read_text(path))
    except OSError as error:
        raise UsageError(f"the configuration {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the configuration {path} is not TOML: {error}") from error
    table = whole.get("gate")
    if not isinstance(table, dict):
        raise UsageError(
            f"{path} must have a table [gate]", hint='e.g. [gate], and below it require = ["p95(T_c_deg) <= 30"]'
        )
    for key in table:
        if key not in _FIELDS:
            hint = did_you_mean(key, _FIELDS, f"it has {', '.join(_FIELDS)}")
            raise UsageError(f"[gate] in {path} has no key {key!r}", hint=hint)
    given = {key: _FIELDS[key](value, f"{key} in {path}") for key, value in table.items()}
    if "baseline" in given:
        given["baseline"] = tuple(path.parent / one for one in given["baseline"])
    return given


def _demands(value: Any, where: str) -> tuple[Demand, ...]:
    return tuple(_demand(one, where) for one in _listed(value, where))


def _demand(one: Any, where: str) -> Demand:
    if isinstance(one, str):
        return Demand(one)
    if not isinstance(one, dict) or not {"rule"} <= set(one) <= {"rule", "name", "reason"} or not _texts(one.values()):
        raise UsageError(
            f"{where} must hold texts, or tables with rule, name and reason, got {one!r}",
            hint='{rule = "p95(T_c_deg) <= 30", name = "stable maps", reason = "ticket 12"}',
        )
    return Demand(one["rule"], one.get("name", ""), one.get("reason", ""))


def _waivers(value: Any, where: str) -> tuple[Waiver, ...]:
    waivers = []
    for one in _listed(value, where):
        if isinstance(one, dict) and set(one) == {"index", "reason"}:
            one = f"{one['index']}:{one['reason']}"
        if not isinstance(one, str):
            raise UsageError(f"{where} must hold tables with index and reason, got {one!r}")
        waivers.append(Waiver.parse(one))
    return tuple(waivers)


def _paths(value: Any, where: str) -> tuple[Path, ...]:
    return tuple(Path(one.replace("\0", "?")) for one in _words([value] if isinstance(value, str) else value, where))


def _words(value: Any, where: str) -> tuple[str, ...]:
    words = _listed(value, where)
    if not _texts(words):
        raise UsageError(f"{where} must be a list of texts, got {value!r}")
    return tuple(words)


def _texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{where} must be a list, got {value!r}")
    return value


def _scalar(what: str, fits: Callable[[Any], bool]) -> Callable[[Any, str], Any]:
    def read(value: Any, where: str) -> Any:
        if not fits(value):
            raise UsageError(f"{where} must be {what}, got {str(value)[:30]}")
        return value

    return read


_FIELDS: Mapping[str, Callable[[Any, str], Any]] = {
    "require": _demands,
    "max_regression": _demands,
    "baseline": _paths,
    "waive": _waivers,
    "allow_mismatch": _words,
    "min_samples": _scalar("a whole number", lambda value: type(value) is int and abs(value) <= 10**9),
    "max_incomplete": _scalar("a share between 0 and 1", lambda value: type(value) in (int, float) and 0 <= value <= 1),
    "allow_refuted": _scalar("true or false", lambda value: type(value) is bool),
}
