"""What is computed together in a run: as much as fits, in the sizes that are fastest."""

import math

from torch import Tensor

from attrcert.bounds.first_order.linf_row_sums import check_hours
from attrcert.linalg.maps import usual_chunk
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.evaluating.methods import Layout
from attrcert.running.opening.memory import Plan
from attrcert.running.opening.tuning import fastest_chunk, gradient_seconds, product_seconds
from attrcert.settings.computing import RunOptions
from attrcert.settings.tasks import Task
from attrcert.sizes import parse_bytes, readable_bytes


def layout(
    config: Task, f: Classifier, x: Tensor, fits: Plan, options: RunOptions, *, each: int, samples: int
) -> Layout:
    """For `samples` samples of `each` points: as asked for, or measured where that pays. Refuses row sums that would take too long."""
    usual = usual_chunk(x)
    batch = min(samples, options.batch_size or fits.samples)
    # vectors of a sample to multiply together where there are few samples, and room for their graphs or none to lose
    copies = max(fits.copies, min(fits.samples, usual // each) // batch)
    most = fits.chunk or copies * batch * each  # points that fit together

    def seconds(size: int) -> float:
        return product_seconds(f, x, f(x).argmax(1), size)

    if config.forms_matrices and options.max_hours < math.inf:
        n, size, each_takes = x[0].numel(), x.element_size(), seconds(min(usual, most))
        check_hours(n, size, seconds=each_takes, points=each, samples=samples, hours=options.max_hours)
    if options.chunk or not (config.differentiates_twice or config.evaluations > 1):
        chunk = min(options.chunk or usual, fits.chunk or options.chunk or usual)
    elif not config.differentiates_twice:
        points, fitting = samples * each * config.evaluations, fits.chunk or fits.samples * each
        chunk = fastest_chunk(
            lambda size: gradient_seconds(f, x, f(x).argmax(1), size), usual, points=points, most=fitting
        )
    else:
        chunk = fastest_chunk(seconds, usual, points=samples * each, most=most)
    return Layout(chunk, fits.held, copies)


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
