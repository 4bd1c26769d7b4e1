"""A run on the terminal: progress, interrupts, and the file that its rows go to."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from attrcert.cli.console import silent, talk, warn
from attrcert.cli.progress import progress, tell_estimate
from attrcert.columns import APART, Row
from attrcert.errors import AttrcertError, ResumeError, UsageError
from attrcert.foreign import shell
from attrcert.reporting.summaries.overviews import overview_of_file
from attrcert.running.engines.engine import Engine, Order, fitting
from attrcert.running.keeping.jacobians import write_jacobians
from attrcert.running.opening.runs import Run
from attrcert.saved.array_files import check_replaceable
from attrcert.saved.arrays import JACOBIANS, delta_key, jacobian_file, of_part
from attrcert.saved.deltas import DeltaFile
from attrcert.saved.files import remove
from attrcert.saved.manifests import COMPLETE, RUNNING
from attrcert.saved.rowfiles import RowFile
from attrcert.settings.computing import RunOptions
from attrcert.settings.output import Output

DOING = {
    "bound": "bounding", "attack": "attacking", "max-eps": "inverting", "certify": "drawing", "attack-smooth": "attacking",
    "score": "scoring",
}  # fmt: skip


def compute(
    run: Run,
    asked: RunOptions,
    results: Output,
    engine: Engine,
    *,
    deltas: Path | None = None,
    jacobians: Sequence[int] = (),
) -> list[Row]:
    """All rows of the run in the data's order, written as they come; what an interrupt leaves can be resumed, by any engine."""
    quiet, total = results.quiet, len(run.data.indices)
    tell: Callable[[str], None] = silent if quiet else warn
    with interruptible(), _books(total) as books:
        with _uninterrupted():
            books.open(run, results, deltas)
        tell_findings(run, quiet=quiet)
        for note in books.notes:
            tell(note)
        rows: list[Row] = list(books.file.rows) if books.file else []
        done = books.file.finished if books.file else frozenset()
        run, size = _as_begun(run, asked, engine, books.file, tell)
        books.begin({**run.environment(), "batch_size": size, "chunk": run.work.layout.chunk})
        each = None if quiet else tell_estimate(run, engine, size, total - len(done))
        with (
            progress(DOING[run.config.command], total, len(done), quiet=quiet, each=each) as advance,
            closing(engine(run, Order(done, size, books.kept, tell))) as found,
        ):
            for batch in found:
                with _uninterrupted():
                    if books.file:
                        books.file.append(batch)
                    rows += batch
                advance(len({row["index"] for row in batch}))
        books.finish(run, jacobians)
    order = {index: place for place, index in enumerate(run.data.indices)}
    return sorted(rows, key=lambda row: order[int(row["index"] or 0)])


def tell_findings(run: Run, *, quiet: bool) -> None:
    """What was settled without being asked for, and what there is to worry about."""
    for finding in () if quiet else run.findings:
        if finding.level == "warn":
            warn(finding.text)
        elif finding.level == "note":
            talk(finding.text)


@dataclass
class _Books:
    """The files that a run writes, and what it tells of itself; they are nobody else's until they are closed."""

    file: RowFile | None = None
    kept: DeltaFile | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    begun: bool = False
    lost: bool = False  # whether what is kept is of no use to anyone if the run does not end

    def open(self, run: Run, results: Output, deltas: Path | None) -> None:
        """Nothing is removed before all that is there was seen to be ours, and this run's where it is resumed."""
        out, resume, overwrite = results.out, results.resume, results.overwrite
        if deltas:
            self.kept = DeltaFile(deltas, resume=resume, overwrite=overwrite)
        if out:
            jacobians = jacobian_file(out)
            check_replaceable(jacobians, JACOBIANS, overwrite=resume or overwrite)
            self.file = run.file(out, resume=resume, overwrite=overwrite, save_deltas=deltas is not None)
            _check_summary(run.config.command, self.file)
            if self.file.replaces and os.path.lexists(jacobians):
                remove(jacobians)
        if self.kept:
            self.kept.begin(self._needed(run), anew=self.file is not None and self.file.replaces)
            self.lost = out is None
        if deltas and out:
            self.facts["deltas"] = os.path.relpath(deltas, out.parent)

    @property
    def notes(self) -> list[str]:
        return [note for book in (self.file, self.kept) if book for note in book.notes]

    def begin(self, facts: dict[str, Any]) -> None:
        earlier = self.file.earlier if self.file else {}
        typed = shell(["attrcert", *sys.argv[1:]])
        self.facts |= {**facts, "typed": earlier.get("typed", typed), "started": earlier.get("started", now())}
        self.write(RUNNING)
        self.begun = True

    def write(self, state: str) -> None:
        if self.file:
            with _uninterrupted():
                self.file.write_manifest({**self.facts, "ended": now()}, state=state)

    def finish(self, run: Run, jacobians: Sequence[int]) -> None:
        """The manifest says that all is done when all is."""
        if self.kept:
            self.kept.finish()
        if jacobians and self.file:
            for failed in write_jacobians(run, jacobians, jacobian_file(self.file.path)):
                talk(failed, style="yellow")
        self.write(COMPLETE)

    def abandon(self, state: str) -> None:
        """What a run that did not end leaves; what cannot be written now was to be written before, and that is told."""
        with suppress(AttrcertError):
            if self.begun:
                self.write(state)
            if self.kept and self.lost:
                self.kept.abandon()

    def close(self) -> None:
        for book in (self.file, self.kept):
            if book:
                book.close()

    def _needed(self, run: Run) -> set[str]:
        """The perturbations of the rows that are there already."""
        rows = [row for row in (self.file.rows if self.file else ()) if not str(row["status"]).startswith("error:")]
        keys = [delta_key(int(row["index"] or 0), float(row["eps"] or 0), str(row["attack"])) for row in rows]
        if len(run.config.singles) > 1:
            keys = [of_part(key, *map(row.get, APART)) for key, row in zip(keys, rows, strict=True)]
        return set(keys)


@contextmanager
def _books(total: int) -> Iterator[_Books]:
    """The manifest says `complete` in the end, or `interrupted` or `failed`; an interrupt ends with exit code 4."""
    books = _Books()
    try:
        yield books
    except KeyboardInterrupt:
        books.abandon("interrupted")
        _say_how_to_resume(books.file, total)
        raise typer.Exit(4) from None
    except BaseException:
        books.abandon("failed")
        raise
    finally:
        books.close()


def _check_summary(command: str, file: RowFile) -> None:
    """Rows of an earlier run must be such that this one can show them in the end."""
    try:
        if file.rows:
            overview_of_file(command, file.rows, file.path)
    except UsageError as error:
        raise ResumeError(f"cannot resume: {error.message}", hint="restore it, or use --overwrite") from error


def _as_begun(
    run: Run, asked: RunOptions, engine: Engine, file: RowFile | None, tell: Callable[[str], None]
) -> tuple[Run, int]:
    """The run and how many samples go together: as before where it is resumed, so that what is left comes out as it would have."""
    size = fitting(run, engine)
    if file is None:
        return run, size
    layout = run.work.layout
    chunk = layout.chunk if layout.held is not None else asked.chunk  # what fits where memory is short
    size = _as_before(file, "batch_size", run.batch_size, size, asked=asked.batch_size, tell=tell)
    return run.with_chunk(_as_before(file, "chunk", chunk, layout.chunk, asked=asked.chunk, tell=tell)), size


def _as_before(
    file: RowFile, name: str, most: int | None, now: Any, *, asked: int | None, tell: Callable[[str], None]
) -> Any:
    """The size that a resumed run began with, or fewer where fewer are asked for or fit, which is told; or that of a new run."""
    if name not in file.earlier:
        return now
    before = file.earlier[name]
    option = f"--{name.replace('_', '-')}"
    if most is not None and before is not None and most < before:
        tell(
            f"{option}: the run began with {before} and goes on with {most}: figures agree with the first ones up to rounding"
        )
        return most
    if asked not in (None, before):
        tell(f"{option} {asked} is not used: the run began with {before}, and goes on with that")
    return before


def _say_how_to_resume(file: RowFile | None, total: int) -> None:
    if file is None:
        talk("interrupted; nothing was saved, since there was no --out")
        return
    command = shell(
        ["attrcert", *[word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")], "--resume"]
    )
    talk(f"interrupted: {len(file.finished)} of {total} samples are in {file.path}. Go on with:")
    talk(f"  {command}")


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM, which schedulers send, ends a run as Ctrl-C does."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Signals wait until the block is done, so that what is in the file is what is counted."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
