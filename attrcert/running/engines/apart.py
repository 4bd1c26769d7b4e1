"""An engine in a process of its own: Ray ends the process that it lives in when its head is gone."""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from attrcert.errors import told
from attrcert.running.engines.engine import GO_ON, Done, Job, Spread, WorkersDiedError

PATIENCE = 10.0  # seconds that the engine has to take leave


class Apart(Spread):
    """What `Spread` does, done by another process. If that ends, the run is incomplete."""

    def done(self, job: Job, warn: Callable[[str], None]) -> Generator[Done, None, None]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_relay, args=(theirs, Spread(self.crew, self.workers), job), daemon=True)
        process.start()
        theirs.close()  # so that its end is heard
        try:
            while (heard := _hear(ours, process)) is not None:
                if isinstance(heard, Done):
                    yield heard
                else:
                    warn(heard)
        except BaseException:
            process.terminate()
            raise
        finally:
            ours.close()
            process.join(PATIENCE)
            process.kill()
            process.join()


def _hear(line: Connection, process: BaseProcess) -> Any:
    """A batch, a warning, or None at the end; raises what went wrong there."""
    try:
        heard = line.recv()
    except (EOFError, OSError):
        process.join()
        raise WorkersDiedError(
            f"the process that talks to Ray has ended (code {process.exitcode}), as it does when Ray's head is gone",
            hint=GO_ON,
        ) from None
    if isinstance(heard, Exception):
        raise heard
    return heard


def _relay(line: Connection, engine: Spread, job: Job) -> None:
    """Tell all that the engine does. Ctrl-C is the other process's business; SIGTERM is how it ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with suppress(BrokenPipeError):  # nobody listens any more
        try:
            for done in engine.done(job, line.send):
                line.send(done)
            line.send(None)
        except BrokenPipeError:
            raise
        except Exception as error:
            line.send(told(error))
