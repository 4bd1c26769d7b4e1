"""The largest variance and the error of a mean: how often the bounds fail, and the scatter of draws against dense eigenvalues."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from attrcert.bounds.smoothed.scatter import WRITTEN, Scatter
from attrcert.draws import Draws
from attrcert.statistics.variance import largest_variance, mean_error

GOLDEN = json.loads((Path(__file__).parent / "golden_moments.json").read_text())
SEEDS = 5000
CPU = torch.device("cpu")


@pytest.mark.parametrize("case", GOLDEN["lambda_upper"], ids=str)
def test_the_largest_variance_is_the_golden_one(case: dict) -> None:
    assert largest_variance(case["top"], case["R"], case["n"], case["q"]) == pytest.approx(case["upper"], rel=1e-9)


@pytest.mark.parametrize("draws", [1, 7, 1000, 10**7])
@pytest.mark.parametrize("q", [0.3, 1e-3, 1e-12])
def test_without_variance_in_the_draws_the_floor_is_left(draws: int, q: float) -> None:
    """kl(0, p) = -ln(1 - p)."""
    assert largest_variance(0.0, 4.0, draws, q) == pytest.approx(-4.0 * math.expm1(math.log(q) / draws), rel=1e-9)


def test_the_largest_variance_rises_with_what_is_seen_and_falls_with_draws_and_failure() -> None:
    tops = [largest_variance(top, 2.0, 100, 0.01) for top in (0.0, 1e-12, 0.1, 1.0, 1.9, 1.9999, 2.0, 3.0)]
    assert tops == sorted(tops)
    assert tops[-1] == tops[-2] == 2.0
    assert all(up > top for up, top in zip(tops, (0.0, 1e-12, 0.1, 1.0, 1.9, 1.9999), strict=False))
    assert largest_variance(0.1, 2.0, 100, 0.01) > largest_variance(0.1, 2.0, 101, 0.01)
    assert largest_variance(0.1, 2.0, 100, 0.01) > largest_variance(0.1, 2.0, 100, 0.011)
    assert largest_variance(0.1, 2.0, 0, 0.01) == 2.0
    assert largest_variance(0.0, 0.0, 10, 0.01) == 0.0
    assert largest_variance(0.1e-40, 2e-40, 100, 0.01) == pytest.approx(1e-40 * largest_variance(0.1, 2.0, 100, 0.01))


# How often the bounds fail


class Law:
    """Vectors of at most unit length, each with its probability; `centre` is where the draws are seen from."""

    def __init__(self, atoms: list[list[float]], shares: list[float], centre: list[float]) -> None:
        self.atoms, self.shares, self.centre = np.array(atoms), np.array(shares), np.array(centre)
        self.mean = self.shares @ self.atoms
        self.R = (1 + np.linalg.norm(self.centre)) ** 2

    def scatter(self, weights: np.ndarray, around: np.ndarray) -> np.ndarray:
        """The top eigenvalue of the mean of (X - around)(X - around)^T, for each row of weights."""
        off = self.atoms - around
        return np.linalg.eigvalsh(np.einsum("sk,ki,kj->sij", weights, off, off))[:, -1]

    def drawn(self, draws: int) -> np.ndarray:
        """The share of each atom among the draws, for every seed."""
        return np.random.default_rng(5).multinomial(draws, self.shares, size=SEEDS) / draws


LAWS = {
    "rare and far": Law([[0.0, 0.0], [1.0, 0.0]], [0.985, 0.015], [0.0, 0.0]),
    "rare and far, on two sides": Law([[0.6, 0.1], [-1.0, 0.0], [0.0, 1.0]], [0.96, 0.02, 0.02], [0.5, 0.1]),
    "skewed": Law([[0.3, 0.0, 0.1], [0.5, 0.2, 0.0], [-0.9, 0.4, 0.0]], [0.5, 0.42, 0.08], [0.3, 0.1, 0.0]),
    "round": Law([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], [1 / 6] * 6, [0.0, 0.0, 0.0]),
    "a coin": Law([[1.0, 0.0], [-1.0, 0.0]], [0.5, 0.5], [0.1, 0.0]),
}
by_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
by_failure = pytest.mark.parametrize("failure", [0.05, 0.2])


def often(failure: float) -> float:
    """A frequency that a bound which fails that often exceeds once in 30,000 tests."""
    return failure + 4 * math.sqrt(failure * (1 - failure) / SEEDS)


@by_law
@by_failure
@pytest.mark.parametrize("draws", [30, 150])
def test_the_largest_variance_fails_as_often_as_is_said_or_less(law: Law, failure: float, draws: int) -> None:
    true = law.scatter(law.shares[None], law.mean)[0]
    seen = law.scatter(law.drawn(draws), law.centre)
    tops, places = np.unique(seen, return_inverse=True)
    upper = np.array([largest_variance(float(top), law.R, draws, failure) for top in tops])[places]
    assert np.mean(upper < true) <= often(failure)
    assert upper.min() > 0


@by_failure
def test_the_largest_variance_fails_nearly_as_often_as_is_said_and_what_the_draws_show_more_often(
    failure: float,
) -> None:
    """A share of far values that goes unseen almost as often as allowed: the plug-in and a bound for many more draws are too low."""
    draws = 150
    share = 1 - (0.9 * failure) ** (1 / draws)
    law = Law([[0.0, 0.0], [1.0, 0.0]], [1 - share, share], [0.0, 0.0])
    tops, places = np.unique(law.scatter(law.drawn(draws), law.centre), return_inverse=True)

    def failing(bound: Callable[[float], float]) -> float:
        return float(np.mean(np.array([bound(float(top)) for top in tops])[places] < share))

    assert failing(lambda top: top) > often(failure)
    assert failing(lambda top: largest_variance(top, law.R, 20 * draws, failure)) > often(failure)
    assert 0.7 * failure < failing(lambda top: largest_variance(top, law.R, draws, failure)) <= often(failure)


@by_law
@by_failure
@pytest.mark.parametrize("draws", [30, 150, 2000])
def test_the_error_of_the_mean_fails_as_often_as_is_said_or_less(law: Law, failure: float, draws: int) -> None:
    off = law.atoms - law.mean
    top, total = law.scatter(law.shares[None], law.mean)[0], law.shares @ (off**2).sum(axis=1)
    most = float(np.linalg.norm(off, axis=1).max())
    bound = mean_error(float(top), float(total), most, draws, failure)
    errors = np.linalg.norm(law.drawn(draws) @ law.atoms - law.mean, axis=1)
    assert np.mean(errors > bound) <= often(failure)
    if draws > 30:  # the expected length alone would not do, and the bound is no more than a few times what happens
        assert np.mean(errors > math.sqrt(total / draws)) > often(0.2)
        assert bound < 4.5 * np.quantile(errors, 1 - failure)


def test_the_error_of_the_mean_is_bousquets_formula_and_never_more_than_the_range() -> None:
    t = math.log(20)
    E = math.sqrt(0.5 / 400)
    expected = E + math.sqrt(2 * t * (0.3 + 2 * 1.5 * E) / 400) + 1.5 * t / 1200
    assert mean_error(0.3, 0.5, 1.5, 400, 0.05) == pytest.approx(expected, rel=1e-12)
    assert mean_error(0.3, 0.5, 1.5, 1, 0.05) == mean_error(0.3, 0.5, 1.5, 0, 0.05) == 1.5
    assert mean_error(0.3, 0.5, 1.5, 400, 1e-3) > expected > mean_error(0.3, 0.5, 1.5, 401, 0.05)


# The scatter of draws

FAILURE = 1e-6
NOTHING = 1.001 * WRITTEN**2  # what may have been lost when rows were written


def rows(b: int, N: int, n: int, seed: int = 0, decay: float = 0.8) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    shape = decay ** torch.arange(n, dtype=torch.float64)
    return (torch.randn(b, N, n, generator=rng, dtype=torch.float64) * shape + 0.1).float() / 3


def exact(X: Tensor) -> Tensor:
    X = X.double()
    return torch.linalg.eigvalsh(X.mT @ X / X.shape[1])[:, -1]


def gathered(X: Tensor, size: int, parts: int = 7) -> Scatter:
    scatter = Scatter(len(X), X.shape[2], size, device=CPU)
    for part in X.split(parts, dim=1):
        scatter.add(part)
    return scatter


def top(scatter: Scatter, seed: int = 0) -> Tensor:
    return scatter.top(Draws(seed, tuple(range(len(scatter._rows)))), FAILURE)


@pytest.mark.parametrize(("N", "n"), [(40, 10), (10, 40), (1, 5), (60, 1), (300, 64)])
def test_the_scatter_of_rows_that_are_kept_is_the_largest_eigenvalue_from_above(N: int, n: int) -> None:
    X = rows(3, N, n)
    found = top(gathered(X, N))
    assert (found >= exact(X)).all()
    assert (found <= exact(X) * (1 + 2 * 0.002 + 1e-3)).all()  # the slack of the singular value, squared, and rounding


@pytest.mark.parametrize("size", [2, 3, 4, 8, 9, 32, 64])
@pytest.mark.parametrize("decay", [1.0, 0.8, 0.3])
def test_the_scatter_of_a_sketch_is_never_below_the_largest_eigenvalue(size: int, decay: float) -> None:
    X = rows(4, 333, 24, decay=decay)
    found = top(gathered(X, size))
    assert (found >= exact(X)).all()
    # what is taken away is at most the energy outside the largest directions, shared by the rows that go
    energy = X.double().square().sum(dim=(1, 2)) / X.shape[1]
    assert (found <= exact(X) * 1.01 + energy / (size // 2)).all()
    if size == 64:
        assert (found <= exact(X) * 1.01).all()


@pytest.mark.parametrize("size", [4, 16])
def test_many_halvings_of_a_sketch_lose_nothing_to_rounding(size: int) -> None:
    """Rows of few directions, of which a sketch keeps all: what is added is next to nothing, so that rounding would show."""
    rng = torch.Generator().manual_seed(3)
    basis = torch.linalg.qr(torch.randn(2, 500, 1, generator=rng))[0]
    X = (torch.randn(2, 4000, 1, generator=rng) @ basis.mT).contiguous()
    found = top(gathered(X, size, parts=100))
    assert (found >= exact(X)).all()
    assert (found <= exact(X) * 1.006).all()


def test_the_scatter_does_not_depend_on_how_the_rows_come() -> None:
    X = rows(2, 100, 12)
    np.testing.assert_array_equal(top(gathered(X, 16, parts=1)), top(gathered(X, 16, parts=100)))
    assert gathered(X, 16).count == gathered(X, 200).count == 100


def test_chosen_samples_go_on_alone() -> None:
    X = rows(4, 90, 12)
    for size in (90, 16):
        scatter = gathered(X[:, :50], size)
        scatter.select(torch.tensor([2, 0]))
        scatter.add(X[[2, 0], 50:])
        found = scatter.top(Draws(0, (2, 0)), FAILURE)
        np.testing.assert_allclose(found, top(gathered(X, size))[[2, 0]], rtol=1e-6)


@pytest.mark.parametrize("size", [4, 50])
def test_rows_of_zeros_have_no_scatter_and_change_that_of_others_by_their_number_only(size: int) -> None:
    zeros = torch.zeros(2, 50, 6)
    assert (top(gathered(zeros, size)) <= NOTHING).all()
    X = rows(2, 20, 6)
    found, bound = top(gathered(torch.cat([zeros, X], dim=1), size)), exact(torch.cat([zeros, X], dim=1))
    assert (found >= bound).all()
    if size == 50:
        assert (found <= bound * 1.5).all()
    assert (top(Scatter(2, 6, size, device=CPU)) == 0).all()


@pytest.mark.parametrize("size", [3, 100])
def test_one_sample_of_zeros_does_not_spoil_the_others(size: int) -> None:
    X = rows(2, 100, 6)
    X[0] = 0
    found = top(gathered(X, size))
    assert found[0] <= NOTHING
    assert found[1] >= exact(X)[1]


def test_memory_does_not_grow_with_the_number_of_rows() -> None:
    scatter = Scatter(2, 300, 10, device=CPU)
    held = set()
    for _ in range(30):
        scatter.add(torch.ones(2, 25, 300))
        held.add(sum(part.untyped_storage().nbytes() for part in vars(scatter).values() if isinstance(part, Tensor)))
    assert held == {2 * 10 * 300 * 4 + 2 * 8}
    assert scatter.count == 750
