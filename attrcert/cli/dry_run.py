"""What a run would do: how many samples, how many at once, how long, in how much memory."""

import json
import resource
import sys
import time
from typing import Any

from attrcert.cli.console import put
from attrcert.foreign import printable
from attrcert.running.engines.engine import Engine, fitting
from attrcert.running.opening.runs import Run
from attrcert.sizes import readable_bytes, readable_seconds

PATIENCE = 4.0  # seconds after which no more samples are tried at once
GROWTH = 8  # times as many the next time


def tell_plan(run: Run, engine: Engine, memory: str, shape: str) -> None:
    """On stdout; a few samples are computed to measure the time, and their rows are thrown away."""
    plan = _plan(run, engine, memory)
    if shape == "json":
        put(json.dumps(plan, indent=1, default=str))
        return
    for name, value in plan.items():
        if value is not None:
            put(printable(f"{name}: {value}"))


def _plan(run: Run, engine: Engine, memory: str) -> dict[str, Any]:
    size, samples, chunk = fitting(run, engine), len(run.data.indices), run.work.layout.chunk
    seconds, tried = _seconds(run, min(size, samples))
    measured = (
        f"measured on {tried} of them"
        if tried == min(size, samples)
        else f"by {tried} of them; more at once are faster"
    )
    most = "about" if tried == min(size, samples) else "at most about"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "command": run.config.command,
        **run.facts(),
        "samples": samples,
        "rows": samples * len(run.config.cases),
        "batch": f"{min(size, samples)} samples at once"
        + (f", {chunk} points differentiated together" if chunk else ""),
        "workers": engine.workers,
        "memory": f"{readable_bytes(used)} at most so far, with {tried} of them; --memory {memory} limits a batch",
        "time": f"{most} {readable_seconds(seconds * samples / engine.workers)}, {measured}",
    }


def _seconds(run: Run, most: int) -> tuple[float, int]:
    """Of a sample, and how many it was measured on: more at once as long as that is quick, since they share their work."""
    tried = 1
    while True:
        started = time.perf_counter()
        run.batch(run.data.indices[:tried], save=None, warn=lambda _: None)
        taken = time.perf_counter() - started
        if tried == most or taken > PATIENCE:
            return taken / tried, tried
        tried = min(most, GROWTH * tried)
