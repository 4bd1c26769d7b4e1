"""A verdict as a table, JSON, markdown and JUnit XML: the same judgements in every format."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from attrcert.reporting.gating.verdicts import Judgement, Observation, Outcome, Verdict, WarnedRuns
from attrcert.reporting.tables.markdown import markdown
from attrcert.reporting.tables.text_table import TextTable

SHOWN = 8  # cases of a rule that a table shows
SUMMARY_BYTES = 1024 * 1024  # what GitHub takes of a step summary
JUNIT_MARK = 'name="attrcert gate"'
CUT = "\n\n_Cut at GitHub's limit for step summaries._\n"


def verdict_table(verdict: Verdict) -> TextTable:
    """A line per rule and case; the gravest of its cases where there are many."""
    return TextTable(
        title=f"Gate: {headline(verdict)}",
        header=("outcome", "rule", "observed", "samples", "where"),
        cells=tuple(line for judgement in verdict.judgements for line in _lines(judgement)),
        notes=tuple(_notes(verdict)),
        keys=2,
    )


def headline(verdict: Verdict) -> str:
    counts = ", ".join(f"{n} {outcome}" for outcome in Outcome if (n := verdict.count(outcome)))
    return f"{verdict.outcome} ({counts}), exit code {verdict.outcome.exit_code}"


def _lines(judgement: Judgement) -> Iterable[tuple[str, ...]]:
    if not judgement.observations:
        yield (judgement.outcome, _titled(judgement), "-", "-", "-")
    shown = _shown(judgement)
    for number, one in enumerate(shown):
        yield (one.outcome, "" if number else _titled(judgement), one.observed, str(one.samples), _where(one))


def _titled(judgement: Judgement) -> str:
    """The demand, behind its name where it has one."""
    if judgement.name == judgement.demand or not judgement.observations or judgement.name == "complete":
        return _flat(judgement.name)
    return _flat(f"{judgement.name}: {judgement.demand}")


def _shown(judgement: Judgement) -> tuple[Observation, ...]:
    """All, or of many those that are not as demanded first."""
    if len(judgement.observations) <= SHOWN:
        return judgement.observations
    return tuple(sorted(judgement.observations, key=lambda one: one.passed))[:SHOWN]


def _where(one: Observation) -> str:
    return _flat(f"{one.run}: {one.case}" if one.case else one.run)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _notes(verdict: Verdict) -> Iterable[str]:
    for judgement in verdict.judgements:
        yield from _said(judgement)
    if any("baseline" in one.figures for judgement in verdict.judgements for one in judgement.observations):
        yield "no worse: the baseline's figure, this run's, the change, and its 95% bootstrap interval over samples."
    for waiver in verdict.waivers:
        unused = " (no such sample: can it go?)" if waiver in verdict.unused else ""
        yield f"waived: sample {waiver.index}, {_flat(waiver.reason)}{unused}"
    yield from (_flat(str(finding)) for finding in verdict.findings)
    yield from verdict.notes


def _said(judgement: Judgement) -> Iterable[str]:
    """What a table has no room for."""
    name = _flat(judgement.name)
    if judgement.message:
        yield f"{name}: {judgement.message}".replace("\nhint: ", "\n  hint: ")
    if judgement.reason and judgement.outcome is not Outcome.PASSED:
        yield f"{name}, reason: {_flat(judgement.reason)}"
    if hidden := len(judgement.observations) - len(_shown(judgement)):
        yield f"{name}: {hidden} more cases are in --json and --junit"
    yield from (f"{name}: {_flat(note)}" for note in judgement.notes)
    noted: dict[str, list[str]] = {}
    for one in _shown(judgement):
        for note in one.notes:
            noted.setdefault(note, []).append(_where(one))
    yield from (f"{name}: {note} ({'; '.join(places)})" for note, places in noted.items())
    gravest = judgement.gravest
    if gravest and gravest.worst and gravest.outcome is not Outcome.REFUTED:
        yield f"{name}, worst samples of {_where(gravest)}: {_worst(gravest)}"


def _worst(one: Observation) -> str:
    return ", ".join(f"{index} ({text})" if text else str(index) for index, text in one.worst)


def verdict_markdown(verdict: Verdict) -> str:
    return markdown(verdict_table(verdict))


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    whole = {"outcome": verdict.outcome, "exit_code": verdict.outcome.exit_code, **asdict(verdict)}
    for judgement in whole["judgements"]:
        for one in judgement["observations"]:
            one["passed"] = one["outcome"] is Outcome.PASSED
    return whole


def step_summary(text: str, present: int) -> str:
    """What may still be appended to a summary that has `present` bytes."""
    room = SUMMARY_BYTES - present
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) <= room:
        return text
    kept = room - len(CUT.encode())
    return encoded[:kept].decode(errors="ignore") + CUT if kept > 0 else ""


def junit(verdict: Verdict) -> str:
    """A test case per rule; cases and worst samples in the text of its failure."""
    failures = sum(map(verdict.count, (Outcome.FAILED, Outcome.REFUTED, Outcome.INCOMPLETE)))
    counts = {"tests": len(verdict.judgements), "failures": failures, "errors": verdict.count(Outcome.ERROR)}
    attributes = {"name": "attrcert gate", **{name: str(count) for name, count in counts.items()}}
    root = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(root, "testsuite", {**attributes, "skipped": "0"})
    told = [(f"waived sample {waiver.index}", waiver.reason) for waiver in verdict.waivers]
    told += [(f"warning: {finding.check}", str(finding)) for finding in verdict.findings]
    if told:
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in told:
            ElementTree.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    for judgement in verdict.judgements:
        _test_case(suite, judgement, verdict.findings)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _test_case(suite: ElementTree.Element, judgement: Judgement, findings: Sequence[WarnedRuns]) -> None:
    """A judgement, with what was found wrong with the runs that it is about."""
    case = ElementTree.SubElement(suite, "testcase", classname="attrcert.gate", name=_clean(judgement.name))
    lines = [judgement.demand, *([f"reason: {judgement.reason}"] if judgement.reason else [])]
    lines += [judgement.message] if judgement.message else []
    lines += judgement.notes
    for one in judgement.observations:
        lines.append(f"{_MARKS.get(one.outcome, 'not ')}{_where(one)}: {one.observed} ({one.samples} samples)")
        lines += [f"    {note}" for note in one.notes]
        unmet = one.outcome not in (Outcome.PASSED, Outcome.REFUTED)
        lines += [f"    worst samples: {_worst(one)}"] if one.worst and unmet else []
    judged = {one.run for one in judgement.observations}
    lines += [str(finding) for finding in findings if judged & set(finding.runs)]
    text = _clean("\n".join(lines))
    if judgement.outcome is Outcome.PASSED:
        ElementTree.SubElement(case, "system-out").text = text
        return
    kind = "error" if judgement.outcome is Outcome.ERROR else "failure"
    message = judgement.message.splitlines()[0] if judgement.message else _failure_line(judgement)
    ElementTree.SubElement(case, kind, type=judgement.outcome.value, message=_clean(message)).text = text


_MARKS = {Outcome.PASSED: "ok  ", Outcome.REFUTED: "refuted "}


def _failure_line(judgement: Judgement) -> str:
    one = judgement.gravest
    if one and one.outcome is Outcome.REFUTED:
        return f"{judgement.demand} is refuted: {'; '.join(map(str, one.refutations))}"
    return f"{judgement.demand}: {one.observed} in {_where(one)}" if one else judgement.demand


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
