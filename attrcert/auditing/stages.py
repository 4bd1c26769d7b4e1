"""A part of an audit as it runs: a few samples at a time, in a random order, into a file that can be resumed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from attrcert.auditing.alarms import OutOfTime, at_most
from attrcert.auditing.parts import ATTACK, SMOOTH, Piece
from attrcert.auditing.planning import Clock
from attrcert.running.opening.runs import Run
from attrcert.running.opening.tuning import gradient_seconds
from attrcert.saved.manifests import COMPLETE, RUNNING
from attrcert.saved.rowfiles import RowFile
from attrcert.vocabulary import indices_text

GRACE = 0.05  # of the whole time, by which a batch may exceed it
SIZES = (4, 16, 64)  # samples of a first batch, of which the largest is taken that is likely to fit
LIKELY = 1 / 2  # of the time that there is for it: how often a gradient is taken is not known well
GRADIENTS = {ATTACK: 1500, SMOOTH: 2000}  # that a sample takes, about


def shuffled(indices: Sequence[int], seed: int) -> list[int]:
    """In an order that is the same for every part: data are often sorted by class."""
    places = np.random.default_rng(seed).permutation(len(indices))
    return [indices[place] for place in places.tolist()]


@dataclass
class Stage:
    """The run of a part, its file and the samples that it has not computed; `reason` is why it stopped, if it did."""

    piece: Piece
    run: Run
    file: RowFile
    clock: Clock
    warn: Callable[[str], None]
    allowance: float | None = None  # seconds, for a first batch
    reason: str = ""
    too_long: float = 0.0  # seconds in which not one sample was done
    waiting: list[int] = field(init=False)
    unit: int = 1
    largest: int = 0
    _begun: str = ""

    def __post_init__(self) -> None:
        order = shuffled(self.run.data.indices, self.run.config.arithmetic.seed)
        self.waiting = [index for index in order if index not in self.file.finished]

    @property
    def name(self) -> str:
        return self.piece.name

    @property
    def done(self) -> int:
        return len(self.file.finished)

    @property
    def left(self) -> int:
        return 0 if self.reason else len(self.waiting)

    @property
    def most(self) -> int:
        return self.run.batch_size

    def first(self) -> int:
        """How many samples to begin with: a small network takes many in nearly the time of one. None where one takes far too long."""
        gradients = GRADIENTS.get(self.piece.kind)
        batch, logits, _ = self.run.usable(self.waiting[:1])
        if batch is None or gradients is None or self.allowance is None:
            return 1
        f, x, y = self.run.classifier, batch.images, logits.argmax(1)
        with f.prepared():
            one, first = gradients * gradient_seconds(f, x, y, 1), 1
            for size in SIZES if one <= LIKELY * self.allowance else ():
                if gradients * size * gradient_seconds(f, x, y, size) > LIKELY * self.allowance:
                    break
                first = size
        if LIKELY * one > self.allowance:
            self.reason = f"a sample is likely to take {one:.0f} s: allow more --minutes"
        return min(first, self.most, len(self.waiting))

    def take(self, samples: int) -> None:
        """The next samples, if there is time for them."""
        batch = tuple(self.waiting[:samples])
        limit = self.clock.left + GRACE * self.clock.seconds if self.allowance is None else self.allowance
        try:
            with at_most(limit):
                rows = self.run.batch(batch, save=None, warn=self.warn)
        except OutOfTime:
            what = "one sample was" if len(batch) == 1 else f"{len(batch)} samples were"
            self.reason = f"{what} not done in {limit:.0f} s: allow more --minutes"
            self.too_long = 0.0 if self.done else limit
            return
        if not self._begun:
            self._begun = str(self.file.earlier.get("started") or _now())
            self.write(RUNNING)
        self.file.append(rows)
        self.unit = self.unit if self.largest else len(batch)
        self.largest = max(self.largest, len(batch))
        self.waiting = self.waiting[samples:]

    def write(self, state: str) -> None:
        """The manifest, which tells of the samples that there are."""
        own = indices_text(index for index in self.run.data.indices if index in self.file.finished)
        facts = {**self.run.environment(), "chunk": self.run.work.layout.chunk, "samples": own}
        self.file.write_manifest({**facts, "started": self._begun, "ended": _now()}, state=state)

    def end(self, state: str = COMPLETE) -> None:
        """What was begun is told to have ended so, and the file is free for others."""
        try:
            if self._begun:
                self.write(state)
        finally:
            self.file.close()


def opened_file(run: Run, folder: Path, piece: Piece, *, overwrite: bool) -> RowFile:
    """A new one, or that of an earlier audit with the same settings."""
    return run.file(folder / piece.file, resume=not overwrite, overwrite=overwrite)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
