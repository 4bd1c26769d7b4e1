"""What rounding may take of products of Jacobians: moduli of paths, from the input and from the activations before.

`whole`: row i of dz/dx has at most this sum of moduli over all paths from the input, with any slopes over the ball, and with any secants
from its centre, which are means of them. It grows with every layer, where the Jacobian does not.

`near`: a row u of dz/dx is computed from its end, and what is off at a step by e adds e D to the row's product with delta, D the change of
that step's values over the ball [higham2002accuracy]. D is known at the activations: so sums of moduli start there anew, at 2 |D a| and a
little, which also covers the part of D that is not C delta.
"""

from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import steepest
from attrcert.bounds.proved.network import Network


class Paths:
    """Takes the activations of a network one after the other; `whole` is for entries of the input of at most 1, `near` for the ball.

    One sum serves all samples, as long as the slopes' bound is that of all.
    """

    def __init__(self, network: Network, z: dict[int, Float[Tensor, "b n"]], radius: Float[Tensor, " b"]) -> None:
        self.network, self.z = network, z
        self.steep: dict[int, Tensor | float] = {}
        self.moved: dict[int, Tensor] = {}
        ones = radius.new_ones(1, *network.steps[0].shape)
        self.found = [(ones, radius.view(-1, *[1] * (ones.ndim - 1)) * ones)]

    def learn(
        self, i: int, moved: Float[Tensor, "b n"], error: Float[Tensor, "b n"], off: Float[Tensor, "b n"]
    ) -> None:
        """|D z| <= moved at activation i, and what of it is not C delta is at most moved + error more; z is off by `off`."""
        shape = self.network.steps[i].shape
        steep = steepest(self.network.curve(i), self.z[i], moved + off)
        self.steep[i] = steep.view(-1, *shape) if isinstance(steep, Tensor) else steep
        self.moved[i] = (2 * moved + error).view(-1, *shape)

    def before(self, i: int) -> tuple[Float[Tensor, "c n"], Float[Tensor, "b n"]]:
        """`whole` and `near` of the input of activation i; what is known of earlier activations is used."""
        end = self.network.before(i)
        for number, step in enumerate(self.network.steps[len(self.found) : end + 1], len(self.found)):
            ways, moves = zip(*(self.found[j] for j in step.inputs), strict=True)
            if step.curve is not None:
                self.found.append((self.steep[number] * ways[0], self.steep[number] * self.moved[number]))
            elif step.operation is None:
                self.found.append((sum(ways[1:], ways[0]), sum(moves[1:], moves[0])))
            else:
                self.found.append((step.magnitude.apply(ways[0]), step.magnitude.apply(moves[0])))
        whole, near = self.found[end]
        return whole.flatten(1), near.flatten(1)
