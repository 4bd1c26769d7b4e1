"""Does the model give logits, the same ones every time, and each sample its own?"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.errors import AttrcertError
from attrcert.networks.classifier import Classifier
from attrcert.networks.tracing import outputs_by_module
from attrcert.running.checks.findings import Finding, Level, first_line

AT_ONCE = 8  # images differentiated at once, so that the checks need less memory than the run


def outputs(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """Logits of shape (batch, classes), finite on at least one sample."""
    name = "outputs"
    try:
        logits = logits_of(f, x)
    except AttrcertError as error:
        return Finding(name, Level.FAIL, error.message, error.hint)
    except Exception as error:
        shape = tuple(x.shape[1:])
        images = len(shape) == 3
        what, told = "images" if images else "inputs", f"of shape {shape}: {first_line(error)}"
        hint = (
            f"check --arch, {'--resize, --crop and --channels' if images else '--data-kind and the number of features'}"
        )
        return Finding(name, Level.FAIL, f"the model rejects {what} {told}", hint)
    if logits.shape[1] < 2:
        return Finding(name, Level.FAIL, f"a classifier needs at least 2 classes, got {logits.shape[1]}")
    finite = int(logits.isfinite().all(dim=1).sum())
    if not finite:
        with outputs_by_module(f.network) as seen, torch.no_grad():
            f(x[:2])
        first = next((module for module, output in seen.items() if not output.isfinite().all()), "the model")
        message = f"the model's outputs are NaN or infinite, first from {first}"
        return Finding(name, Level.FAIL, message, "check the weights and --mean/--std")
    message = f"{logits.shape[1]} classes, logits of {finite} of {len(x)} samples finite"
    return Finding(name, Level.OK if finite == len(x) else Level.WARN, message)


def determinism(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """The same input gives the same output."""
    with outputs_by_module(f.network) as first, torch.no_grad():
        once = f(x)
    with outputs_by_module(f.network) as second, torch.no_grad():
        twice = f(x)
    if torch.equal(once, twice):
        return Finding("determinism", Level.OK, "two passes agree to the bit")
    gap, culprit = (once - twice).abs().max().item(), _first_difference(first, second, 0.0)
    message = f"two passes differ by {gap:.2g}, first in {culprit}"
    return Finding("determinism", Level.FAIL, message, "the model draws random numbers in eval mode")


def batch_coupling(f: Classifier, x: Float[Tensor, "b *shape"]) -> Finding:
    """A sample alone gives what it gives in a batch; otherwise one product would mix samples."""
    name = "batch coupling"
    if len(x) < 2:
        return Finding(name, Level.WARN, "not checked: it takes at least two samples")
    with outputs_by_module(f.network) as together, torch.no_grad():
        logits = f(x)
    # a sample among copies of itself is as good as alone, and batch statistics take it
    with outputs_by_module(f.network) as alone, torch.no_grad():
        single = f(x[:1].expand(2, *x.shape[1:]))
    tolerance = 1e-4 if x.dtype == torch.float32 else 1e-9
    if relative(single[0], logits[0]) <= tolerance:
        return Finding(name, Level.OK, "a sample alone gives what it gives in a batch")
    culprit = _first_difference(alone, together, tolerance)
    hint = "every sample must be computed independently of the others"
    return Finding(name, Level.FAIL, f"{culprit} mixes the samples of a batch", hint)


def logits_of(f: Classifier, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b k"]:
    with torch.no_grad():
        return torch.cat([f(part) for part in x.split(AT_ONCE)])


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item()


def _first_difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float) -> str:
    """The first module whose output differs."""
    for module, output in one.items():
        if module in other and (output.shape != other[module].shape or relative(output, other[module]) > tolerance):
            return module
    return "the model"
