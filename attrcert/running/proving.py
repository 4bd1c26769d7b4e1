"""The proved bound of a run: the network is read once, and what it bounds is compared with what runs, in float64."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.gradient import Saliency
from attrcert.certificates.proved.bound import ProvedBound, Prover, path, sample_bytes
from attrcert.certificates.proved.point import without_jacobians
from attrcert.certificates.proved.reading import read_network
from attrcert.draws import Draws
from attrcert.errors import ModelError
from attrcert.loading.classifier import Classifier
from attrcert.running.config import BoundConfig
from attrcert.types import Attribution

POINTS = 8  # that logits and gradients are compared at before the run
AGREEMENT = 1e-6  # relative: softplus' linear continuation takes 2e-9
FLOOR = 1e-12  # absolute: what cancels in torch's derivatives of saturated activations


@dataclass(frozen=True)
class Proving:
    """The bound, and the network that runs, in float64: every attribution that is bounded is compared with its own."""

    prover: Prover
    running: Classifier

    def __call__(
        self,
        x: Float[Tensor, "b *shape"],
        classes: Int64[Tensor, " b"],
        eps: Sequence[Float[Tensor, " b"]],
        draws: Draws,
    ) -> list[ProvedBound]:
        """Of each sample at each eps."""
        found = self.prover(x, classes, eps, draws)
        _same("attributions", self.prover.attribution.value(self.running, x.double(), classes), found[0].value)
        return found

    def compare(self, x: Float[Tensor, "b *shape"]) -> None:
        """At images, at noisy ones and at noise: a value alone would not show a gradient of its own."""
        rng = torch.Generator().manual_seed(0)
        images = x[torch.arange(POINTS, device=x.device) % len(x)].double()
        noise = torch.rand(images.shape, generator=rng, dtype=torch.float64).to(x.device)
        share = torch.arange(POINTS, device=x.device).view(-1, *[1] * (x.ndim - 1)) / (POINTS - 1)
        points = (1 - share) * images + share * noise
        network = self.prover.network
        with torch.no_grad():
            logits = self.running(points)
            _same("logits", logits, network.values(points)[-1])
        classes = logits.argmax(dim=1)
        ours = without_jacobians(network, points, classes).gradient
        _same("gradients", Saliency().value(self.running, points, classes), ours)


def proving(
    config: BoundConfig, classifier: Classifier, attribution: Attribution, x: Tensor, memory: int
) -> Proving | None:
    """For a configuration that asks for it; refuses what has no rule, does not fit, or was read wrongly."""
    if not config.proved:
        return None
    path(attribution, x[:1].double())  # refuses attributions without a proof before anything is read
    network = read_network(classifier, tuple(x.shape[1:]), x.device)
    needed = sample_bytes(network, len(config.eps))
    if needed > memory:
        raise ModelError(
            f"the proved bound holds the Jacobian of every activation, {needed / 1e9:.3g} GB a sample, and --memory allows "
            f"{memory / 1e9:.3g} GB",
            hint=f"--memory {needed / 1e9 * 1.1:.2g}GB if the machine has it; the smoothing certificate (--smooth uniform) needs little",
        )
    copied = deepcopy(classifier.network).double().eval().requires_grad_(False)
    made = Proving(Prover(network, attribution, config.delta_norm, memory), replace(classifier, network=copied))
    made.compare(x)
    return made


def _same(what: str, theirs: Float[Tensor, "b n"], ours: Float[Tensor, "b n"]) -> None:
    off, size = (theirs - ours).abs().amax(dim=1), theirs.abs().amax(dim=1)
    if not bool((off <= AGREEMENT * size + FLOOR).all()):
        raise ModelError(
            f"the proved bound read another network than the one that runs: their {what} differ by {float(off.max()):.3g}",
            hint="gradients that the network stops or replaces, and writing into views, are not followed",
        )
