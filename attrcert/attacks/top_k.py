"""Drive the k most important features out of the top: IFIA's top-k attack [ghorbani2019interpretation].

The set of features is that of the original map throughout; recomputing it at each step, as some code does, lets the attack
undo its own work.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.attack import Maps, Steepest
from attrcert.metrics.top_k import largest, share


@dataclass(frozen=True)
class TopKAttack(Steepest):
    """Lower the share of |g| that the original top k features hold; the best iterate has the smallest intersection."""

    k: int = 1

    def objective(self, maps: Maps) -> Float[Tensor, " rows"]:
        return -share(maps.moved, largest(maps.original, self.k))

    def score(self, maps: Maps) -> Float[Tensor, " rows"]:
        """Features driven out, and among equals the smaller share."""
        chosen = largest(maps.original, self.k)
        staying = torch.zeros_like(maps.moved).scatter(1, largest(maps.moved, self.k), 1.0).gather(1, chosen).sum(dim=1)
        return -staying - share(maps.moved, chosen)
