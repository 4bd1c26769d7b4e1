"""Runs as the command line makes them, without the computing: the files that they write are what is looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from attrcert import AttackConfig, DataSpec, ModelSpec, RunOptions, open_run
from attrcert.cli.session import compute
from attrcert.columns import Row
from attrcert.running.opening.runs import Run
from attrcert.saved.arrays import delta_key
from attrcert.settings.output import Output


@dataclass(frozen=True)
class Canned:
    """Rows and perturbations that were computed before, a sample at a time."""

    rows: dict[int, list]
    workers: int = 1

    def __call__(self, run: Run, order: Any) -> Iterator[list]:
        for index, rows in self.rows.items():
            if index not in order.finished:
                if order.save:
                    order.save({delta_key(index, row["eps"], row["attack"]): torch.full((4,), index) for row in rows})
                yield rows


@dataclass(frozen=True)
class Runs:
    """An attack whose rows go to x.csv and whose perturbations go to x.safetensors."""

    run: Run
    engine: Canned

    def __call__(self, home: Path, *, resume: bool = False, overwrite: bool = False) -> list[Row]:
        results = Output(out=home / "x.csv", resume=resume, overwrite=overwrite, quiet=True)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Run, "environment", lambda _: {"versions": {}})  # which takes most of the time
            return compute(self.run, RunOptions("cpu"), results, self.engine, deltas=home / "x.safetensors")


def canned_runs(config: AttackConfig, samples: int) -> Runs:
    run = open_run(ModelSpec("fashion-natural"), DataSpec("fashion-test", limit=samples), config, RunOptions("cpu"))
    (rows,) = run.rows(warn=pytest.fail)
    return Runs(run, Canned({index: [row for row in rows if row["index"] == index] for index in run.data.indices}))
