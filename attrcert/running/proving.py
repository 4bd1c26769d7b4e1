"""The proved bound of a run: the network is read and checked once, before anything is computed."""

import torch
from torch import Tensor

from attrcert.certificates.proved.bound import Prover, path, sample_bytes
from attrcert.certificates.proved.reading import read_network
from attrcert.errors import ModelError
from attrcert.loading.classifier import Classifier
from attrcert.running.config import BoundConfig
from attrcert.types import Attribution

AGREEMENT = 1e-3  # of the logits, relative to the largest: what float32 may differ by


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
    with torch.no_grad():
        ours, theirs = network.values(x[:2].double())[-1], classifier(x[:2]).double()
    if float((ours - theirs).abs().max()) > AGREEMENT * (1 + float(theirs.abs().max())):
        raise ModelError(
            "the proved bound read another network than the one that runs: their logits differ by "
            f"{float((ours - theirs).abs().max()):.3g}",
            hint="operations in place on views are not followed: write them out of place",
        )
    return Prover(network, attribution, config.delta_norm, memory)
