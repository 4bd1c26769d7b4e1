"""`max-eps --proved`: the largest eps at which the proved bound keeps a threshold, by a bracketing search.

What holds in a ball holds in every smaller one, so any eps whose bound keeps the threshold is an answer. The search ends where one a
millionth larger does not keep it, or after 60 bounds with the largest that did, or at the largest distance of two inputs in their range:
no perturbation of an input into another is longer, and nothing is claimed of longer ones. Without a range it ends at 1e6. The bound is
nearly a power of eps between two points, which is how the next one is chosen.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.bound import ProvedBound
from attrcert.running.evaluating.subjects import Subject

CLOSE = 1e-6  # relative width of the bracket at the end
MOST = 60
SMALLEST, FARTHEST = 1e-6, 1e6
INSIDE = 0.02  # share of the bracket that a proposal keeps from its ends
Vector = Float[Tensor, " b"]


def largest_proved_eps(
    subject: Subject, allowed: Callable[[ProvedBound], Vector], guess: Vector
) -> tuple[Vector, Vector, ProvedBound]:
    """Per sample, at most the largest distance of two inputs; the deviation that the threshold allows; a bound, for its maps."""
    prover = subject.prover
    assert prover is not None
    x, most = subject.batch.images, min(subject.farthest, FARTHEST)
    eps = guess.clamp(SMALLEST, most)
    low, below = torch.zeros_like(eps), torch.zeros_like(eps)
    high, above = torch.full_like(eps, torch.inf), torch.full_like(eps, torch.inf)
    for number in range(MOST):
        (bound,) = prover(x, subject.target, [eps], subject.draws)
        deviation, upper = allowed(bound), bound.upper.cpu()
        kept = upper <= deviation
        low, below = torch.where(kept, eps, low), torch.where(kept, upper, below)
        high, above = torch.where(kept, high, eps), torch.where(kept, above, upper)
        met = (high.isfinite() & (high - low <= CLOSE * high)) | (low >= most) | (deviation <= 0)
        if bool(met.all()):
            break
        eps = _between(low, below, high, above, deviation, halve=number % 3 == 2).clamp_max(most)
    return torch.where(deviation <= 0, 0.0, low), deviation, bound


def _between(low: Vector, below: Vector, high: Vector, above: Vector, wanted: Vector, *, halve: bool) -> Vector:
    """The next eps: twice the low end while there is no high one, else where a power of eps through both ends meets the wanted figure.

    Every third time the bracket is halved, or one end might stay for ever.
    """
    power = torch.log(above / below) / torch.log(high / low)
    met = low * (wanted / below) ** (1 / power)
    scaled = high * (wanted / above).clamp(0.01, 0.9)
    margin = INSIDE * (high - low)
    proposal = torch.where(low > 0, met, scaled)
    proposal = torch.where(proposal.isfinite() & (not halve), proposal, (low + high) / 2)
    proposal = torch.minimum(torch.maximum(proposal, low + margin), high - margin)
    return torch.where(high.isinf(), 2 * low.clamp_min(SMALLEST), proposal)
