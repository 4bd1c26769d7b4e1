"""A run on the terminal: progress, interrupts, and the file that its rows go to."""

import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attrcert.cli.console import stderr, talk
from attrcert.cli.options import OutputGroup
from attrcert.columns import Row
from attrcert.records import RowFile

if TYPE_CHECKING:
    from attrcert.running.deltas import DeltaFile
    from attrcert.running.engines import Engine
    from attrcert.running.runs import Run, RunOptions


def compute(
    run: "Run", asked: "RunOptions", results: OutputGroup, engine: "Engine", *, deltas: Path | None = None
) -> list[Row]:
    """All rows of the run in the data's order, written as they come; what an interrupt leaves can be resumed, by any engine."""
    from attrcert.running.engines import Order, fitting

    kept = _delta_file(deltas, results)
    file, quiet = _row_file(run, results, deltas), results.quiet
    if kept:
        _begin(kept, file)
    if not quiet:
        _warn_of_findings(run)
    rows: list[Row] = list(file.rows) if file else []
    done = file.finished if file else frozenset()
    size, warn = fitting(run, engine), _silent if quiet else _warn
    if file:  # the same samples together, so that what is left comes out as it would have
        chunk = run.config.chunk if run.config.held is not None else asked.chunk  # what fits where memory is short
        size = _as_before(file, "batch_size", run.batch_size, size, asked=asked.batch_size, warn=warn)
        run = run.with_chunk(_as_before(file, "chunk", chunk, run.config.chunk, asked=asked.chunk, warn=warn))
    total, facts = len(run.data.indices), {**run.environment(), "batch_size": size, "chunk": run.config.chunk}
    if deltas and results.out:
        facts["deltas"] = os.path.relpath(deltas, results.out.parent)
    doing = {"bound": "bounding", "attack": "attacking", "max-eps": "inverting", "smooth": "drawing"}[
        run.config.command
    ]
    with (
        _manifest(file, facts, total, kept),
        _interruptible(),
        _progress(doing, total, len(done), quiet=quiet) as advance,
        closing(engine(run, Order(done, size, kept, warn))) as found,
    ):
        for batch in found:
            with _uninterrupted():
                if file:
                    file.append(batch)
                rows += batch
            advance(len({row["index"] for row in batch}))
    if kept:
        kept.finish()
    order = {index: place for place, index in enumerate(run.data.indices)}
    return sorted(rows, key=lambda row: order[int(row["index"] or 0)])


def _row_file(run: "Run", results: OutputGroup, deltas: Path | None) -> RowFile | None:
    if results.out is None:
        return None
    config = run.config
    return RowFile(
        results.out,
        config.command,
        {**run.identity(), **({"save_deltas": True} if deltas else {})},
        columns=config.columns,
        rows_per_sample=len(config.cases),
        resume=results.resume,
        overwrite=results.overwrite,
    )


def _delta_file(path: Path | None, results: OutputGroup) -> "DeltaFile | None":
    if path is None:
        return None
    from attrcert.running.deltas import DeltaFile

    return DeltaFile(path, resume=results.resume, overwrite=results.overwrite)


def _begin(kept: "DeltaFile", file: RowFile | None) -> None:
    """The perturbations of the rows that are there already must be there too."""
    from attrcert.arrays import delta_key

    rows = [row for row in (file.rows if file else ()) if not str(row["status"]).startswith("error:")]
    kept.begin({delta_key(int(row["index"] or 0), float(row["eps"] or 0), str(row["attack"])) for row in rows})


@contextmanager
def _manifest(file: RowFile | None, facts: dict[str, Any], total: int, kept: "DeltaFile | None") -> Iterator[None]:
    """The manifest says `running`, then `complete` or `interrupted`; an interrupt ends with exit code 4."""
    started = file.earlier.get("started", _now()) if file else _now()

    def write(state: str) -> None:
        if file:
            status = dict(Counter(str(row["status"]) for row in file.rows))
            times = {"started": started, "ended": _now()}
            file.write_manifest({**facts, **times, "state": state, "rows": len(file.rows), "status": status})

    write("running")
    try:
        yield
    except KeyboardInterrupt:
        write("interrupted")
        if kept and not file:
            kept.abandon()
        _say_how_to_resume(file, total)
        raise typer.Exit(4) from None
    except BaseException:
        write("failed")
        raise
    write("complete")


def _warn(message: str) -> None:
    talk(f"warning: {message}", style="yellow")


def _silent(message: str) -> None:
    pass


def _warn_of_findings(run: "Run") -> None:
    for finding in run.findings:
        if finding.level == "warn":
            _warn(f"{finding.check}: {finding.message}" + (f" ({finding.hint})" if finding.hint else ""))


def _as_before(
    file: RowFile, name: str, most: int | None, now: Any, *, asked: int | None, warn: Callable[[str], None]
) -> Any:
    """The size that a resumed run began with, or fewer where fewer are asked for or fit, which is told; or that of a new run."""
    if name not in file.earlier:
        return now
    before = file.earlier[name]
    option = f"--{name.replace('_', '-')}"
    if most is not None and before is not None and most < before:
        warn(
            f"{option}: the run began with {before} and goes on with {most}: figures agree with the first ones up to rounding"
        )
        return most
    if asked not in (None, before):
        warn(f"{option} {asked} is not used: the run began with {before}, and goes on with that")
    return before


def _say_how_to_resume(file: RowFile | None, total: int) -> None:
    if file is None:
        talk("interrupted; nothing was saved, since there was no --out")
        return
    command = shlex.join(
        ["attrcert", *[word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")], "--resume"]
    )
    talk(f"interrupted: {len(file.finished)} of {total} samples are in {file.path}. Go on with:\n  {command}")


@contextmanager
def _interruptible() -> Iterator[None]:
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
    held = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)


@contextmanager
def _progress(doing: str, total: int, done: int, *, quiet: bool) -> Iterator[Any]:
    """A bar with rate and time left on stderr; the derivatives that this process (no worker) has taken show that a long batch goes on."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    from attrcert.attributions.gradient import TALLY

    before = TALLY.derivatives

    class Derivatives(ProgressColumn):
        def render(self, task: Task) -> Text:
            taken = TALLY.derivatives - before
            return Text(f"{taken:,} derivatives" if taken else "", no_wrap=True)

    columns = (
        TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), Derivatives(Column(no_wrap=True)),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=stderr(), disable=quiet) as progress:
        task = progress.add_task("", total=total, completed=done, rate="")

        def advance(samples: int) -> None:
            progress.advance(task, samples)
            elapsed = progress.tasks[0].elapsed or 0
            rate = (progress.tasks[0].completed - done) / elapsed if elapsed else 0
            progress.update(task, rate=f"{rate:.3g} samples/s")

        yield advance


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
