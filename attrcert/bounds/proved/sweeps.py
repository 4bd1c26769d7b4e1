"""Vectors through a network with the slopes at x, forwards and back: what forms of B, and of its products, are applied by."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.network import Carried, Network

Block = Float[Tensor, "_ _ _"]
AT_ONCE = 3 * 10**5  # entries of the widest step that a sweep holds


@dataclass(frozen=True)
class Sweeps:
    """A network and its slopes, in one precision."""

    network: Network
    slope: dict[int, Float[Tensor, "1 _"]]

    def pushed(self, given: Block, added: dict[int, Block]) -> dict[int, Block]:
        """Vectors at the input, and those added to the activations' results: what is at the activations' inputs."""
        found: dict[int, Block] = {}

        def bend(i: int, moved: Tensor) -> Tensor:
            found[i] = moved
            on = self.slope[i][:, None] * moved
            return on + added[i] if i in added else on

        self.network.push(given, bend)
        return found

    def pulled(self, given: dict[int, Block]) -> tuple[Block, dict[int, Block], dict[int, Block]]:
        """Vectors at the activations' inputs: back at the input, what came to the activations' results, and all that left their inputs."""
        results: dict[int, Block] = {}
        inputs: dict[int, Block] = {}

        def bend(i: int, carried: Carried | None) -> Carried:
            inputs[i] = given[i]
            if carried is not None:
                results[i] = carried.centre
                inputs[i] = given[i] + self.slope[i][:, None] * carried.centre
            return Carried(inputs[i])

        pulled = self.network.pull(len(self.network.steps) - 1, None, bend)
        assert pulled is not None  # every activation is reached from the input
        return pulled.centre, results, inputs

    def units(self) -> Iterator[tuple[slice, Block]]:
        """The unit vectors of the input, some at a time, and which they are."""
        d, widest = self.network.inputs, max(step.size for step in self.network.steps)
        like = next(iter(self.slope.values()))
        at_once = max(1, AT_ONCE // widest)
        for start in range(0, d, at_once):
            block = like.new_zeros(1, min(at_once, d - start), d)
            block[0].diagonal(start).fill_(1.0)
            yield slice(start, start + block.shape[1]), block


class Norms:
    """Of rows whose entries come a few columns at a time, by activation."""

    def __init__(self, order: float) -> None:
        self.order = order
        self.total: dict[int, Float[Tensor, " _"]] = {}

    def add(self, blocks: dict[int, Block]) -> None:
        for i, block in blocks.items():
            here = (block[0].square() if self.order == 2 else block[0].abs()).sum(dim=0).double()
            self.total[i] = self.total[i] + here if i in self.total else here

    def __call__(self) -> dict[int, Float[Tensor, " _"]]:
        return {i: part.sqrt() if self.order == 2 else part for i, part in self.total.items()}


@dataclass(frozen=True)
class Curvature:
    """Of c at a point: M = sum B^T diag(c) B, and norms of the rows of M, of B (`straight`), of U (`turned`), and of c B + s' U
    (`carried`), as computed.
    """

    c: dict[int, Float[Tensor, "1 _"]]
    M: Float[Tensor, "d d"]
    rows: Float[Tensor, " d"]
    straight: dict[int, Float[Tensor, " _"]]
    turned: dict[int, Float[Tensor, " _"]]
    carried: dict[int, Float[Tensor, " _"]]


def curvature(sweeps: Sweeps, c: dict[int, Float[Tensor, "1 _"]], order: float) -> Curvature:
    d, straight, turned, carried = sweeps.network.inputs, Norms(order), Norms(order), Norms(order)
    M = next(iter(c.values())).new_empty(d, d)
    for some, units in sweeps.units():
        b = sweeps.pushed(units, {})
        image, results, inputs = sweeps.pulled({i: c[i][:, None] * part for i, part in b.items()})
        M[some] = image[0]
        straight.add(b)
        turned.add(results)
        carried.add(inputs)
    none = {i: torch.zeros_like(part[0]) for i, part in c.items()}
    return Curvature(c, M, torch.linalg.vector_norm(M, order, dim=0), straight(), none | turned(), carried())
