"""Random numbers that depend on (seed, sample index, purpose) alone: not on batch, order, device or dtype."""

import zlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor


class Placed(Protocol):
    """Anything that has a dtype and a device: a tensor or a linear map."""

    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...


@dataclass(frozen=True)
class Draws:
    """One independent stream per sample and purpose."""

    seed: int
    indices: tuple[int, ...]

    def normal(self, purpose: str, *shape: int, like: Placed, part: int | None = None) -> Float[Tensor, "b *shape"]:
        """Standard normal numbers, a block per sample; `part` tells the many blocks of one purpose apart."""
        # from 1 on: a seed sequence that ends in 0 is the same as without it
        key = (zlib.crc32(purpose.encode()), *(() if part is None else (part + 1,)))
        blocks = [
            np.random.Generator(np.random.Philox([self.seed, index, *key])).standard_normal(shape)
            for index in self.indices
        ]
        numbers = torch.from_numpy(np.stack(blocks)) if blocks else torch.empty(0, *shape)
        return numbers.to(device=like.device, dtype=like.dtype)

    def select(self, keep: Int64[Tensor, " kept"]) -> "Draws":
        return Draws(self.seed, tuple(self.indices[i] for i in keep.tolist()))
