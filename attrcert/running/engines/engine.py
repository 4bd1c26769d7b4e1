"""Where batches are computed: in this process, or by workers that may die, each with a model of its own."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from torch import Tensor

from attrcert.columns import Cell, Row
from attrcert.errors import AttrcertError, told
from attrcert.running.evaluating.work import Deltas
from attrcert.running.opening.opening import open_run
from attrcert.running.opening.runs import Run, Source

BATCHES_EACH = 4  # so that no worker waits long for the last one
DEATHS = 3  # of workers at one batch, after which the batch is to blame
GO_ON = "what was finished can be resumed: the same command with --resume goes on"
Indices = tuple[int, ...]


class EngineError(AttrcertError):
    """The workers cannot go on."""


class WorkersDiedError(EngineError):
    """One after the other at the same batch, or all at once: the run is incomplete."""

    exit_code = 4


@dataclass(frozen=True)
class Order:
    """What is left to do of a run: which samples are finished, how many go together, and who takes perturbations and warnings."""

    finished: Collection[Cell]
    size: int
    save: Deltas | None
    warn: Callable[[str], None]


class Engine(Protocol):
    """Rows of the samples that are not finished, a batch at a time, in whatever order they come."""

    @property
    def workers(self) -> int: ...

    def __call__(self, run: Run, order: Order) -> Generator[list[Row], None, None]: ...


@dataclass(frozen=True)
class Here:
    """This process, one batch after the other."""

    workers: int = 1

    def __call__(self, run: Run, order: Order) -> Generator[list[Row], None, None]:
        yield from run.rows(finished=order.finished, size=order.size, save=order.save, warn=order.warn)


@dataclass(frozen=True)
class Done:
    """What a worker made of a batch."""

    rows: list[Row]
    kept: dict[str, Tensor]
    warnings: list[str]


@dataclass(frozen=True)
class Died:
    """A worker is gone, with its batch."""

    reason: str


class Worker:
    """The run, opened once, in a process of its own; the same code whoever started that process."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def _run(self) -> Run:
        source = self._source
        return open_run(source.model, source.data, source.config, source.options)

    def attempt(self, indices: Indices, *, keep: bool) -> Done | AttrcertError:
        """The batch, or what went wrong, to be raised where a user hears of it."""
        try:
            return self.compute(indices, keep=keep)
        except Exception as error:
            return told(error)

    def compute(self, indices: Indices, *, keep: bool) -> Done:
        kept: dict[str, Tensor] = {}
        warnings: list[str] = []
        rows = self._run.batch(indices, save=kept.update if keep else None, warn=warnings.append)
        return Done(rows, kept, warnings)


class Hand(Protocol):
    """A worker as its employer sees it."""

    def give(self, indices: Indices) -> None: ...
    def dismiss(self) -> None: ...


class Crew(Protocol):
    """Hires workers, as many as there is room for, and hears from them."""

    @property
    def room(self) -> int: ...
    def hire(self) -> Hand: ...
    def hear(self, busy: Sequence[Hand]) -> tuple[Hand, Done | Died]:
        """The first of the busy workers that is done or dead; raises what went wrong at one."""
        ...


@dataclass(frozen=True)
class Job:
    """Batches of a run; `keep` asks for their perturbations."""

    source: Source
    batches: Sequence[Indices]
    keep: bool


@dataclass(frozen=True)
class Spread:
    """Batches on `workers` workers of a crew; the batch of a dead one is given to another."""

    crew: Callable[[Source, bool], Crew]
    workers: int

    def __call__(self, run: Run, order: Order) -> Generator[list[Row], None, None]:
        assert run.source is not None  # a command's run has one
        job = Job(run.source, run.open_batches(order.finished, order.size), order.save is not None)
        with closing(self.done(job, order.warn)) as found:
            for done in found:
                for message in done.warnings:
                    order.warn(message)
                if order.save and done.kept:
                    order.save(done.kept)
                yield [row for row in done.rows if row["index"] not in order.finished]

    def done(self, job: Job, warn: Callable[[str], None]) -> Generator[Done, None, None]:
        """Every batch once."""
        crew = self.crew(job.source, job.keep)
        if crew.room < self.workers:
            warn(f"there is room for {crew.room} of {self.workers} workers; going on with these")
        yield from employ(crew, job.batches, min(self.workers, crew.room, len(job.batches)), warn)


def fitting(run: Run, engine: Engine) -> int:
    """The batch size: as asked for, or so small that every worker has a few batches."""
    if engine.workers == 1 or (run.source and run.source.options.batch_size):
        return run.batch_size
    return max(1, min(run.batch_size, -(-len(run.data.indices) // (BATCHES_EACH * engine.workers))))


def employ(
    crew: Crew, batches: Sequence[Indices], workers: int, warn: Callable[[str], None]
) -> Generator[Done, None, None]:
    """Every batch once, as the workers finish them."""
    waiting, deaths = deque(batches), Counter[Indices]()
    idle: list[Hand] = []
    busy: dict[int, tuple[Hand, Indices]] = {}
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                hand = idle.pop() if idle else crew.hire()
                batch = waiting.popleft()
                busy[id(hand)] = (hand, batch)
                hand.give(batch)
            hand, heard = crew.hear([one for one, _ in busy.values()])
            _, batch = busy.pop(id(hand))
            if isinstance(heard, Done):
                idle.append(hand)
                yield heard
                continue
            deaths[batch] += 1
            if deaths[batch] == DEATHS:
                raise WorkersDiedError(
                    f"{DEATHS} workers died of the batch that begins with sample {batch[0]}: {heard.reason}",
                    hint=f"a smaller --batch-size or --memory may help; {GO_ON}",
                )
            warn(f"a worker died ({heard.reason}); its {len(batch)} samples are given to another")
            waiting.appendleft(batch)
    finally:
        for hand in (*idle, *(one for one, _ in busy.values())):
            hand.dismiss()
