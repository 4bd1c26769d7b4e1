"""Entries moved, picked or padded with zeros: flatten, view, reshape, permute, slices, padding."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attrcert.bounds.proved.affine import NonNegative
from attrcert.bounds.proved.building import Building, Ref, Unsupported


@dataclass(frozen=True, eq=False)
class Moving(NonNegative):
    """`move` puts every entry somewhere or nowhere, for batches of any size."""

    move: Callable[[Tensor], Tensor]
    terms: int = 1
    moves = True

    def apply(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "samples *out"]:
        return self.move(x)


def reshaped(building: Building, input: Ref, change: Callable[[Tensor], Tensor]) -> Ref:
    """A change of shape that keeps the order of the entries; the network writes it for a batch of one."""
    shape = tuple(change(building.sample(input)).shape)
    if shape[0] != 1:
        raise Unsupported(f"a reshape to {shape}, which mixes samples", "keep the first axis for the batch")
    return building.add(Moving(lambda x: x.reshape(len(x), *shape[1:])), input)


def view(building: Building, input: Ref, *shape: Any) -> Ref:
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return reshaped(building, input, lambda x: x.reshape(sizes))


def flatten(building: Building, input: Ref, start_dim: int = 0, end_dim: int = -1) -> Ref:
    return reshaped(building, input, lambda x: x.flatten(start_dim, end_dim))


def squeezed(building: Building, input: Ref, *dims: Any) -> Ref:
    return reshaped(building, input, lambda x: x.squeeze(*dims) if dims else x[:, None].squeeze().unsqueeze(0))


def unsqueezed(building: Building, input: Ref, dim: int) -> Ref:
    return reshaped(building, input, lambda x: x.unsqueeze(dim))


def permuted(building: Building, input: Ref, *dims: Any) -> Ref:
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if order[0] % len(order) != 0:
        raise Unsupported("a permutation that moves the batch", "keep the first axis for the batch")
    return building.add(Moving(lambda x: x.permute(order)), input)


def transposed(building: Building, input: Ref, dim0: int, dim1: int) -> Ref:
    if 0 in (dim % (len(input.shape) + 1) for dim in (dim0, dim1)):
        raise Unsupported("a transposition that moves the batch", "keep the first axis for the batch")
    return building.add(Moving(lambda x: x.transpose(dim0, dim1)), input)


def item(building: Building, input: Ref, key: Any) -> Ref:
    keys = key if isinstance(key, tuple) else (key,)
    if keys[0] not in (slice(None), Ellipsis) or any(isinstance(k, Ref | Tensor) for k in keys):
        raise Unsupported(f"the selection {key!r}", "slices of a sample are understood, those of the batch are not")
    picked = Moving(lambda x: x[keys])
    again = picked.adjoint(torch.ones_like(picked.apply(building.sample(input))), input.shape)  # how often each entry
    return building.add(replace(picked, terms=max(1, int(again.max()))), input)


def padded(building: Building, input: Ref, pad: Any, mode: str = "constant", value: float | None = None) -> Ref:
    if mode != "constant" or value:
        raise Unsupported(f"padding by {mode} {value or ''}".strip(), "only zeros are understood")
    return building.add(Moving(lambda x: F.pad(x, pad)), input)
