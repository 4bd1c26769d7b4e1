"""How many samples to take at once, and how many graphs to keep: from the bytes that one graph holds, measured on a sample."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.gradient import Saliency
from attrcert.attributions.smoothed import SmoothGrad, UniformSmooth
from attrcert.attributions.unit import Direction
from attrcert.linalg.maps import usual_chunk
from attrcert.linalg.scaling import DiagonalScaling
from attrcert.types import Attribution, Logits

# Larger batches do not go faster: a CPU's cache is full, a GPU is busy.
MOST_POINTS = {"cpu": 512, "cuda": 4096}
MOST_SAMPLES = {"cpu": 128, "cuda": 256}
# A product needs room beside the graph: 1.5 times as much again was measured (resnet18 at 224 x 224).
BESIDE = 3
# Vectors at every point that live at once in a product of integrated gradients: two terms, their sum, the products.
ON_THE_WAY = 4
# Vectors of a sample that share a graph where graphs are built again, and the part of the memory for what they make on the way.
SHARING, SHARED_PART = DiagonalScaling().columns, 4
PLAIN = Saliency()


@dataclass(frozen=True)
class Plan:
    """What fits: samples at once, points differentiated together, of how many the graphs are kept (None: of all), how many vectors of a
    sample share a graph that is not, and the bytes that one sample takes at least.
    """

    samples: int
    chunk: int | None = None
    held: int | None = None
    copies: int = 1
    least: int = 0


def plan(
    attribution: Attribution,
    f: Logits,
    x: Float[Tensor, "1 *shape"],
    y: Int64[Tensor, " 1"],
    *,
    memory: int,
    vectors: int,
) -> Plan:
    """Samples whose graphs and `vectors` of their size fit into `memory` bytes; where not even one does, graphs are given up."""
    kind = x.device.type if x.device.type in MOST_SAMPLES else "cpu"
    points, basis = attribution.points, vectors * x.numel() * x.element_size()
    if points == 1:
        each = BESIDE * sample_bytes(attribution, f, x, y) + basis
        return Plan(max(1, min(memory // max(each, 1), MOST_SAMPLES[kind])), least=each)
    point = max(1, sample_bytes(_of_point(attribution), f, x, y))
    most = max(1, min(MOST_SAMPLES[kind], MOST_POINTS[kind] // points))
    vector = ON_THE_WAY * points * x.numel() * x.element_size()
    least = BESIDE * point + basis + vector
    samples = memory // (BESIDE * points * point + basis + vector)
    if samples >= 1:
        return Plan(min(samples, most), least=least)
    chunk, held = _split(memory - basis - vector, point, usual_chunk(x))
    if held >= points:
        return Plan(1, chunk, least=least)
    copies = max(1, min(SHARING, memory // (SHARED_PART * vector)))
    return Plan(1, *_split(memory - basis - copies * vector, point, usual_chunk(x)), copies, least)


def _of_point(attribution: Attribution) -> Attribution:
    """What a smoothed attribution averages, if that takes one gradient; else the gradient, which it is made of."""
    while isinstance(attribution, SmoothGrad | UniformSmooth | Direction):
        attribution = attribution.base
    return attribution if attribution.points == 1 else PLAIN


def _split(room: int, point: int, most: int) -> tuple[int, int]:
    """Points at once and points whose graphs are kept: half of the room is for what is done at once."""
    room = max(0, room)
    chunk = max(1, min(most, room // (2 * BESIDE * point)))
    return chunk, max(0, (room - BESIDE * chunk * point) // point)


def sample_bytes(attribution: Attribution, f: Logits, x: Float[Tensor, "1 *shape"], y: Int64[Tensor, " 1"]) -> int:
    """What a second sample adds to the tensors that autograd keeps; the weights are in the first one's share."""
    one, two = (_saved_bytes(attribution, f, x.repeat(b, *[1] * (x.ndim - 1)), y.repeat(b)) for b in (1, 2))
    return max(0, two - one)


def _saved_bytes(attribution: Attribution, f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"]) -> int:
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
        explained = attribution.explain(f, x, y)
    del explained  # alive until here, so that no storage was freed and counted twice
    return sum(seen.values())
