"""Workers that are processes of this machine."""

import multiprocessing
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from attrcert.running.engines.engine import Died, Done, Hand, Indices, Worker
from attrcert.running.opening.runs import Source


@dataclass(frozen=True)
class ProcessHand:
    process: BaseProcess
    line: Connection

    def give(self, indices: Indices) -> None:
        with suppress(OSError):  # then it is dead, which is heard next
            self.line.send(indices)

    def dismiss(self) -> None:
        self.line.close()  # an idle worker ends at that
        self.process.terminate()
        self.process.join()


@dataclass(frozen=True)
class Processes:
    """Spawned, not forked: neither threads nor CUDA survive a fork."""

    source: Source
    keep: bool
    workers: int

    @property
    def room(self) -> int:
        return self.workers

    @property
    def source_each(self) -> Source:
        """What each worker opens: it has the threads that were asked for, or its share of the cores."""
        options = self.source.options
        threads = options.threads or max(1, (os.cpu_count() or 1) // self.workers)
        return replace(self.source, options=replace(options, threads=threads))

    def hire(self) -> Hand:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.source_each, self.keep), daemon=True)
        process.start()
        theirs.close()  # so that its end is heard
        return ProcessHand(process, ours)

    def hear(self, busy: Sequence[Hand]) -> tuple[Hand, Done | Died]:
        hands = {hand.line: hand for hand in busy if isinstance(hand, ProcessHand)}
        line = next(line for line in wait(list(hands)) if isinstance(line, Connection))
        hand = hands[line]
        try:
            heard = line.recv()
        except (EOFError, OSError):
            hand.process.join()
            return hand, Died(f"process {hand.process.pid} ended with code {hand.process.exitcode}")
        if isinstance(heard, Exception):
            raise heard
        return hand, heard


def _serve(line: Connection, source: Source, keep: bool) -> None:
    """A worker's life: batches in, rows out, until the line is closed. Ctrl-C is its employer's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(source)
    with suppress(EOFError, OSError):
        while True:
            line.send(worker.attempt(line.recv(), keep=keep))
