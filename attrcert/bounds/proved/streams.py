"""Rows of the Jacobians N_lm = dz_l/da_m and B_l = dz_l/dx, one after the other: what rounding may have taken of their moduli.

A row is pulled back in a fast precision and forgotten. Write n for what is computed at the results of activation m. Each operation on the
way is off by at most a share of what it gives with the moduli of its weights, W^T |v| [higham2002accuracy], and that error goes on
through the *true* Jacobians, whose sums of moduli are bounded themselves, not through products of moduli from layer to layer: those
grow by orders of magnitude with every layer where weights cancel.

Let Phi_l >= sum_{m<l} |N_lm| w_m for some w >= 0, and let mod Phi_l be what the affine operations between the activations before l and l
give, with the moduli of their weights, of |s'_m| Phi_m + w_m. The errors of all operations between two activations are at most gamma of
that, so

    sum |N_lm| w_m  <=  sum |n_m| (w_m + |s'_m| gamma mod Phi_m) + gamma mod Phi_l,

layer by layer from the first (`streamed_rows`). The other way round, psi_m = sum_{l>m} |N_lm|^T w_l, the same errors are further weights
(`scatter`, `streamed_bends`).

Departures: `rounding` carries moduli through the whole network. At twenty layers they exceed 1e20.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import exp
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.network import Carried, Network
from attrcert.bounds.proved.rounding import FEW

AT_ONCE = 10**6  # entries of the widest step that rows are pulled through together: more leave the processor's memory
BLUR = 2.0  # twice what sums of moduli lose
SMALLEST = 1e-30  # at least what products below the smallest number add up to, for weights of at most 1

Columns = Float[Tensor, "_ _"]


@dataclass(frozen=True)
class Streams:
    """A network at one point, ready to pull rows; `slope` is s' as it was computed, which N and B are made of.

    `gamma` is that of the affine operations before each activation, for the precision of `fast`; `exact` is how much smaller it is in that
    of the network, float64.
    """

    network: Network
    fast: Network
    slope: dict[int, Float[Tensor, "1 _"]]
    gamma: dict[int, float]
    kind: torch.dtype

    @cached_property
    def fast_slope(self) -> dict[int, Float[Tensor, "1 _"]]:
        return {i: part.to(self.kind) for i, part in self.slope.items()}

    @property
    def exact(self) -> float:
        return torch.finfo(next(iter(self.slope.values())).dtype).eps / torch.finfo(self.kind).eps

    def scatter(self, i: int, weights: Columns, into: dict[int, Columns]) -> None:
        """Adds |N_im|^T weights to `into` at every activation before, and |B_i|^T weights at the input, 0."""
        (heavy, top) = scaled({i: weights}, self.kind)
        above, start = 1 + self.blur(i), 0
        for units in self.units(i):
            here = heavy[i][start : start + len(units)]
            start += len(units)

            def seen(m: int, n: Tensor, here: Tensor = here) -> None:
                into[m] += ((n.abs().mT @ here).double() * above + SMALLEST) * top

            seen(0, self.pulled(i, units, seen))

    def pulled(self, i: int, units: Tensor, seen: Callable[[int, Tensor], None]) -> Tensor:
        """Rows of B; `seen` is given those of N, activation by activation."""

        def bend(m: int, carried: Carried | None) -> Carried | None:
            if carried is None:
                return None
            seen(m, carried.centre[0])
            return Carried(self.fast_slope[m][:, None] * carried.centre)

        with torch.backends.nnpack.flags(enabled=False):  # its convolutions are other sums, by transforms
            pulled = self.fast.pull(self.fast.before(i), Carried(units[None]), bend)
        assert pulled is not None  # every step is reached from the input
        return pulled.centre[0]

    def units(self, i: int) -> Iterator[Float[Tensor, "k n"]]:
        before = self.fast.before(i)
        n, widest = self.fast.steps[before].size, max(step.size for step in self.fast.steps[: before + 1])
        at_once = max(1, AT_ONCE // widest)
        for start in range(0, n, at_once):
            block = torch.zeros(min(at_once, n - start), n, dtype=self.kind, device=self.slope[i].device)
            block.diagonal(start).fill_(1.0)
            yield block

    def blur(self, i: int) -> float:
        """Of sums of so many numbers."""
        longest = max(step.size for step in self.network.steps)
        return BLUR * (longest + len(self.slope) + FEW) * torch.finfo(self.kind).eps


def streams(network: Network, slope: dict[int, Float[Tensor, "1 _"]], kind: torch.dtype) -> Streams:
    return Streams(network, in_precision(network, kind), slope, gammas(network, kind), kind)


def fast_precision(like: Tensor) -> torch.dtype:
    """float32 where its products are float32's: some devices and settings compute them with fewer digits."""
    plain = like.device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"
    return torch.float32 if plain else torch.float64


def in_precision(network: Network, kind: torch.dtype) -> Network:
    """The network with its weights rounded."""
    steps = []
    for step in network.steps:
        operation: Any = step.operation
        if operation is not None:
            tensors = {
                part.name: getattr(operation, part.name).to(kind)
                for part in fields(operation)
                if part.name != "lost" and isinstance(getattr(operation, part.name), Tensor)
            }
            step = replace(step, operation=replace(operation, **tensors))
        steps.append(step)
    return Network(tuple(steps))


def gammas(network: Network, kind: torch.dtype) -> dict[int, float]:
    """Of the affine operations that a result went through since the last activation, by the step it is the result of.

    A sum of k products is off by at most k u / (1 - k u) of the sum of their moduli; `FEW` is for weights, slopes and scales that were
    rounded themselves. Errors of errors are in the last line.
    """
    unit, found = torch.finfo(kind).eps / 2, [0.0]
    uses = [0] * len(network.steps)
    for step in network.steps:
        for j in step.inputs:
            uses[j] += 1
    for step in network.steps[1:]:
        if step.curve is not None:
            found.append(0.0)
        else:
            before = max(found[j] + uses[j] * unit for j in step.inputs)
            found.append(before + (step.terms + FEW + len(step.inputs)) * unit)
    return {i: float((gamma + FEW * unit) * exp(2 * gamma)) for i, gamma in enumerate(found)}


def scaled(columns: dict[int, Columns], kind: torch.dtype) -> tuple[dict[int, Columns], Float[Tensor, " k"]]:
    """Columns of largest modulus one, rounded, and what they were divided by; the rounding is in `blur`."""
    if not columns:
        return {}, torch.ones(1)
    top = torch.stack([part.abs().amax(dim=0) for part in columns.values()]).amax(dim=0)
    top = torch.where(top > 0, top, 1.0)
    return {m: (part / top).to(kind) for m, part in columns.items()}, top
