"""Work that takes longer than there is time for ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfTime(BaseException):
    """Like an interrupt, so that nobody takes it for an error of their own and goes on."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises `OutOfTime` in the block when the time is over; in other threads than the main one nothing can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
