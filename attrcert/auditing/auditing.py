"""An audit from the checks to the verdict. What it computes is in files that the next call goes on with."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attrcert.auditing.alarms import OutOfTime, at_most
from attrcert.auditing.pages import page
from attrcert.auditing.parts import Piece, pieces
from attrcert.auditing.planning import Clock, spend
from attrcert.auditing.stages import Stage, opened_file
from attrcert.auditing.verdicts import Grounds, verdict
from attrcert.columns import Row, filled
from attrcert.errors import AttrcertError, InputError, UsageError
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.opening.opening import examined, open_run
from attrcert.running.opening.runs import Run
from attrcert.saved.files import make_folder, remove, write_text
from attrcert.saved.manifests import check_replaceable, manifest_of
from attrcert.settings.attacking import Attacking
from attrcert.settings.auditing import Auditing, Yard
from attrcert.settings.computing import RunOptions
from attrcert.settings.declared import made
from attrcert.settings.explaining import Precision
from attrcert.settings.sources import DataSpec, ModelSpec

ABOUT, VERDICT, REPORT = "audit.json", "verdict.md", "report.html"
COMPUTING = 0.92  # of the time; the rest is for the page
MORE = 1.5  # times what was too little, from which a part is tried again
FOR_ONE = 0.5  # of what is left: what opening a part and its first samples may take


class NothingDoneError(AttrcertError):
    """The time was too short for any part: the audit is incomplete, and the same command goes on."""

    exit_code = 4


@contextmanager
def unseen(name: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """Shows nothing."""
    yield lambda samples: None


@dataclass(frozen=True)
class Listener:
    """Who hears of an audit: what it plans and does, what is wrong, and how far a part is."""

    tell: Callable[[str], None] = lambda message: None
    warn: Callable[[str], None] = lambda message: None
    found: Callable[[list[Finding]], None] = lambda findings: None
    watch: Callable[[str, int, int], Any] = unseen


@dataclass(frozen=True)
class Audited:
    """What is audited, and how: the model, the data, the time and folder, and the settings of the parts by name."""

    model: ModelSpec
    data: DataSpec
    asked: Auditing
    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        if made(Attacking, self.given).predicting:
            raise UsageError(
                "an audit judges maps, so its --attack must move maps, got prediction",
                hint="`attrcert attack --attack prediction` says how many predictions attacks change",
            )

    @property
    def options(self) -> RunOptions:
        return made(RunOptions, self.given)


@dataclass(frozen=True)
class Audit:
    """The verdict, the rows of each part, what the checks found, and which parts are left out and why."""

    verdict: tuple[str, ...]
    rows: Mapping[str, list[Row]]
    findings: tuple[Finding, ...]
    left_out: Mapping[str, str]
    folder: Path | None

    def __str__(self) -> str:
        return "\n".join(self.verdict)


def audit(subject: Audited, listener: Listener, *, now: Callable[[], float] = time.monotonic) -> Audit:
    """Within about the time that is given; rows of an earlier audit with the same settings count."""
    clock = Clock(COMPUTING * 60 * subject.asked.minutes, now)
    _check_folder(subject.asked.out)
    pieces(subject.asked, subject.given, Yard(1))  # what cannot be meant is refused before the model is loaded
    findings, yard = _examined(subject, clock)
    listener.found(findings)
    make_folder(subject.asked.out)
    if not (subject.asked.out / ABOUT).exists():
        _write_about(subject.asked.out, findings, {}, {})
    work = _Work(subject, listener, clock, slow={} if subject.asked.overwrite else _slow(subject.asked.out))
    with work:
        work.begin(pieces(subject.asked, subject.given, yard))
        spend(work.stages, work.each, clock, tell=lambda plan: listener.tell(f"plan: {plan}"), watch=listener.watch)
    return _told(work, findings, yard)


@dataclass
class _Work:
    """The parts of an audit while it goes on; however it ends, their files say how far they are."""

    subject: Audited
    listener: Listener
    clock: Clock
    stages: list[Stage] = field(default_factory=list)
    each: dict[str, float] = field(default_factory=dict)  # seconds that a sample of a part takes
    left_out: dict[str, str] = field(default_factory=dict)
    whose: dict[str, str] = field(default_factory=dict)  # the attribution of each part, where there are several
    slow: dict[str, float] = field(default_factory=dict)  # parts of which no sample was done in so many seconds
    _errors: list[AttrcertError] = field(default_factory=list)

    def begin(self, planned: list[Piece]) -> None:
        """Every part is opened, and shows on its first samples what one takes."""
        self.whose = {piece.name: piece.attribution for piece in planned}
        for place, piece in enumerate(planned):
            last = place == len(planned) - 1
            allowance = max(1.0, self.clock.left * (1 if last else FOR_ONE))
            until = self.clock.passed + allowance
            if allowance <= MORE * self.slow.get(piece.name, 0.0):
                self._leave_out(
                    piece, f"an earlier call did no sample of it in {self.slow[piece.name]:.0f} s: allow more --minutes"
                )
                continue
            run = self._opened(piece, allowance)
            if run is None:
                self._forget(piece)
                continue
            file = opened_file(run, self.subject.asked.out, piece, overwrite=self.subject.asked.overwrite)
            stage = Stage(piece, run, file, self.clock, self.listener.warn)
            self.stages.append(stage)
            for note in file.notes:
                self.listener.warn(note)
            self._measure(stage, max(1.0, until - self.clock.passed))
        if not self.stages and self._errors:
            raise self._errors[0]

    def _measure(self, stage: Stage, allowance: float) -> None:
        """What a sample takes: of the first ones, with all that they cost more."""
        self.each[stage.name] = 0.0
        if not stage.left:
            return
        self.listener.tell(f"{stage.name}: {stage.piece.about}; {stage.done} samples are there")
        stage.allowance = allowance
        samples, started = stage.first(), self.clock.now()
        if not stage.left:
            self.listener.warn(f"{stage.name}: {stage.reason}")
            return
        with self.listener.watch(stage.name, stage.done + samples, stage.done) as advance:
            stage.take(samples)
            advance(0 if stage.reason else samples)
        self.each[stage.name] = (self.clock.now() - started) / samples
        stage.allowance = None

    def _opened(self, piece: Piece, allowance: float) -> Run | None:
        """None where the network, the attribution or the time does not allow the part; then it is told why."""
        subject = self.subject
        try:
            with at_most(allowance):
                return open_run(subject.model, subject.data, piece.task, subject.options)
        except OutOfTime:
            self._leave_out(piece, f"the model was not ready in {allowance:.0f} s: allow more --minutes")
        except (InputError, UsageError) as error:
            self._errors.append(error)
            self._leave_out(piece, str(error))
        return None

    def _leave_out(self, piece: Piece, reason: str) -> None:
        self.left_out[piece.name] = reason
        self.listener.warn(f"{piece.name} is left out: {reason}")

    def _forget(self, piece: Piece) -> None:
        """With --overwrite nothing of an earlier audit stays."""
        path = self.subject.asked.out / piece.file
        if self.subject.asked.overwrite and path.exists():
            check_replaceable(path)
            remove(path)
            remove(manifest_of(path))

    def __enter__(self) -> "_Work":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        state = "complete" if kind is None else "interrupted" if issubclass(kind, KeyboardInterrupt) else "failed"
        for stage in self.stages:
            with suppress(
                *(() if kind is None else (AttrcertError,))
            ):  # what ended the audit is told, and not what followed
                stage.end(state)
            if stage.reason and not stage.done:
                self.left_out[stage.name] = stage.reason
            if stage.too_long:
                self.slow[stage.name] = stage.too_long


def _check_folder(folder: Path) -> None:
    """Files of others are not mixed with those of an audit."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{folder} must be a folder or not be there yet", hint="choose another --out")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ABOUT).is_file():
        raise UsageError(
            f"{folder} has files that are not of an audit", hint="choose another --out, or an empty folder"
        )


def _examined(subject: Audited, clock: Clock) -> tuple[list[Finding], Yard]:
    precision = made(Precision, subject.given)
    try:
        with at_most(clock.left):
            seen = examined(subject.model, subject.data, device=subject.options.device, dtype=precision.dtype)
            return seen.findings, Yard(seen.entries, seen.spread)
    except OutOfTime:
        raise UsageError(
            f"the checks of the model alone take longer than --minutes {subject.asked.minutes:g}", hint="allow more"
        ) from None


def _told(work: _Work, findings: list[Finding], yard: Yard) -> Audit:
    """The verdict of all rows that there are, and the page."""
    folder = work.subject.asked.out
    rows = {stage.name: filled(stage.file.rows, stage.run.config.columns) for stage in work.stages if stage.file.rows}
    if not rows:
        _write_about(folder, findings, work.left_out, work.slow)
        raise NothingDoneError(
            "no part of the audit was done in the time: " + "; ".join(work.left_out.values()),
            hint=f"allow more than --minutes {work.subject.asked.minutes:g}",
        )
    sentences = verdict(Grounds(rows, yard, _warned(findings), work.left_out, work.whose))
    _write_about(folder, findings, work.left_out, work.slow)
    write_text(folder / VERDICT, "\n\n".join(sentences) + "\n")
    title = f"attrcert audit: {work.stages[0].run.facts()['model'] or 'a given model'}"
    files = [folder / stage.piece.file for stage in work.stages if stage.name in rows]
    write_text(folder / REPORT, page(files, sentences, title))
    return Audit(sentences, rows, tuple(findings), dict(work.left_out), folder)


def _warned(findings: list[Finding]) -> dict[str, str]:
    """By check; one may have found several things."""
    found: dict[str, list[str]] = {}
    for one in findings:
        if one.level is not Level.OK:
            found.setdefault(one.check, []).append(one.message)
    return {check: "; ".join(messages) for check, messages in found.items()}


def _write_about(folder: Path, findings: list[Finding], left_out: Mapping[str, str], slow: Mapping[str, float]) -> None:
    about = {"findings": [asdict(finding) for finding in findings], "left_out": left_out, "slow": slow}
    write_text(folder / ABOUT, json.dumps(about, indent=1) + "\n")


def _slow(folder: Path) -> dict[str, float]:
    """What an earlier call learnt; a file that people changed tells nothing."""
    try:
        slow = json.loads((folder / ABOUT).read_text(encoding="utf-8")).get("slow", {})
        return {str(name): float(seconds) for name, seconds in slow.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
