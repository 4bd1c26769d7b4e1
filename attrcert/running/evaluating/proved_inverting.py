"""`max-eps --proved`: the largest eps at which the proved bound keeps a threshold, by a bracketing search.

What holds in a ball holds in every smaller one, so any eps whose bound keeps the threshold is an answer. The search ends where one a
millionth larger does not keep it, or after 60 bounds with the largest that did, or at the largest distance of two inputs in their range:
no perturbation of an input into another is longer, and nothing is claimed of longer ones. Without a range it ends at 1e6. The joint form,
which is dear, goes on from where the other bounds end: in at most 8 bounds, or until one a hundredth larger does not keep the threshold.
The other bounds then look no closer than that either.
The bound is nearly a power of eps between two points, which is how the next one is chosen.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.bound import ProvedBound
from attrcert.running.evaluating.proving import MisreadError, Proving
from attrcert.running.evaluating.subjects import Subject

CLOSE = 1e-6  # relative width of the bracket at the end
MOST = 60
NEAR, FEW, FARTHER = 1e-2, 8, 1.5  # the same for the joint form, which starts so much farther than the others came
SMALLEST, FARTHEST = 1e-6, 1e6
INSIDE = 0.02  # share of the bracket that a proposal keeps from its ends
Vector = Float[Tensor, " b"]


def largest_proved_eps(
    subject: Subject, allowed: Callable[[ProvedBound], Vector], guess: Vector
) -> tuple[Vector, Vector, ProvedBound]:
    """Per sample, at most the largest distance of two inputs; the deviation that the threshold allows; a bound, for its maps."""
    proving = subject.prover
    assert proving is not None
    most = min(subject.farthest, FARTHEST)
    plain = replace(proving, prover=replace(proving.prover, effort=0))
    nothing = torch.zeros_like(guess), torch.zeros_like(guess)
    close = NEAR if proving.prover.effort else CLOSE
    low, below, deviation, bound = _searched(subject, plain, allowed, guess.clamp(SMALLEST, most), nothing, close, MOST)
    if proving.prover.effort:
        start = (FARTHER * low).clamp(SMALLEST, most)
        low, _, deviation, bound = _searched(subject, proving, allowed, start, (low, below), NEAR, FEW)
    return torch.where(deviation <= 0, 0.0, low), deviation, bound


def _searched(
    subject: Subject,
    proving: Proving,
    allowed: Callable[[ProvedBound], Vector],
    eps: Vector,
    kept: tuple[Vector, Vector],
    close: float,
    number: int,
) -> tuple[Vector, Vector, Vector, ProvedBound]:
    """The same with one prover, from an eps that keeps the threshold and the bound there; a bracket as close as that, or so many bounds.

    Samples whose bracket is close are not bounded again.
    """
    x, most, waiting = subject.batch.images, min(subject.farthest, FARTHEST), torch.arange(len(eps))
    bound: ProvedBound | None = None
    low, below = kept
    high, above = torch.full_like(eps, torch.inf), torch.full_like(eps, torch.inf)
    for step in range(number):
        rows = waiting.to(x.device)
        try:
            (found,) = proving(x[rows], subject.target[rows], [eps[waiting]], subject.draws.select(rows))
        except MisreadError as error:
            error.rows = tuple(rows[list(error.rows)].tolist())  # of the batch
            raise
        bound = found if bound is None else bound.put(rows, found)
        deviation, upper = allowed(bound), bound.upper.cpu()
        holds = upper <= deviation
        low, below = torch.where(holds, torch.maximum(eps, low), low), torch.where(holds, upper, below)
        high, above = torch.where(holds, high, eps), torch.where(holds, above, upper)
        met = (high.isfinite() & (high - low <= close * high)) | (low >= most) | (deviation <= 0)
        waiting = (~met).nonzero()[:, 0]
        if not len(waiting):
            break
        further = _between(low, below, high, above, deviation, halve=step % 3 == 2).clamp_max(most)
        eps = torch.where(met, eps, further)
    assert bound is not None
    return low, below, deviation, bound


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
