"""How many points to differentiate together: the fastest of a few sizes, measured on the first samples of a run.

On a CPU large batches can be slower than small ones, since what a layer gives does not stay in the cache (ResNet-20: a product takes
a third longer with 64 points than with 32); on a GPU small ones leave it idle. Samples advance in lock-step whatever the size, in
several pieces where it is smaller than their number.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.attributions.gradient import Hessian
from attrcert.certificates.linf_row_sums import HELD
from attrcert.errors import UsageError
from attrcert.linalg.row_sums import products_a_sample
from attrcert.types import Logits

SMALLEST, LARGEST = 4, 4096
PRODUCTS = 20  # that a point takes part in, at least
SHARE = 0.05  # of a run's products that measuring may take
LOOKS = 6  # products that looking at a size costs: the graph counts for three, one goes before, two are timed
WORTH = 0.95  # a size must be faster by this much, or the usual one stays


@dataclass(frozen=True)
class Tempo:
    """Seconds that a product takes per point, when `chunk` of them are differentiated together."""

    chunk: int
    seconds: float


def tempo(f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], chunk: int) -> Tempo:
    """Measured on as many of the images, repeated where there are fewer."""
    places = torch.arange(chunk, device=x.device) % len(x)
    H = Hessian(f, x[places], y[places])
    v = x[places].flatten(1)
    H.matvec(v)  # the first one builds the graph
    return Tempo(chunk, min(_seconds(H, v) for _ in range(2)) / chunk)


def fastest_chunk(measure: Callable[[int], Tempo], usual: int, *, points: int, most: int) -> int:
    """The fastest size up to `most`, uphill from the usual one; what `points` points in all are worth is spent on the search."""
    budget = SHARE * PRODUCTS * points
    best = min(usual, most)
    if LOOKS * best > budget or points <= best:
        return best
    fastest, budget = measure(best).seconds, budget - LOOKS * best
    for factor in (2.0, 0.5):
        moved, size = False, int(best * factor)
        while SMALLEST <= size <= min(most, LARGEST, points) and LOOKS * size <= budget:
            seconds, budget = measure(size).seconds, budget - LOOKS * size
            if seconds > WORTH * fastest:
                break
            best, fastest, moved, size = size, seconds, True, int(size * factor)
        if moved:
            break
    return best


def check_row_sums(each: Tempo, n: int, itemsize: int, *, points: int, samples: int, hours: float) -> None:
    """Refuse, with the numbers, what would take longer than `hours`."""
    products = products_a_sample(n, n, itemsize, memory=HELD)
    needed = products * points * samples * each.seconds / 3600
    if needed <= hours:
        return
    raise UsageError(
        f"row sums take {products:,} products a sample, about {needed:.3g} hours for {samples} samples of d = {n}; "
        f"--max-hours allows {hours:g}",
        hint="use --linf-method scaled, which is tighter and takes a few hundred, or fewer samples",
    )


def _seconds(H: Hessian, v: Float[Tensor, "b n"]) -> float:
    started = time.perf_counter()
    H.matvec(v)[0, 0].item()  # a GPU is waited for
    return time.perf_counter() - started
