"""attrcert against what else one would use, how it grows, and its rates: one run, one set of tables.

`make bench` prints them and saves them in benchmarks/results.md. `SHARED=folder` names a folder with third-party checkpoints; without it
networks of that size with random weights take their places.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.grids import Grid, save
from benchmarks.growth import costs, with_batch, with_samples, with_size
from benchmarks.rates import attacks, captum, linf, smoothing
from benchmarks.solvers import solvers

SHARED = Path(os.environ.get("SHARED", "../shared/data"))
RESULTS = Path(__file__).with_name("results.md")
PARTS: tuple[Callable[[], Grid], ...] = (
    partial(solvers, SHARED),
    partial(linf, SHARED),
    partial(costs, SHARED),
    with_size,
    partial(with_batch, SHARED),
    with_samples,
    partial(smoothing, SHARED),
    partial(attacks, SHARED),
    partial(captum, SHARED),
)


def main() -> None:
    console = Console(width=220)
    started = time.perf_counter()
    grids = []
    for part in PARTS:
        grids.append(part())
        grids[-1].show(console)
        save(grids, RESULTS, time.perf_counter() - started)
    console.print(f"saved in {RESULTS}")


if __name__ == "__main__":
    main()
