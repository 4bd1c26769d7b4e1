"""The global SmoothGrad bound, the paper's interval, and the maps that `attrcert smooth` writes."""

import math

import mpmath
import numpy as np
import pytest
import torch
from PIL import Image
from reference.program import attrcert
from scipy.stats import ncx2

from attrcert.bounds.smoothed.lengths import clt_length
from attrcert.bounds.smoothed.smoothgrad_lipschitz import SmoothGradLipschitz
from attrcert.statistics.generalised_chi_square import distribution, quantile


@pytest.mark.parametrize(
    ("F", "sigma", "slope"),
    [
        (1.0, 1.0, 0.9678828980765735),
        (1.0, 0.25, 15.486126369225175),
        (3.0, 0.1, 290.364869422972),
        (0.5, 0.1, 48.39414490382867),
    ],
)
def test_the_slope_of_smoothgrad_is_the_golden_one(F, sigma, slope):
    assert SmoothGradLipschitz(F, sigma).deviation(1e-6) == pytest.approx(slope * 1e-6, rel=1e-10)


def test_the_slope_is_the_mean_of_the_second_hermite_polynomials_modulus():
    density = lambda u: abs(u * u - 1) * mpmath.exp(-u * u / 2) / mpmath.sqrt(2 * mpmath.pi)  # noqa: E731
    exact = float(mpmath.quad(density, [-mpmath.inf, -1, 1, mpmath.inf]))
    assert SmoothGradLipschitz(1.0, 1.0).deviation(1e-9) == pytest.approx(exact * 1e-9, rel=1e-10)


def test_the_bound_of_smoothgrad_is_inverted_and_saturates():
    bound = SmoothGradLipschitz(0.5, 0.25)
    eps = bound.largest_eps(0.7)
    assert bound.deviation(eps) <= 0.7 < bound.deviation(eps * (1 + 1e-9))
    assert bound.deviation(1e9) == pytest.approx(0.5 / 0.25 * 2 * math.sqrt(2 / math.pi), rel=1e-10)
    assert bound.largest_eps(4.0) == math.inf


def test_the_smoothed_gradient_of_a_step_comes_near_the_bound_and_does_not_exceed_it():
    # f = sign(x): the gradient of its Gaussian average is 2 phi(x/sigma)/sigma, steepest at |x| = sigma
    sigma, eps = 0.5, 1e-4
    x = np.linspace(-2, 2, 40001)
    slope = np.abs(np.diff(2 * np.exp(-((x / sigma) ** 2) / 2) / math.sqrt(2 * math.pi) / sigma)).max()
    bound = SmoothGradLipschitz(1.0, sigma).deviation(eps)
    assert 0.49 * bound < slope <= bound


@pytest.mark.parametrize(
    ("q", "expected"), [(2.0, 0.12476450325110056), (5.0, 0.6856672499029521), (10.0, 0.9653450948474058)]
)
def test_the_generalised_chi_square_distribution_has_its_golden_values(q, expected):
    weights = 1 / np.arange(1, 11.0)
    assert distribution(q, weights, np.full(10, math.sqrt(0.5))) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("q", [600.0, 784.0, 900.0])
def test_equal_weights_give_the_non_central_chi_square_distribution(q):
    assert distribution(q, np.ones(784), np.full(784, 0.1)) == pytest.approx(ncx2.cdf(q, 784, 7.84), abs=1e-11)


def test_the_quantile_inverts_the_distribution():
    weights, shifts = np.array([0.5, 1.0, 2.0]), np.array([1.0, 0.0, -2.0])
    assert distribution(quantile(0.05, weights, shifts), weights, shifts) == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("p", [1e-9, 1e-3, 0.05, 0.999999])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_one_or_two_weights_have_a_quantile_too(n, p, shift):
    found = quantile(p, np.ones(n), np.full(n, shift))
    true = ncx2.ppf(p, n, max(n * shift**2, 1e-12))
    # the distribution is known to 1e-2 with one weight and to 1e-5 with two
    assert abs(ncx2.cdf(found, n, max(n * shift**2, 1e-12)) - p) < {1: 1e-2, 2: 1e-5}[n]
    assert 0 <= found <= 3 * true + 1e-2


def test_the_papers_interval_without_spread_is_the_length_and_with_spread_a_quantile_of_it():
    mean = torch.tensor([0.3, 0.4], dtype=torch.float64)
    assert clt_length(mean, torch.zeros(2, dtype=torch.float64), 0.01) == pytest.approx(0.5)
    error = torch.tensor([0.02, 0.05], dtype=torch.float64)
    draws = mean + error * torch.randn(200_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    # the standard error of a 1% quantile over 200,000 draws is below 4e-4
    assert clt_length(mean, error, 0.01) == pytest.approx(float(draws.norm(dim=1).quantile(0.01)), abs=1.5e-3)


def test_smooth_writes_the_maps_with_their_error_bars_and_pictures_of_them(tmp_path):
    words = ("smooth", "--indices", "0,5", "--samples", 60, "--radius", 0.5, "--out", tmp_path / "maps.npz")
    assert attrcert(*words, "--png", tmp_path / "pictures").code == 0
    maps = np.load(tmp_path / "maps.npz")
    assert maps["index"].tolist() == [0, 5]
    assert maps["map"].shape == maps["standard_error"].shape == maps["image"].shape == (2, 1, 28, 28)
    lengths = np.sqrt((maps["map"].astype(float) ** 2).sum(axis=(1, 2, 3)))
    np.testing.assert_allclose(lengths, maps["C_hat"], rtol=1e-5)
    assert (maps["C_lower"] < maps["C_hat"]).all()
    assert (maps["C_lower"] > 0.5).all()
    # the draws are unit vectors: their spread and the length of their mean add up to 1
    spread = (maps["standard_error"].astype(float) ** 2).sum(axis=(1, 2, 3)) * 59
    np.testing.assert_allclose(spread + lengths**2, 1, rtol=1e-4)
    assert Image.open(tmp_path / "pictures" / "5.png").size == (2 * 28 * 8, 28 * 8)


def test_smooth_does_not_replace_a_file_unasked_and_takes_one_radius(tmp_path):
    out = tmp_path / "maps.npz"
    out.write_bytes(b"mine")
    assert attrcert("smooth", "--out", out).code == 2
    assert out.read_bytes() == b"mine"
    done = attrcert("smooth", "--out", tmp_path / "other.npz", "--radius", "1,2")
    assert done.code == 2
    assert "one radius" in done.said


def test_the_global_bound_is_printed_without_a_model():
    done = attrcert("max-eps", "--smoothgrad-lipschitz", 0.5, "--sigma", 0.25, "--max-deviation", 0.5)
    assert "eps = 0.0645739 (proved" in done.out
    assert attrcert("max-eps", "--smoothgrad-lipschitz", 0.5).code == 2


def test_a_picture_replaces_pictures_of_ours_alone(tmp_path):
    words = ("smooth", "--limit", 1, "--samples", 50, "--out", tmp_path / "maps.npz", "--overwrite", "--png", tmp_path)
    assert attrcert(*words).code == 0
    assert attrcert(*words).code == 0
    (tmp_path / "0.png").write_text("mine")
    done = attrcert(*words)
    assert done.code == 2
    assert "0.png exists and is not a picture that attrcert drew" in done.said
    assert (tmp_path / "0.png").read_text() == "mine"
