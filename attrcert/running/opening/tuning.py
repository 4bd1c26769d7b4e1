"""How many points to differentiate together: the fastest of a few sizes, measured on the first samples of a run.

On a CPU large batches can be slower than small ones, since what a layer gives does not stay in the cache (ResNet-20: a product takes
a third longer with 64 points than with 32); on a GPU small ones leave it idle. Samples advance in lock-step whatever the size, in
several pieces where it is smaller than their number.
"""

import time
from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.gradient import Hessian, gradient
from attrcert.types import Logits

SMALLEST = 4
BUDGET = 1.0  # products of every point of a run that measuring may cost; the bounds take 15 or more
LOOK = 6  # products that looking at a size costs: the graph counts for three, one goes before, two are timed
WORTH = 0.95  # a size must take this much less, or the usual one stays


def product_seconds(f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], size: int) -> float:
    """What a product takes per point when `size` points are differentiated together; images are repeated where there are fewer."""
    places = torch.arange(size, device=x.device) % len(x)
    H, v = Hessian(f, x[places], y[places], chunk=size), x[places].flatten(1)
    H.matvec(v)  # the first one builds the graph
    return min(_seconds(lambda: H.matvec(v)) for _ in range(2)) / size


def fastest_chunk(seconds: Callable[[int], float], usual: int, *, points: int, most: int) -> int:
    """The fastest size up to `most`, uphill from the usual one, as far as it is worth for a run of so many points."""
    best, budget = min(usual, most), BUDGET * points
    if LOOK * best > budget:
        return best
    fastest, budget = seconds(best), budget - LOOK * best
    for factor in (2.0, 0.5):
        moved, size = False, int(best * factor)
        while SMALLEST <= size <= most and LOOK * size <= budget:
            taken, budget = seconds(size), budget - LOOK * size
            if taken > WORTH * fastest:
                break
            best, fastest, moved, size = size, taken, True, int(size * factor)
        if moved:
            break
    return best


def gradient_seconds(f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], size: int) -> float:
    """The same of a gradient."""
    places = torch.arange(size, device=x.device) % len(x)
    points, classes = x[places], y[places]
    gradient(f, points, classes, chunk=size)
    return min(_seconds(lambda: gradient(f, points, classes, chunk=size)) for _ in range(2)) / size


def _seconds(compute: Callable[[], Tensor]) -> float:
    started = time.perf_counter()
    compute()[0, 0].item()  # a GPU is waited for
    return time.perf_counter() - started
