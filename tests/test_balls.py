"""Norm balls cut by a box: nearest points against a bisection on the multiplier, feasibility, and the law of random points."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from reference.attacks import nearest_point
from scipy.stats import kstest
from torch import Tensor

from attrcert.ascent.balls import Ball
from attrcert.draws import Draws
from attrcert.vocabulary import Norm

L2, LINF = Norm.parse("l2"), Norm.parse("linf")
DTYPES = (torch.float32, torch.float64)
# a scale and a product per entry, rounded once each
ROUNDING = {torch.float32: 4e-7, torch.float64: 1e-14}


def uniform(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def heavy(seed: int, *shape: int) -> Tensor:
    """Entries over ten decades, of both signs."""
    return normal(seed, *shape).sign() * torch.exp(5 * normal(seed + 1, *shape))


EDGES = torch.tensor([[0.0, 1.0, 0.0, 1.0, 0.5, 1e-9, 1 - 1e-7, 0.25]], dtype=torch.float64)
# x, z and eps of rows that meet every branch
ROWS: dict[str, tuple[Tensor, Tensor, float]] = {
    "inside": (uniform(0, 3, 8) * 0.5 + 0.25, 0.01 * normal(1, 3, 8), 0.2),
    "on the ball only": (uniform(2, 3, 8) * 0.2 + 0.4, normal(3, 3, 8), 0.1),
    "in the ball but out of the box": (EDGES, 0.01 * normal(4, 1, 8), 1.0),
    "cut by both": (uniform(5, 6, 40) ** 3, 3 * normal(6, 6, 40), 0.7),
    "cut by the edges of the pixel range": (EDGES, normal(7, 1, 8), 0.3),
    "every entry clipped, the corner inside the ball": (uniform(8, 3, 8), 100 * normal(9, 3, 8).sign(), 3.0),
    "all the box allows is no step": (torch.ones(1, 8).double(), normal(10, 1, 8).abs(), 0.3),
    "zero": (uniform(11, 2, 8), torch.zeros(2, 8).double(), 0.1),
    "huge": (uniform(12, 4, 8), 1e30 * normal(13, 4, 8), 0.4),
    "tiny": (uniform(14, 4, 8), 1e-30 * normal(15, 4, 8), 0.4),
    "tiny ball": (uniform(16, 4, 8), normal(17, 4, 8), 1e-6),
    "one entry": (uniform(18, 4, 1), 5 * normal(19, 4, 1), 0.3),
    "one dominant entry": (uniform(20, 2, 8), torch.tensor([[1e6] + [1e-3] * 7, [1.0] + [1e-9] * 7]).double(), 0.9),
    "many scales": (uniform(22, 4, 300) ** 4, heavy(23, 4, 300), 0.5),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_l2_projection_is_the_nearest_point_found_by_bisection(name: str, dtype: torch.dtype) -> None:
    x, z, eps = ROWS[name]
    ball = Ball.around(x.to(dtype), L2, eps)
    found = ball.project(z.to(dtype))
    low, high, point = (t.double().numpy() for t in (ball.low, ball.high, z.to(dtype)))
    for i in range(len(x)):
        expected = nearest_point(point[i], low[i], high[i], eps)
        np.testing.assert_allclose(found[i], expected, atol=ROUNDING[dtype] * eps, rtol=ROUNDING[dtype])


@pytest.mark.parametrize("name", ROWS)
def test_no_feasible_point_is_nearer_than_the_l2_projection(name: str) -> None:
    """The obtuse angle that characterises a projection: (z - p) . (q - p) <= 0 for every q of the set."""
    x, z, eps = ROWS[name]
    ball = Ball.around(x, L2, eps)
    p = ball.project(z)
    for seed in range(20):
        q = ball.project(eps * normal(200 + seed, *z.shape) * 10.0 ** (seed % 4 - 2))
        angle = ((z - p) * (q - p)).sum(1)
        # p is off by rounding of size eps times the float64 unit, against |z| + eps
        assert bool((angle <= 1e-13 * eps * (z.norm(dim=1) + eps)).all())


@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
def test_a_ball_that_contains_the_box_only_clips(norm: Norm) -> None:
    x, z = uniform(24, 5, 12), 10 * normal(25, 5, 12)
    found = Ball.around(x, norm, 4.0).project(z)  # the box has the diagonal sqrt(12)
    np.testing.assert_array_equal(found, torch.minimum(torch.maximum(z, -x), 1 - x))


def test_linf_projection_clips_every_entry_to_the_nearer_wall() -> None:
    x, z, eps = EDGES.repeat(5, 1), normal(26, 5, 8), 0.2
    found = Ball.around(x, LINF, eps).project(z)
    expected = [
        [min(max(zi, -eps, -xi), eps, 1 - xi) for xi, zi in zip(*row, strict=True)]
        for row in zip(x.tolist(), z.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(found, np.array(expected))


def test_without_a_box_the_l2_projection_rescales_and_the_linf_projection_clips() -> None:
    z = normal(27, 4, 9)
    eps = 0.5 * float(z.norm(dim=1).min())
    rescaled = Ball.whole(z, L2, eps).project(z)
    np.testing.assert_allclose(rescaled, eps * z / z.norm(dim=1, keepdim=True), rtol=1e-14)
    np.testing.assert_array_equal(Ball.whole(z, LINF, 0.3).project(z), z.clamp(-0.3, 0.3))


def entries(dtype: torch.dtype, low: float, high: float) -> st.SearchStrategy[np.ndarray]:
    width = {torch.float32: 32, torch.float64: 64}[dtype]
    numbers = st.floats(low, high, width=width, allow_nan=False)
    return arrays.arrays(np.dtype(f"float{width}"), (2, 6), elements=numbers)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Ball, Tensor, Tensor, Tensor]:
    """A ball around images, the images, and two points to project."""
    dtype = draw(st.sampled_from(DTYPES))
    norm = draw(st.sampled_from((L2, LINF)))
    eps = draw(st.sampled_from((1e-4, 8 / 255, 0.1, 0.5, 1.0, 3.0)))
    x = torch.from_numpy(draw(entries(dtype, 0.0, 1.0)))
    scale = draw(st.sampled_from((1e-3, 1.0, 1e15)))
    z, other = (torch.from_numpy(draw(entries(dtype, -1.0, 1.0))) * scale for _ in range(2))
    return Ball.around(x, norm, eps), x, z, other


def feasible(ball: Ball, x: Tensor, d: Tensor) -> bool:
    moved = x.flatten(1) + d
    within = bool((ball.size(d) <= ball.eps * (1 + 1e-6)).all())
    return within and bool((moved >= 0).all()) and bool((moved <= 1).all())


@settings(deadline=None, max_examples=200, derandomize=True)
@given(problems())
def test_projected_points_are_inside_and_stay_where_they_are(problem: tuple[Ball, Tensor, Tensor, Tensor]) -> None:
    ball, x, z, _ = problem
    d = ball.project(z)
    assert feasible(ball, x, d)
    rounding = ROUNDING[z.dtype]
    np.testing.assert_allclose(ball.project(d), d, rtol=rounding, atol=rounding * ball.eps)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(problems())
def test_projection_brings_no_two_points_farther_apart(problem: tuple[Ball, Tensor, Tensor, Tensor]) -> None:
    ball, _, z, other = problem
    before = (z.double() - other.double()).norm(dim=1)
    after = (ball.project(z).double() - ball.project(other).double()).norm(dim=1)
    # each of the two points is off by rounding of the size of eps
    assert bool((after <= before * (1 + 1e-6) + 3 * ROUNDING[z.dtype] * ball.eps).all())


@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
@pytest.mark.parametrize("scale", [1e160, 1e300])
def test_projection_of_a_point_whose_square_overflows_is_inside(scale: float, norm: Norm) -> None:
    x = uniform(30, 2, 5)
    for ball in (Ball.around(x, norm, 0.1), Ball.whole(x, norm, 0.1)):
        assert bool((ball.size(ball.project(scale * normal(31, 2, 5))) <= 0.1 * (1 + 1e-6)).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
def test_ascent_direction_has_unit_norm_and_maximises_the_inner_product(norm: Norm, dtype: torch.dtype) -> None:
    gradient = heavy(32, 4, 20).to(dtype)
    gradient[3] = 0
    ball = Ball.whole(gradient, norm, 0.1)
    found = ball.ascent(gradient)
    np.testing.assert_allclose(ball.size(found), [1, 1, 1, 0], rtol=1e-6)
    dual = gradient.double().norm(p=norm.dual, dim=1)  # Hoelder: the largest value of the inner product
    np.testing.assert_allclose((found.double() * gradient.double()).sum(1), dual, rtol=1e-6)


def test_selected_rows_are_projected_as_before() -> None:
    x, z = uniform(33, 4, 7), normal(34, 4, 7)
    ball, keep = Ball.around(x, L2, 0.3), torch.tensor([3, 1])
    np.testing.assert_array_equal(ball.select(keep).project(z[keep]), ball.project(z)[keep])


# Random points


def samples(norm: Norm, d: int, eps: float, count: int) -> Tensor:
    free = torch.zeros(count, d, dtype=torch.float64)
    return Ball.whole(free, norm, eps).random(Draws(7, tuple(range(count))), "test")


@pytest.mark.parametrize("d", [2, 5])
def test_random_points_of_the_l2_ball_have_the_uniform_law(d: int) -> None:
    """Uniform in the ball: (|z|/eps)^d is uniform on [0, 1], and directions have uniform coordinates of mean 0."""
    z = samples(L2, d, 0.3, 2000)
    assert kstest(((z.norm(dim=1) / 0.3) ** d).numpy(), "uniform").pvalue > 0.01
    direction = z / z.norm(dim=1, keepdim=True)
    # variance 1/d of a coordinate of a uniform direction; four standard errors
    assert float(direction.mean(dim=0).abs().max()) < 4 / math.sqrt(2000 * d)
    np.testing.assert_allclose(direction.T @ direction / 2000, np.eye(d) / d, atol=4 / math.sqrt(2000))


def test_random_points_of_the_linf_ball_are_uniform_in_the_cube() -> None:
    z = samples(LINF, 3, 0.3, 2000)
    for axis in range(3):
        assert kstest(((z[:, axis] / 0.3 + 1) / 2).numpy(), "uniform").pvalue > 0.01
    np.testing.assert_allclose(np.corrcoef(z.numpy().T), np.eye(3), atol=4 / math.sqrt(2000))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
def test_random_points_are_inside_the_ball_and_the_pixel_range(norm: Norm, dtype: torch.dtype) -> None:
    x = torch.cat([EDGES.repeat(50, 1), uniform(35, 50, 8)]).to(dtype)
    for eps in (0.01, 0.5, 3.0):
        ball = Ball.around(x, norm, eps)
        z = ball.random(Draws(0, tuple(range(100))), "test")
        assert feasible(ball, x, z)
        assert float(ball.size(z).max()) > 0.2 * min(eps, 1)


@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
def test_random_points_depend_on_seed_index_and_purpose_alone(norm: Norm) -> None:
    x = uniform(36, 3, 6)
    ball = Ball.around(x, norm, 0.2)
    whole = ball.random(Draws(1, (4, 9, 2)), "start-0")
    alone = ball.select(torch.tensor([1])).random(Draws(1, (9,)), "start-0")
    np.testing.assert_array_equal(whole[1:2], alone)
    for other in (
        ball.random(Draws(2, (4, 9, 2)), "start-0"),
        ball.random(Draws(1, (5, 8, 3)), "start-0"),
        ball.random(Draws(1, (4, 9, 2)), "start-1"),
    ):
        assert bool((other != whole).any(dim=1).all())
