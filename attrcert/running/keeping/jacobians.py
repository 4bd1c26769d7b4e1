"""The Jacobians of chosen samples' attributions as matrices, for those who want to look at one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from attrcert.errors import UsageError
from attrcert.linalg.row_sums import dense
from attrcert.running.evaluating.bounding import Bounds
from attrcert.running.opening.runs import Run
from attrcert.saved.arrays import JACOBIANS, MARK, input_key, jacobian_key, map_key
from attrcert.saved.files import write_whole
from attrcert.vocabulary import indices_text

LARGEST = 4096  # features; a matrix of that size has 64 MiB


def check_jacobians(run: Run, indices: Sequence[int]) -> None:
    """What can be refused before the run."""
    _bounds(run)
    if missing := [index for index in indices if index not in run.data.indices]:
        there = indices_text(run.data.indices)
        raise UsageError(f"--save-jacobian must name samples of the run, which are {there}, got {missing[0]}")
    n = torch.Size(run.shape).numel()
    if n > LARGEST:
        raise UsageError(
            f"--save-jacobian forms a {n} x {n} matrix; the limit is d = {LARGEST}", hint="e.g. with --resize 32"
        )


def _bounds(run: Run) -> Bounds[Any]:
    if len(run.config.singles) > 1:
        raise UsageError(
            f"--save-jacobian takes one attribution, norm and softplus beta, got {len(run.config.singles)} of them together"
        )
    if not isinstance(run.work, Bounds):
        raise UsageError("--save-jacobian is for attributions as they are, not for --smooth")
    return run.work


def write_jacobians(run: Run, indices: Sequence[int], path: Path) -> list[str]:
    """Each sample's matrix, input and map; what could not be written, and why."""
    kept: dict[str, Tensor] = {}
    failed: list[str] = []
    with run.classifier.prepared():
        for index in indices:
            found, reason = _matrices(run, index)
            kept |= {name: tensor.contiguous().cpu() for name, tensor in found.items()}
            failed += [f"no Jacobian of sample {index}: {reason}"] if reason else []
    write_whole(path, lambda part: save_file(kept, part, metadata={MARK: JACOBIANS}))
    return failed


def _matrices(run: Run, index: int) -> tuple[dict[str, Tensor], str]:
    """A sample's arrays by name, or why there are none."""
    batch, logits, failed = run.usable([index])
    if batch is None:
        return {}, failed[0].message
    subject = _bounds(run).explain(run.classifier, batch, logits)
    explained = subject.explained
    return {
        jacobian_key(index): dense(explained.jacobian)[0].detach(),
        input_key(index): batch.images[0],
        map_key(index): explained.value[0].detach().view(subject.map_shape),
    }, ""
