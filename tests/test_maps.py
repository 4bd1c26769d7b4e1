"""Products of small batches: several vectors of a sample at a time, and no more of them than are needed."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from reference.dense import top_singular_value
from scipy.sparse.linalg import svds

from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.bounds.first_order.linf_scaled import LinfScaled
from attrcert.draws import Draws
from attrcert.linalg.maps import Dense, LowRank, copied, divisor
from attrcert.linalg.row_sums import dense, root_of_absolute_gram
from attrcert.linalg.scaling import DiagonalScaling
from attrcert.linalg.signs import sign_ascent
from attrcert.types import LinearMap


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass(frozen=True)
class Counting(LinearMap):
    """A map that notes how many vectors it multiplied at a time."""

    inner: Dense
    sizes: list[int]

    @property
    def like(self) -> LinearMap:
        return self.inner

    def matvec(self, v: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(v))
        return self.inner.matvec(v)

    def rmatvec(self, u: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(u))
        return self.inner.rmatvec(u)

    def select(self, keep: torch.Tensor) -> "Counting":
        return Counting(self.inner.select(keep), self.sizes)


@pytest.mark.parametrize("copies", [1, 3])
def test_a_copied_map_multiplies_several_vectors_of_every_sample(copies: int) -> None:
    J, v = normal(3, 4, 2, 6), normal(4, 4, copies, 6)
    wide = copied(Dense(J), copies)
    assert wide.shape == (4 * copies, 2, 6)
    expected = torch.einsum("bmn,bcn->bcm", J, v)
    torch.testing.assert_close(wide.matvec(v.flatten(0, 1)).view(4, copies, 2), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("count", "most", "found"), [(8, 32, 8), (8, 6, 4), (8, 3, 2), (8, 1, 1), (7, 6, 1), (1, 9, 1)]
)
def test_the_largest_divisor_is_found(count: int, most: int, found: int) -> None:
    assert divisor(count, most) == found


@pytest.mark.parametrize("copies", [1, 4, 32])
@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (1, 1), (3, 70)])
def test_columns_and_row_sums_of_a_map_are_those_of_its_matrix(copies: int, shape: tuple[int, int]) -> None:
    J = normal(5, 3, *shape)
    torch.testing.assert_close(dense(Dense(J), copies=copies), J, rtol=0, atol=0)
    sums = torch.einsum("bmi,bmj->bij", J, J).abs().sum(dim=(1, 2)).sqrt()
    for memory in (1, 1 << 20):
        found = root_of_absolute_gram(Dense(J), memory=memory, copies=copies)
        torch.testing.assert_close(found, sums, rtol=1e-13, atol=0)


def test_one_sample_has_its_columns_starts_and_scaling_multiplied_many_at_a_time() -> None:
    J = normal(6, 1, 40, 64)
    for act, least in (
        (lambda map_: dense(map_, copies=32), 32),
        (lambda map_: root_of_absolute_gram(map_, memory=1, copies=32), 32),
        (lambda map_: DiagonalScaling(columns=8, copies=32)(map_, Draws(0, (0,))), 8),
    ):
        counting = Counting(Dense(J), [])
        act(counting)
        assert min(counting.sizes) >= least
    counting = Counting(Dense(J), [])
    sign_ascent(counting, normal(7, 4, 1, 64), copies=32)
    assert counting.sizes[0] == 4


@pytest.mark.parametrize("copies", [2, 8])
def test_what_is_multiplied_together_does_not_change_the_scaling_or_the_signs(copies: int) -> None:
    J, starts = Dense(normal(10, 3, 12, 12)), normal(11, 4, 3, 12)
    draws = Draws(0, (0, 1, 2))
    for one, many in (
        (DiagonalScaling()(J, draws), DiagonalScaling(copies=copies)(J, draws)),
        (sign_ascent(J, starts), sign_ascent(J, starts, copies=copies)),
    ):
        for a, b in zip(one, many, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_starts_that_have_arrived_are_not_multiplied_again() -> None:
    J = normal(8, 40, 15, 15)
    J[1:] = torch.diag(torch.arange(1.0, 16.0, dtype=torch.float64))  # P s has the signs of s
    counting = Counting(Dense(J), [])
    reached, signs = sign_ascent(counting, normal(9, 1, 40, 15))
    assert counting.sizes[:2] == [40, 40]
    assert set(counting.sizes[2:]) == {1}
    torch.testing.assert_close(torch.einsum("bmn,bn->bm", J, signs).norm(dim=1), reached, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_operators_of_scipy_multiply_as_the_map_does_a_sample_each(dtype: torch.dtype) -> None:
    J, u, v = Dense(normal(12, 3, 4, 6).to(dtype)), normal(13, 3, 4).to(dtype), normal(14, 3, 6).to(dtype)
    operators = J.to_scipy()
    assert [one.shape for one in operators] == [(4, 6)] * 3
    for i, one in enumerate(operators):
        assert one.matvec(v[i].numpy()).dtype == one.dtype == v.numpy().dtype
        np.testing.assert_array_equal(one.matvec(v[i].numpy()), J.matvec(v)[i])
        np.testing.assert_array_equal(one.rmatvec(u[i].numpy()), J.rmatvec(u)[i])


@pytest.mark.parametrize("kind", ["dense", "low-rank", "attribution"])
def test_scipy_finds_the_top_singular_value_of_every_sample(kind: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softplus(x @ normal(20, 6, 9)) @ normal(21, 9, 3)

    J = {
        "dense": Dense(normal(15, 3, 5, 8)),
        "low-rank": LowRank(normal(16, 3, 7, 2)),
        "attribution": InputTimesGradient().explain(f, normal(17, 3, 6), torch.tensor([0, 1, 2])).jacobian,
    }[kind]
    found = [svds(one, k=1, v0=np.ones(min(one.shape)), return_singular_vectors=False)[0] for one in J.to_scipy()]
    np.testing.assert_allclose(found, [top_singular_value(one) for one in dense(J)], rtol=1e-10)  # ARPACK's tolerance


def test_a_map_without_a_transposed_product_is_refused_unless_it_is_symmetric() -> None:
    class Doubled(LinearMap):
        like = normal(18, 2, 3)

        def matvec(self, v: torch.Tensor) -> torch.Tensor:
            return 2 * v

        def select(self, keep: torch.Tensor) -> "Doubled":
            return self

    class Symmetric(Doubled):
        symmetric = True

    v = normal(19, 2, 3)
    torch.testing.assert_close(Symmetric().rmatvec(v), 2 * v, rtol=0, atol=0)
    with pytest.raises(AssertionError, match="Doubled has no rmatvec"):
        Doubled().rmatvec(v)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_few_rounds_of_the_search_end_close_to_what_many_plain_ones_reach(spread: float) -> None:
    n, sizes = 500, list[int]()
    falling = torch.arange(1, 31, dtype=torch.float64).rsqrt()  # as the singular values of networks' Jacobians do
    J = (normal(20, 1, n, 30) * falling) @ (normal(21, 1, 30, n) * 10 ** (spread * normal(22, n)))
    found = LinfScaled()(Counting(Dense(J), sizes), Draws(0, (0,)))
    assert sum(sizes) <= 200  # vectors that were multiplied; before, 300 to 600
    P = (J[0].T @ J[0]).numpy()
    V = np.random.default_rng(0).standard_normal((n, 8))
    for _ in range(200):
        V /= np.linalg.norm(V, axis=1, keepdims=True)
        V = P @ V
    D = np.linalg.norm(V, axis=1)
    reached = math.sqrt(np.linalg.eigvalsh(P / np.sqrt(np.outer(D, D)))[-1] * D.sum())
    assert reached * (1 - 1e-3) <= float(found.upper) <= 1.015 * reached  # the slack alone is 1 %
