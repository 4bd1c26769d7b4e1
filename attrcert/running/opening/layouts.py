"""What is computed together in a run: as much as fits, in the sizes that are fastest."""

import math
from dataclasses import dataclass

from torch import Tensor

from attrcert.bounds.first_order.linf_row_sums import check_hours
from attrcert.linalg.maps import usual_chunk
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.evaluating.methods import Layout
from attrcert.running.opening.memory import Plan
from attrcert.running.opening.tuning import fastest_chunk, product_seconds
from attrcert.settings.computing import RunOptions
from attrcert.settings.tasks import Task
from attrcert.vocabulary import parse_bytes, readable_bytes


@dataclass(frozen=True)
class Together:
    """What is computed together in a run of `samples` samples, each of `each` points."""

    f: Classifier
    x: Tensor
    each: int
    fits: Plan
    samples: int
    options: RunOptions

    @property
    def batch(self) -> int:
        """Samples at once."""
        return min(self.samples, self.options.batch_size or self.fits.samples)

    @property
    def most(self) -> int:
        """Points that fit together."""
        return self.fits.chunk or self.copies * self.batch * self.each

    @property
    def copies(self) -> int:
        """Vectors of a sample to multiply together where there are few samples, and room for their graphs or none to lose."""
        return max(self.fits.copies, min(self.fits.samples, usual_chunk(self.x) // self.each) // self.batch)

    def chunk(self, config: Task) -> int:
        """How many points to differentiate together: as asked for, or the fastest."""
        usual = usual_chunk(self.x)
        if self.options.chunk or not config.differentiates_twice:
            return min(self.options.chunk or usual, self.fits.chunk or self.options.chunk or usual)
        return fastest_chunk(self._seconds, usual, points=self.samples * self.each, most=self.most)

    def check_row_sums(self, config: Task) -> None:
        """Refuse those that would take too long."""
        hours = self.options.max_hours
        if hours == math.inf or not config.differentiates_twice or not config.forms_matrices:
            return
        n, itemsize = self.x[0].numel(), self.x.element_size()
        seconds = self._seconds(min(usual_chunk(self.x), self.most))
        check_hours(n, itemsize, seconds=seconds, points=self.each, samples=self.samples, hours=hours)

    def _seconds(self, size: int) -> float:
        return product_seconds(self.f, self.x, self.f(self.x).argmax(1), size)

    def layout(self, config: Task) -> Layout:
        """Checked, and measured where that pays."""
        self.check_row_sums(config)
        return Layout(self.chunk(config), self.fits.held, self.copies)


def memory_findings(fits: Plan, chunk: int | None, options: RunOptions) -> list[Finding]:
    """What of the run does not fit into its memory."""
    findings, room = [], parse_bytes(options.memory) // options.sharing
    if fits.least > room:
        has = (
            f"a worker's share of --memory, {readable_bytes(room)}"
            if options.sharing > 1
            else f"--memory {options.memory}"
        )
        message = f"one sample takes about {readable_bytes(fits.least)}, more than {has}; it is taken all the same"
        hint = "fewer --workers or a larger --memory help" if options.sharing > 1 else "a larger --memory helps"
        findings.append(Finding("memory", Level.WARN, message, hint))
    elif fits.held is not None:
        message = f"the graphs of {fits.held} points fit into --memory; the others are built again for every product"
        findings.append(
            Finding("memory", Level.WARN, message, "that takes up to three times as long; a larger --memory helps")
        )
    if options.chunk and chunk and chunk < options.chunk:
        message = f"--chunk {options.chunk} does not fit into --memory: {chunk} points go together"
        findings.append(Finding("memory", Level.WARN, message, "a larger --memory helps"))
    return findings
