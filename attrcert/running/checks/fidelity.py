"""How close the softplus twin is to the network it stands for."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attrcert.attributions.gradient import gradient
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.findings import Finding, Level
from attrcert.running.checks.outputs import AT_ONCE, logits_of

LEAST_AGREEMENT, LEAST_COSINE = 0.95, 0.9


@dataclass(frozen=True)
class Fidelity:
    """How close the softplus twin is to the network it stands for."""

    samples: int
    agreement: float
    logit_gap: float
    cosine: float


def fidelity(f: Classifier, x: Float[Tensor, "b *shape"]) -> tuple[Fidelity | None, Finding]:
    """The softplus twin against the original: same labels, close logits, aligned gradients."""
    if f.beta is None or not f.replaced(x[:2]):
        return None, Finding("softplus twin", Level.OK, "the network runs with its own activations")
    original = f.original()
    twin, own = logits_of(f, x), logits_of(original, x)
    y = own.argmax(1)
    slopes = gradient(f, x, y, chunk=AT_ONCE), gradient(original, x, y, chunk=AT_ONCE)
    cosine = F.cosine_similarity(slopes[0], slopes[1], dim=1)
    agreement, gap = (twin.argmax(1) == y).double().mean().item(), (twin - own).abs().max().item()
    measured = Fidelity(len(x), agreement, gap, cosine.mean().item())
    count = ", ".join(f"{number} {kind}" for kind, number in f.replaced(x[:2]).items())
    message = (
        f"{count} run as softplus, beta {f.beta:g}: same label on {measured.agreement:.0%} of {len(x)} samples, "
        f"largest logit gap {measured.logit_gap:.2g}, mean cosine of the gradients {measured.cosine:.2f}"
    )
    if measured.agreement >= LEAST_AGREEMENT and measured.cosine >= LEAST_COSINE:
        return measured, Finding("softplus twin", Level.OK, message)
    hint = "the bounds speak of the twin; a larger --softplus-beta stays closer to the ReLU network"
    return measured, Finding("softplus twin", Level.WARN, message, hint)
