"""Values of several cases, tensor by tensor: whatever the first axis of every tensor in a value counts."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from attrcert.bounds.proved.network import Network

Value = TypeVar("Value")


def mapped(change: Callable[..., Tensor], first: Any, *others: Any) -> Any:
    """Of values of one make; what holds no tensors, and the network, is that of the first."""
    if isinstance(first, Tensor):
        return change(first, *others)
    if isinstance(first, dict):
        return {key: mapped(change, part, *(other[key] for other in others)) for key, part in first.items()}
    if isinstance(first, tuple):
        return tuple(mapped(change, *parts) for parts in zip(first, *others, strict=True))
    if not is_dataclass(first) or isinstance(first, Network | type):
        return first
    names = [one.name for one in fields(first)]
    made = {name: mapped(change, *(getattr(value, name) for value in (first, *others))) for name in names}
    return replace(first, **made)


def taken(value: Value, rows: Int64[Tensor, " k"]) -> Value:
    """Of some cases."""
    return mapped(lambda part: part[rows], value)


def joined(values: Sequence[Value]) -> Value:
    """One after the other."""
    return values[0] if len(values) == 1 else mapped(lambda *parts: torch.cat(parts), *values)


def put(value: Value, rows: Int64[Tensor, " k"], new: Value) -> Value:
    """With other values for some cases."""
    return mapped(lambda old, part: old.index_copy(0, rows, part), value, new)


def mixed(mask: Bool[Tensor, " b"], new: Value, old: Value) -> Value:
    """The new value where the mask says so."""
    return mapped(lambda one, other: torch.where(like(mask, one), one, other), new, old)


def like(number: Tensor, part: Tensor) -> Tensor:
    """A number of each case, in as many axes as a part has."""
    return number.view(-1, *[1] * (part.ndim - 1))
