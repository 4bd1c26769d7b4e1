"""What the bounds have in common: an enclosure of max |J delta|_2 over the unit ball of a norm."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.linalg.draws import Draws
from attrcert.types import Enclosure, LinearMap


@dataclass(frozen=True)
class FirstOrder:
    """lower <= max |J delta|_2 over the unit ball <= upper; `direction` is in the unit ball and attains lower.

    The upper end fails with probability at most `failure`; `method` names each sample's theorem; `solution` is the
    solver's enclosure and `scaling` the diagonal D (linf), where there are any.
    """

    upper: Float[Tensor, " b"]
    lower: Float[Tensor, " b"]
    direction: Float[Tensor, "b n"]
    failure: float
    method: tuple[str, ...]
    solution: Enclosure | None = None
    scaling: Float[Tensor, "b n"] | None = None

    def select(self, keep: Int64[Tensor, " kept"]) -> "FirstOrder":
        """Some of the samples, without the solver's own account of them."""
        host = keep.cpu()
        return FirstOrder(
            upper=self.upper[host],
            lower=self.lower[host],
            direction=self.direction[keep],
            failure=self.failure,
            method=tuple(self.method[i] for i in host.tolist()),
            scaling=None if self.scaling is None else self.scaling[keep],
        )


class Certifier(Protocol):
    """A theorem that bounds the linearised attribution over a norm's unit ball."""

    def __call__(self, J: LinearMap, draws: Draws) -> FirstOrder: ...


def best_of(found: Sequence[FirstOrder]) -> FirstOrder:
    """Each sample's smallest upper and largest lower bound; the failure probabilities add up."""
    best = found[0]
    for other in found[1:]:
        smaller, larger = other.upper < best.upper, other.lower > best.lower
        best = FirstOrder(
            upper=torch.minimum(best.upper, other.upper),
            lower=torch.maximum(best.lower, other.lower),
            direction=torch.where(larger[:, None].to(best.direction.device), other.direction, best.direction),
            failure=best.failure + other.failure,
            method=tuple(
                b if win else a for a, b, win in zip(best.method, other.method, smaller.tolist(), strict=True)
            ),
            solution=best.solution or other.solution,
            scaling=best.scaling if best.scaling is not None else other.scaling,
        )
    return best
