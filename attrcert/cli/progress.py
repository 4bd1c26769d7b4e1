"""How far a run is, on stderr, also inside a batch: by the derivatives that were taken, and those that a sample takes."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attrcert.cli.console import stderr, talk
from attrcert.running.engines.engine import Engine
from attrcert.running.opening.runs import Run
from attrcert.sizes import readable_seconds

FIRST, TOGETHER = (
    16,
    8,
)  # samples that are left, and at once, from which one of them is computed beforehand to tell the time
LONG = 20.0  # seconds: a run that takes less needs no estimate
UNFINISHED = 0.99  # of the samples that are left: a batch counts as done when its rows are there


@dataclass
class Pace:
    """Of `total` samples `done` were there before. `each` is how many derivatives one takes, where it is known; the batches that are
    finished tell it.
    """

    total: int
    done: int
    each: float | None = None
    finished: int = 0
    counted: int = 0  # derivatives when the last batch was finished

    def finish(self, samples: int, derivatives: int) -> None:
        """A batch, when so many derivatives were taken in all."""
        self.finished, self.counted = self.finished + samples, derivatives
        if derivatives and self.finished:
            self.each = derivatives / self.finished

    def at(self, derivatives: int) -> float:
        """Samples, with the part of the batch that is being computed."""
        sure = self.done + self.finished
        begun = (derivatives - self.counted) / self.each if self.each else 0.0
        return sure + min(begun, UNFINISHED * (self.total - sure))

    def left(self, seconds: float, derivatives: int) -> float | None:
        """Seconds, after so many; None where nothing tells."""
        at = self.at(derivatives)
        return seconds * (self.total - at) / (at - self.done) if at > self.done else None


def tell_estimate(run: Run, engine: Engine, size: int, left: int) -> float | None:
    """Before a long run, how long it takes, by one of its samples; the derivatives that this one took."""
    from attrcert.attributions.gradient import TALLY

    if left < FIRST or size < TOGETHER or engine.workers > 1:
        return None
    started, before = time.perf_counter(), TALLY.derivatives
    run.batch(run.data.indices[-1:], save=None, warn=lambda _: None)
    seconds = (time.perf_counter() - started) * left
    if seconds > LONG:
        talk(f"at most about {readable_seconds(seconds)} for {left} samples, by one of them: many at once are faster")
    return TALLY.derivatives - before or None


@contextmanager
def progress(doing: str, total: int, done: int, *, quiet: bool, each: float | None = None) -> Iterator[Any]:
    """A bar with rate and time left on stderr; the derivatives that this process (no worker) has taken move it within a batch."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from attrcert.attributions.gradient import TALLY

    before, pace, started = TALLY.derivatives, Pace(total, done, each), time.monotonic()

    class Running(Progress):
        """Looks at the derivatives whenever it is shown."""

        def get_renderables(self) -> Iterable[Any]:
            for task in self.tasks:
                self.update(task.id, **seen())
            return super().get_renderables()

    def seen() -> dict[str, Any]:
        taken, elapsed = TALLY.derivatives - before, time.monotonic() - started
        at, left = pace.at(taken), pace.left(elapsed, taken)
        return {
            "completed": at,
            "samples": f"{done + pace.finished}/{total}",
            "rate": f"{pace.finished / elapsed:.3g} samples/s" if pace.finished else "",
            "derivatives": f"{taken:,} derivatives" if taken else "",
            "left": "" if left is None else f"{readable_seconds(left)} left" if left > 1 else "",
        }

    told = (TextColumn(f"{{task.fields[{name}]}}") for name in ("samples", "rate", "derivatives"))
    columns = (TextColumn(doing), BarColumn(), *told, TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Running(*columns, console=stderr(), disable=quiet) as bar:
        task = bar.add_task("", total=total, **seen())

        def advance(samples: int) -> None:
            pace.finish(samples, TALLY.derivatives - before)
            bar.update(task, **seen())

        yield advance
