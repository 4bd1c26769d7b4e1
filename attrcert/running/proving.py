"""The proved bound of a run: the network is read and checked once, before anything is computed."""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from attrcert.attributions.gradient import gradient
from attrcert.certificates.proved.bound import ProvedBound, Prover, path, sample_bytes
from attrcert.certificates.proved.network import Network
from attrcert.certificates.proved.point import without_jacobians
from attrcert.certificates.proved.reading import read_network
from attrcert.errors import ModelError
from attrcert.loading.classifier import Classifier
from attrcert.running.config import BoundConfig
from attrcert.types import Attribution

POINTS = 8  # that the network as read is compared at with the one that runs, in float64
AGREEMENT = 1e-6  # of logits and gradients there, relative to the largest; softplus' linear continuation takes 2e-9
IN_A_RUN = {torch.float32: 1e-2, torch.float64: 1e-6}  # of an attribution, relative: what rounding may take


def prover(
    config: BoundConfig, classifier: Classifier, attribution: Attribution, x: Tensor, memory: int
) -> Prover | None:
    """For a configuration that asks for it; refuses what has no rule, does not fit, or was read wrongly."""
    if not config.proved:
        return None
    path(attribution, x[:1].double())
    network = read_network(classifier, tuple(x.shape[1:]), x.device)
    needed = sample_bytes(network, len(config.eps))
    if needed > memory:
        raise ModelError(
            f"the proved bound holds the Jacobian of every activation, {needed / 1e9:.3g} GB a sample, and --memory allows "
            f"{memory / 1e9:.3g} GB",
            hint=f"--memory {needed / 1e9 * 1.1:.2g}GB if the machine has it; the smoothing certificate (--smooth uniform) needs little",
        )
    _compare(network, classifier, x)
    return Prover(network, attribution, config.delta_norm, memory)


def _compare(network: Network, classifier: Classifier, x: Tensor) -> None:
    """Logits and gradients at images, at noisy ones and at noise: a value alone would not show a gradient of its own."""
    rng = torch.Generator().manual_seed(0)
    images = x[torch.arange(POINTS) % len(x)].double()
    noise = torch.rand(images.shape, generator=rng, dtype=torch.float64).to(x.device)
    share = torch.arange(POINTS, device=x.device).view(-1, *[1] * (x.ndim - 1)) / (POINTS - 1)
    points = (1 - share) * images + share * noise
    running = replace(classifier, network=deepcopy(classifier.network).double())
    with running.prepared(), torch.no_grad():
        theirs = running(points)
        ours = network.values(points)[-1]
        classes = theirs.argmax(dim=1)
        slopes = gradient(running, points, classes), without_jacobians(network, points, classes).gradient
    for name, one, other in (("logits", theirs, ours), ("gradients", *slopes)):
        off = float((one - other).abs().max())
        if not off <= AGREEMENT * (1e-30 + float(one.abs().max())):
            raise ModelError(
                f"the proved bound read another network than the one that runs: their {name} differ by {off:.3g}",
                hint="gradients that the network stops or replaces, and writing into views, are not followed",
            )


def agree(bound: ProvedBound, value: Tensor) -> None:
    """The attribution that was bounded must be the one that the run explains."""
    off, size = (bound.value - value.double()).norm(dim=1), value.double().norm(dim=1)
    if not bool((off <= IN_A_RUN[value.dtype] * size + 1e-30).all()):
        raise ModelError(
            f"the proved bound read another attribution than the one that runs: they differ by {float((off / size).max()):.3g} of it",
            hint="gradients that the network stops or replaces, and writing into views, are not followed",
        )
