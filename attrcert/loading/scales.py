"""What the features of a data set span: their least and largest values, and their spread; and samples in units of it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.errors import DataError, SampleError
from attrcert.loading.arrays import ArraySamples
from attrcert.loading.frames import Frame, frame_of
from attrcert.loading.pixels import Images
from attrcert.types import Box
from attrcert.vocabulary import Kind


@dataclass(frozen=True)
class Spans:
    """Of every entry of a sample: the least and the largest value; of every channel or feature: the standard deviation."""

    low: Float[Tensor, "*shape"]
    high: Float[Tensor, "*shape"]
    std: Float[Tensor, " channels"]

    @property
    def within(self) -> Box:
        return Box(self.low.flatten(), self.high.flatten())

    def scale(self, how: str) -> Float[Tensor, " channels"]:
        """What a channel or feature is divided by; 1 where it does not vary."""
        low, high = self.low.flatten(1) if self.low.ndim > 1 else self.low[:, None], self.high
        width = (high.flatten(1) if high.ndim > 1 else high[:, None]).amax(dim=1) - low.amin(dim=1)
        scale = width if how == "range" else self.std
        return torch.where(scale > 0, scale, 1.0)


def spans(samples: Images) -> Spans:
    """Of all usable samples that have the shape of the first one."""
    low = high = first = total = squares = torch.empty(0)
    count = 0
    for block in _blocks(samples):
        if not count:
            low, high = block.amin(dim=0), block.amax(dim=0)
            first = block[0].flatten(1).mean(dim=1) if block.ndim > 2 else block[0]
            total = squares = torch.zeros_like(first)
        if block.shape[1:] != low.shape:
            continue
        low, high = torch.minimum(low, block.amin(dim=0)), torch.maximum(high, block.amax(dim=0))
        off = block.movedim(1, -1).reshape(-1, block.shape[1]) - first  # near 0, so that squares lose no digits
        total, squares, count = total + off.sum(dim=0), squares + off.square().sum(dim=0), count + len(off)
    if not count:
        raise DataError("none of the samples can be used, so that no range of the data is known")
    variance = squares / count - (total / count).square()
    return Spans(low, high, variance.clamp_min(0).sqrt())


def _blocks(samples: Images) -> Iterator[Float[Tensor, "n *shape"]]:
    if isinstance(samples, ArraySamples) and samples.form.kind is not Kind.IMAGES:
        yield from (block for block in samples.blocks() if len(block))
        return
    for index in range(len(samples)):
        try:
            yield samples[index][0].double()[None]
        except SampleError:
            continue


@dataclass(frozen=True)
class Scaled:
    """Samples whose channels or features are divided by a scale."""

    samples: Images
    scale: Float[Tensor, " channels"]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "*shape"], int | None]:
        sample, label = self.samples[index]
        if len(sample) != len(self.scale):
            raise SampleError(f"a sample must have {len(self.scale)} features, got {len(sample)}", kind="shape")
        return (sample.double() / self.scale.view(-1, *[1] * (sample.ndim - 1))).to(sample.dtype), label

    def frame(self, index: int) -> Frame:
        return frame_of(self.samples, index)
