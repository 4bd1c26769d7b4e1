"""How far a run is, on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrcert.cli.console import stderr


@contextmanager
def progress(doing: str, total: int, done: int, *, quiet: bool) -> Iterator[Any]:
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
    with Progress(*columns, console=stderr(), disable=quiet) as bar:
        task = bar.add_task("", total=total, completed=done, rate="")

        def advance(samples: int) -> None:
            bar.advance(task, samples)
            elapsed = bar.tasks[0].elapsed or 0
            rate = (bar.tasks[0].completed - done) / elapsed if elapsed else 0
            bar.update(task, rate=f"{rate:.3g} samples/s")

        yield advance
