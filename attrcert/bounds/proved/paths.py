"""Sums over the paths from the input, with the moduli of all weights and the largest slopes that activations have over a ball.

Row i of dz/dx has at most this sum of moduli: with any slopes over the ball, and with any secants from its centre, which are means of them.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import steepest
from attrcert.bounds.proved.network import Network


class Paths:
    """Takes the activations of a network one after the other; for entries of the input that are at most 1.

    One sum serves all samples, as long as the slopes' bound is that of all.
    """

    def __init__(self, network: Network, z: dict[int, Float[Tensor, "b n"]]) -> None:
        self.network, self.z = network, z
        self.steep: dict[int, Tensor | float] = {}
        like = next(iter(z.values()), torch.ones(1, 1))
        self.found = [like.new_ones(1, *network.steps[0].shape)]

    def learn(self, i: int, moved: Float[Tensor, "b n"]) -> None:
        """By how much the input of activation i moves at most."""
        steep = steepest(self.network.curve(i), self.z[i], moved)
        self.steep[i] = steep.view(-1, *self.network.steps[i].shape) if isinstance(steep, Tensor) else steep

    def before(self, i: int) -> Float[Tensor, "c n"]:
        """To the input of activation i; what it takes of earlier activations is known."""
        end = self.network.before(i)
        for number, step in enumerate(self.network.steps[len(self.found) : end + 1], len(self.found)):
            ways = [self.found[j] for j in step.inputs]
            if step.curve is not None:
                self.found.append(self.steep[number] * ways[0])
            else:
                self.found.append(sum(ways[1:], ways[0]) if step.operation is None else step.magnitude.apply(ways[0]))
        return self.found[end].flatten(1)
