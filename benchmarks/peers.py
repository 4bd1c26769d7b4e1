"""Ways to the top singular value of a batch of maps, each with what it cost."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh, svds
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.linalg.row_sums import dense
from attrcert.types import LinearMap

CHUNK = 32  # points differentiated together, for all; at 224 x 224 fewer, as by default
TOLERANCE = 1e-4  # relative, of xi_max: what every solver is asked for
ANY = 1e6  # slack that no upper end exceeds for long
COLUMNS_AT_ONCE = 8  # of a dense matrix
PYHESSIAN_TOLERANCE, PYHESSIAN_STEPS = 1e-3, 100  # the defaults of its power iteration


@dataclass
class Meter:
    """Counts a map's products, samples times calls, and the seconds inside them."""

    products: int = 0
    seconds: float = 0.0

    def timed(self, apply: Callable[[Tensor], Tensor], v: Tensor) -> Tensor:
        started = time.perf_counter()
        product = apply(v)
        self.seconds += time.perf_counter() - started
        self.products += len(v)
        return product


@dataclass(frozen=True)
class Metered(LinearMap):
    """A map whose products are counted."""

    inner: LinearMap
    meter: Meter = field(default_factory=Meter)

    @property
    def like(self) -> LinearMap:
        return self.inner

    @property
    def symmetric(self) -> bool:
        return self.inner.symmetric

    def matvec(self, v: Tensor) -> Tensor:
        return self.meter.timed(self.inner.matvec, v)

    def rmatvec(self, u: Tensor) -> Tensor:
        return self.meter.timed(self.inner.rmatvec, u)

    def select(self, keep: Tensor) -> "Metered":
        return Metered(self.inner.select(keep), self.meter)


@dataclass(frozen=True)
class Cost:
    """Of all samples: wall-clock seconds, seconds inside products, products, and the values."""

    seconds: float
    inside: float
    products: int
    values: np.ndarray

    @property
    def outside(self) -> float:
        """The share of the time that is not spent in products."""
        return 1 - self.inside / self.seconds

    def each(self) -> float:
        return self.seconds / len(self.values)


Solve = Callable[[LinearMap], np.ndarray]


def cost(solve: Solve, jacobian: LinearMap) -> Cost:
    metered = Metered(jacobian)
    started = time.perf_counter()
    values = solve(metered)
    seconds = time.perf_counter() - started
    return Cost(seconds, metered.meter.seconds, metered.meter.products, values)


def best_costs(solvers: Sequence[Solve], jacobian: LinearMap, repeats: int) -> list[Cost]:
    """The least of several times of each, taken in turn, so that a busy machine is busy for all of them."""
    rounds = [[cost(solve, jacobian) for solve in solvers] for _ in range(repeats)]
    return [min(costs, key=lambda one: one.seconds) for costs in zip(*rounds, strict=True)]


def least_seconds(act: Callable[[], object], *, repeats: int) -> float:
    """The least of several times."""

    def once() -> float:
        started = time.perf_counter()
        act()
        return time.perf_counter() - started

    return min(once() for _ in range(repeats))


def by_attrcert(jacobian: LinearMap) -> np.ndarray:
    """All samples in lock-step, until the enclosure is within 1 %."""
    draws = Draws(1, tuple(range(jacobian.shape[0])))
    return TopSingularValue()(jacobian, draws, purpose="bench").lower.numpy()


def by_attrcert_without_upper_end(jacobian: LinearMap) -> np.ndarray:
    """The same until the value has settled: what the guarantee costs is the difference."""
    draws = Draws(1, tuple(range(jacobian.shape[0])))
    return TopSingularValue(slack=ANY)(jacobian, draws, purpose="bench").lower.numpy()


def by_scipy(jacobian: LinearMap) -> np.ndarray:
    """ARPACK, sample by sample: a lower bound of xi_max."""
    return np.array([_arpack(operator, symmetric=jacobian.symmetric) for operator in jacobian.to_scipy()])


def _arpack(operator: LinearOperator, *, symmetric: bool) -> float:
    if symmetric:
        return abs(eigsh(operator, k=1, which="LM", tol=TOLERANCE, return_eigenvectors=False)[0])
    return svds(operator, k=1, tol=TOLERANCE, return_singular_vectors=False)[0]


def by_power_iteration(jacobian: LinearMap) -> np.ndarray:
    """Sample by sample, until two estimates differ by PyHessian's tolerance: no bound, and often not there yet."""
    found = []
    for i in range(jacobian.shape[0]):
        J = jacobian.select(torch.tensor([i]))
        v = torch.nn.functional.normalize(torch.randn(1, J.shape[2], generator=torch.Generator().manual_seed(i)), dim=1)
        before = None
        for _ in range(PYHESSIAN_STEPS):
            u = J.matvec(v)
            w = u if J.symmetric else J.rmatvec(u)
            value = (w * v).sum().item()
            v = torch.nn.functional.normalize(w, dim=1)
            if before is not None and abs(value - before) / (abs(before) + 1e-6) < PYHESSIAN_TOLERANCE:
                break
            before = value
        found.append(abs(value) if J.symmetric else abs(value) ** 0.5)
    return np.array(found)


def by_dense(jacobian: LinearMap) -> np.ndarray:
    """The matrices, a column a product, and their norms: what the papers do, with many columns together."""
    return torch.linalg.matrix_norm(dense(jacobian, copies=COLUMNS_AT_ONCE), ord=2).numpy()


def dense_seconds(jacobian: LinearMap, *, columns: int) -> float:
    """What the matrix of one sample would take, from some of its columns and the norm of a matrix of that size."""
    _, m, n = jacobian.shape
    one = jacobian.select(torch.zeros(columns, dtype=torch.int64))
    unit = torch.eye(n)[:columns]
    one.matvec(unit)
    started = time.perf_counter()
    one.matvec(unit)
    each = (time.perf_counter() - started) / columns
    started = time.perf_counter()
    torch.linalg.matrix_norm(torch.randn(m, n, generator=torch.Generator().manual_seed(0)), ord=2)
    return n * each + time.perf_counter() - started
