"""xi_max of the bundled models' attributions, by attrcert and by what else one would use: ratios from one run.

`make bench`. All solvers use the same products, samples and threads. scipy runs sample by sample to a relative accuracy
of 1e-4, attrcert in one batch until its enclosure is within 1 %, which is the stronger statement: scipy's figure
is a lower bound. Dense forms the Jacobian and takes its singular values, as the papers do.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import LinearOperator, eigsh, svds
from torch import Tensor

from attrcert import ATTRIBUTIONS, Draws, TopSingularValue
from attrcert.linalg.row_sums import dense
from attrcert.loading.checkpoints import ModelSpec, load_model
from attrcert.loading.datasets import DataSpec, load_data
from attrcert.types import LinearMap

SAMPLES, DENSE_SAMPLES = 16, 4


@dataclass(frozen=True)
class Measured:
    seconds: float
    values: np.ndarray


def timed(solve: Callable[[], np.ndarray]) -> Measured:
    started = time.perf_counter()
    values = solve()
    return Measured(time.perf_counter() - started, values)


def by_scipy(jacobian: LinearMap) -> np.ndarray:
    """Sample by sample on the same products."""
    b, m, n = jacobian.shape
    found = []
    for i in range(b):
        J = jacobian.select(torch.tensor([i]))

        def product(v: np.ndarray, apply: Callable[[Tensor], Tensor]) -> np.ndarray:
            return apply(torch.from_numpy(np.ascontiguousarray(v.ravel(), dtype=np.float32))[None])[0].numpy()

        operator = LinearOperator(
            (m, n),
            matvec=lambda v, J=J: product(v, J.matvec),
            rmatvec=lambda v, J=J: product(v, J.rmatvec),
            dtype=np.float32,
        )
        if J.symmetric:
            found.append(abs(eigsh(operator, k=1, which="LM", tol=1e-4, return_eigenvectors=False)[0]))
        else:
            found.append(svds(operator, k=1, tol=1e-4, return_singular_vectors=False)[0])
    return np.array(found)


def by_dense(jacobian: LinearMap) -> np.ndarray:
    return torch.linalg.matrix_norm(dense(jacobian), ord=2).numpy()


def main() -> None:
    classifier = load_model(ModelSpec(), device=torch.device("cpu"), dtype=torch.float32).classifier
    images = load_data(DataSpec()).images
    x = torch.stack([images[i][0] for i in range(SAMPLES)])
    table = Table("attribution", "attrcert ms/sample", "scipy / attrcert", "dense / attrcert", "largest gap to dense")
    solver = TopSingularValue()
    with classifier.prepared():
        y = classifier(x).argmax(1)
        for name in ATTRIBUTIONS:
            attribution = ATTRIBUTIONS.make(name)
            jacobian = attribution.explain(classifier, x, y).jacobian
            solver(jacobian, Draws(0, tuple(range(SAMPLES))), purpose="warm up")
            ours = timed(lambda J=jacobian: solver(J, Draws(1, tuple(range(SAMPLES))), purpose="bench").lower.numpy())
            scipys = timed(lambda J=jacobian: by_scipy(J))
            few = jacobian.select(torch.arange(DENSE_SAMPLES))
            exact = timed(lambda J=few: by_dense(J))
            gap = np.abs(ours.values[:DENSE_SAMPLES] / exact.values - 1).max()
            each = ours.seconds / SAMPLES
            table.add_row(
                name,
                f"{1e3 * each:.1f}",
                f"{scipys.seconds / ours.seconds:.1f}",
                f"{exact.seconds / DENSE_SAMPLES / each:.0f}",
                f"{gap:.0e}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
