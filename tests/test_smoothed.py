"""Smoothed attributions against the mean over their own noise, the law of that noise, and dense Jacobians."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from reference import dense
from scipy.stats import kstest
from torch import Tensor, nn

from attrcert.attributions.gradient import Saliency
from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.attributions.smoothed import SmoothGrad, UniformSmooth
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.linalg.row_sums import dense as formed
from attrcert.types import Attribution

SHAPE = (1, 4, 4)
N = 16
Y = torch.tensor([2, 0, 3])
DRAWS = Draws(5, (11, 3, 7))
# means of a few dozen numbers of order one in float64
EXACT = 1e-12
BASES: dict[str, Attribution] = {
    "saliency": Saliency(),
    "input-x-gradient": InputTimesGradient(),
    "integrated-gradients": IntegratedGradients(4),
}


def smoothed(kind: str, base: Attribution | None = None, samples: int = 5, spread: float = 0.3) -> Attribution:
    base = base or Saliency()
    if kind == "gaussian":
        return SmoothGrad(sigma=spread, samples=samples, base=base)
    return UniformSmooth(radius=spread, samples=samples, base=base)


KINDS = pytest.mark.parametrize("kind", ["gaussian", "uniform"])


@pytest.fixture(scope="module")
def f(smooth_cnn: Callable[..., nn.Sequential]) -> nn.Sequential:
    return smooth_cnn(side=4)


@pytest.fixture(scope="module")
def x(images: Callable[..., Tensor]) -> Tensor:
    return images(3, *SHAPE)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@KINDS
@pytest.mark.parametrize("name", BASES)
def test_smoothed_value_is_the_mean_of_the_base_over_its_noise(name: str, kind: str, f: nn.Module, x: Tensor) -> None:
    g = smoothed(kind, BASES[name])
    noise = g.noise(DRAWS, x)
    assert noise.shape == (3, 5, N)
    one_by_one = [
        [BASES[name].value(f, (x[i] + noise[i, j].view(SHAPE))[None], Y[i : i + 1])[0] for j in range(5)]
        for i in range(3)
    ]
    expected = torch.stack([torch.stack(values).mean(0) for values in one_by_one])
    assert float((expected - BASES[name].value(f, x, Y)).abs().max()) > 1e-2  # smoothing does something
    np.testing.assert_allclose(g.value(f, x, Y, DRAWS), expected, atol=EXACT)
    np.testing.assert_allclose(g.explain(f, x, Y, DRAWS).value, expected, atol=EXACT)


@KINDS
@pytest.mark.parametrize("name", BASES)
def test_one_draw_of_tiny_noise_gives_the_base_attribution(name: str, kind: str, f: nn.Module, x: Tensor) -> None:
    base, g = BASES[name], smoothed(kind, BASES[name], samples=1, spread=1e-9)
    v, u = normal(1, 3, N), normal(2, 3, N)
    plain, found = base.explain(f, x, Y), g.explain(f, x, Y, DRAWS)
    np.testing.assert_allclose(found.value, plain.value, atol=1e-7)  # noise of 1e-9 times curvature of order ten
    np.testing.assert_allclose(found.jacobian.matvec(v), plain.jacobian.matvec(v), atol=1e-6)
    np.testing.assert_allclose(found.jacobian.rmatvec(u), plain.jacobian.rmatvec(u), atol=1e-6)


@KINDS
def test_smoothing_a_quadratic_model_shifts_by_the_mean_noise_and_keeps_the_jacobian(kind: str, x: Tensor) -> None:
    A = normal(3, N, N)
    A = A + A.T

    def quadratic(z: Tensor) -> Tensor:
        flat = z.flatten(1)
        return torch.stack([0.5 * torch.einsum("bi,ij,bj->b", flat, A, flat), flat.sum(1)], dim=1)

    y = torch.zeros(3, dtype=torch.int64)
    g = smoothed(kind)
    found = g.explain(quadratic, x, y, DRAWS)
    shift = g.noise(DRAWS, x).mean(dim=1) @ A
    np.testing.assert_allclose(found.value, Saliency().value(quadratic, x, y) + shift, atol=1e-11)
    np.testing.assert_allclose(formed(found.jacobian), A.expand(3, -1, -1), atol=1e-11)


@KINDS
@pytest.mark.parametrize("name", BASES)
def test_smoothed_jacobian_is_the_mean_of_the_dense_ones(name: str, kind: str, f: nn.Module, x: Tensor) -> None:
    """By differentiating the smoothed value itself, one image at a time."""
    g = smoothed(kind, BASES[name], samples=3)
    noise = g.noise(DRAWS, x)
    J = g.explain(f, x, Y, DRAWS).jacobian
    found = formed(J)
    written = {
        "saliency": dense.saliency,
        "input-x-gradient": dense.input_times_gradient,
        "integrated-gradients": lambda f, y: dense.integrated_gradients(f, y, torch.zeros_like, *gauss(4)),
    }[name]
    for i in range(3):

        def mean(z: Tensor, i: int = i) -> Tensor:
            return torch.stack([written(f, int(Y[i]))(z + n.view(SHAPE)) for n in noise[i]]).mean(0)

        expected = dense.jacobian(mean, x[i])
        np.testing.assert_allclose(found[i], expected, atol=1e-8)
        u = normal(4, 3, N)
        np.testing.assert_allclose(J.rmatvec(u)[i], expected.T @ u[i], atol=1e-8)
    assert J.symmetric == (name == "saliency")


def gauss(steps: int) -> tuple[list[float], list[float]]:
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return list((nodes + 1) / 2), list(weights / 2)


@KINDS
def test_smoothed_attribution_is_the_same_at_every_call(kind: str, f: nn.Module, x: Tensor) -> None:
    g = smoothed(kind)
    first = g.value(f, x, Y, DRAWS)
    torch.randn(7)  # whatever the global generator does
    np.testing.assert_array_equal(g.value(f, x, Y, DRAWS), first)


@KINDS
def test_noise_of_a_sample_depends_on_its_index_and_not_on_its_batch(kind: str, f: nn.Module, x: Tensor) -> None:
    g = smoothed(kind)
    whole, explained = g.value(f, x, Y, DRAWS), g.explain(f, x, Y, DRAWS)
    order = torch.tensor([2, 0])
    some = DRAWS.select(order)
    np.testing.assert_allclose(g.value(f, x[order], Y[order], some), whole[order], atol=EXACT)
    v = normal(5, 3, N)
    again = g.explain(f, x[order], Y[order], some).jacobian.matvec(v[order])
    np.testing.assert_allclose(again, explained.jacobian.matvec(v)[order], atol=EXACT)
    np.testing.assert_allclose(explained.jacobian.select(order).matvec(v[order]), again, atol=EXACT)
    other = g.value(f, x, Y, Draws(5, (11, 3, 8)))
    np.testing.assert_array_equal(other[:2], whole[:2])
    assert float((other[2] - whole[2]).abs().max()) > 1e-3
    assert float((g.value(f, x, Y, Draws(6, DRAWS.indices)) - whole).abs().amax(1).min()) > 1e-3


@KINDS
def test_without_streams_the_samples_count_as_the_first_ones_of_seed_0(kind: str, f: nn.Module, x: Tensor) -> None:
    g = smoothed(kind)
    np.testing.assert_array_equal(g.value(f, x, Y), g.value(f, x, Y, Draws(0, (0, 1, 2))))


@KINDS
def test_noise_stays_where_it_is_while_the_image_moves(kind: str, f: nn.Module, x: Tensor) -> None:
    """Common random numbers: the value is differentiable in x, and its slope is the Jacobian's product."""
    g, v, h = smoothed(kind), normal(6, 3, N), 1e-5
    step = h * v.view_as(x)
    slope = (g.value(f, x + step, Y, DRAWS) - g.value(f, x - step, Y, DRAWS)) / (2 * h)
    # h^2 times third derivatives of order ten, and rounding / h
    np.testing.assert_allclose(slope, g.explain(f, x, Y, DRAWS).jacobian.matvec(v), atol=1e-7)


# The law of the noise


@pytest.mark.parametrize("d", [2, 6])
def test_uniform_noise_has_the_radial_law_of_the_ball(d: int) -> None:
    """(|noise| / r)^d is uniform; for the cube of that half side it reaches sqrt(d)^d, on the sphere it is 1."""
    x = torch.zeros(4, 1, 1, d, dtype=torch.float64)
    noise = UniformSmooth(radius=0.7, samples=500).noise(Draws(1, (0, 1, 2, 3)), x).flatten(0, 1)
    radius = noise.norm(dim=1) / 0.7
    assert float(radius.max()) <= 1 + 1e-12
    assert kstest((radius**d).numpy(), "uniform").pvalue > 0.01
    direction = noise / noise.norm(dim=1, keepdim=True)
    assert float(direction.mean(0).abs().max()) < 4 / math.sqrt(2000 * d)
    np.testing.assert_allclose(direction.T @ direction / 2000, np.eye(d) / d, atol=4 / math.sqrt(2000))


def test_uniform_noise_in_float32_does_not_leave_the_ball_by_more_than_rounding() -> None:
    noise = UniformSmooth(radius=2.0, samples=200).noise(Draws(1, (0,)), torch.zeros(1, 1, 28, 28))
    lengths = noise[0].double().norm(dim=1)
    assert float(lengths.max()) <= 2.0 * (1 + 1e-6)
    assert float(lengths.min()) >= 2.0 * 1e-4 ** (1 / 784)  # nearly all mass is at the surface


def test_gaussian_noise_is_normal_with_sigma_per_pixel() -> None:
    noise = SmoothGrad(sigma=0.4, samples=300).noise(Draws(1, (0, 1)), torch.zeros(2, 1, 2, 5).double())
    assert kstest((noise / 0.4).flatten().numpy(), "norm").pvalue > 0.01
    assert float((noise[0] - noise[1]).abs().min()) > 0


@KINDS
def test_draws_of_one_sample_differ_from_each_other(kind: str, x: Tensor) -> None:
    noise = smoothed(kind, samples=6).noise(DRAWS, x)
    pairs = (noise[:, :, None] - noise[:, None]).norm(dim=3) + 9 * torch.eye(6)
    assert float(pairs.min()) > 0.05


@KINDS
def test_smoothed_map_approaches_its_expectation_as_draws_grow(kind: str, x: Tensor) -> None:
    """For a cubic model with g = x^2 the expectation is x^2 + variance, and the error falls as 1 / sqrt(draws)."""

    def cubic(z: Tensor) -> Tensor:
        return torch.stack([(z.flatten(1) ** 3).sum(1) / 3, z.flatten(1).sum(1)], dim=1)

    variance = 0.3**2 if kind == "gaussian" else 0.3**2 / (N + 2)  # of one coordinate of the ball's uniform law
    found = smoothed(kind, samples=4000).value(cubic, x, torch.zeros(3, dtype=torch.int64), DRAWS)
    error = found - x.flatten(1) ** 2 - variance
    spread = 2 * math.sqrt(variance) / math.sqrt(4000)  # of x^2 + 2 x noise, x <= 1; the square adds less
    assert float(error.abs().max()) < 5 * spread


@pytest.mark.parametrize(
    "make", [lambda: SmoothGrad(sigma=0.0), lambda: UniformSmooth(radius=-1.0), lambda: SmoothGrad(samples=0)]
)
def test_no_noise_and_no_draws_are_refused(make: Callable[[], Attribution]) -> None:
    with pytest.raises(UsageError, match="must be"):
        make()
