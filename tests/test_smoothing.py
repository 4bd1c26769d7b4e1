"""Least cosines of smoothed attributions against searches, fields and networks that attain or break them, and many digits."""

import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import smoothing as slow
from scipy.stats import binomtest, kstest
from torch import Tensor, nn

from attrcert.attributions.bounded import Bounding, Clip, ClipAt, Unit, make_bounding
from attrcert.attributions.gradient import Saliency
from attrcert.attributions.smoothed import UniformSmooth
from attrcert.attributions.unit import Direction
from attrcert.bounds.smoothed import RULES
from attrcert.bounds.smoothed.cosine_bounds import ByOverlap, Published, Tangent, Tight
from attrcert.bounds.smoothed.lengths import Estimate, unit_noise
from attrcert.bounds.smoothed.noise_overlap import Gaussian, UniformBall
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.vocabulary import Guarantee

GOLDEN = json.loads((Path(__file__).parent / "golden_smoothing.json").read_text())
REL = 1e-10
DIMENSIONS = (1, 2, 3, 10, 784, 3072, 150_528, 10**6)
TAUS = (1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12)
NAMES = ("tight", "tangent", "published")
# twice what is rounded outwards by the program, and double precision's own
OUTWARDS = 4e-12


def pairs(n: int, seed: int) -> list[tuple[float, float]]:
    """(c, tau): a third of the c close to 1, where the middle part is held back; some tau beyond c/2."""
    rng = np.random.default_rng(seed)
    c = np.where(rng.random(n) < 1 / 3, 1 - 10 ** rng.uniform(-10, -1, n), rng.uniform(1e-3, 1, n))
    return list(zip(c.tolist(), (c * rng.uniform(0, 0.52, n)).tolist(), strict=True))


def kept(rule: ByOverlap, c: float, tau: float) -> float:
    """The cosine, and -1 where nothing follows."""
    found = rule.cosine(c, tau)
    return -1.0 if found is None else found


# golden values


@pytest.mark.parametrize("case", GOLDEN["cosine"], ids=str)
def test_cosine_is_the_golden_one(case: dict) -> None:
    assert RULES.make(case["rule"]).cosine(case["c"], case["tau"]) == pytest.approx(case["cosine"], rel=REL)


@pytest.mark.parametrize("case", GOLDEN["largest_tau"], ids=str)
def test_largest_tau_is_the_golden_one(case: dict) -> None:
    assert RULES.make(case["rule"]).largest_tau(case["c"], case["T"]) == pytest.approx(case["tau"], rel=REL)


@pytest.mark.parametrize("case", GOLDEN["max_eps"], ids=str)
def test_largest_eps_is_the_golden_one(case: dict) -> None:
    tau = RULES.make(case["rule"]).largest_tau(case["c"], case["T"])
    assert UniformBall(case["r"]).eps(tau, case["d"]) == pytest.approx(case["eps"], rel=REL)


@pytest.mark.parametrize("case", GOLDEN["min_radius"], ids=str)
def test_least_radius_at_a_fixed_length_is_the_golden_one(case: dict) -> None:
    tau = RULES.make(case["rule"]).largest_tau(case["c"], case["T"])
    assert case["eps"] / UniformBall(1.0).eps(tau, case["d"]) == pytest.approx(case["radius"], rel=REL)


@pytest.mark.parametrize("case", GOLDEN["tau"], ids=str)
def test_overlap_of_balls_is_the_golden_one(case: dict) -> None:
    assert UniformBall(case["r"]).tau(case["eps"], case["d"]) == pytest.approx(case["tau"], rel=REL)


@pytest.mark.parametrize("case", GOLDEN["unit_eps"], ids=str)
def test_distance_of_balls_with_a_given_overlap_is_the_golden_one(case: dict) -> None:
    assert UniformBall(1.0).eps(case["tau"], case["d"]) == pytest.approx(case["eps"], rel=REL)


@pytest.mark.parametrize("case", GOLDEN["gaussian_tau"], ids=str)
def test_overlap_of_gaussians_is_the_golden_one_in_every_dimension(case: dict) -> None:
    noise = Gaussian(case["sigma"])
    assert noise.tau(case["eps"], 1) == pytest.approx(case["tau"], rel=REL)
    assert noise.tau(case["eps"], 784) == noise.tau(case["eps"], 1)
    assert noise.eps(case["tau"], 1) == pytest.approx(case["eps"], rel=REL)


# tau and its inverse, in many digits


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("radius", [1.0, 0.37])
def test_tau_of_balls_is_never_too_small_and_good_to_many_digits(d: int, radius: float) -> None:
    noise = UniformBall(radius)
    for tau in TAUS:
        eps = noise.eps(tau, d)
        true = slow.uniform_tau(eps, radius, d)
        assert true <= noise.tau(eps, d) <= true * (1 + OUTWARDS), tau


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("radius", [1.0, 0.37])
def test_eps_of_balls_is_never_too_large_and_good_to_many_digits(d: int, radius: float) -> None:
    for tau in TAUS:
        eps = UniformBall(radius).eps(tau, d)
        assert slow.uniform_tau(eps, radius, d) <= tau <= slow.uniform_tau(eps * (1 + OUTWARDS), radius, d), tau


def test_tau_and_eps_of_gaussians_err_on_the_safe_side_by_little() -> None:
    noise = Gaussian(0.3)
    for tau in TAUS:
        eps = noise.eps(tau, 5)
        true = slow.gaussian_tau(eps, 0.3)
        assert true <= tau <= slow.gaussian_tau(eps * (1 + OUTWARDS), 0.3), tau
        assert true <= noise.tau(eps, 5) <= true * (1 + OUTWARDS), tau


@pytest.mark.parametrize("noise", [UniformBall(0.5), Gaussian(0.5)], ids=str)
def test_overlaps_end_where_they_must(noise: UniformBall | Gaussian) -> None:
    assert noise.tau(1e-300, 3) < 1e-290
    assert (noise.eps(0.0, 3), noise.eps(1.0, 3), noise.eps(1.5, 3)) == (0, math.inf, math.inf)
    assert noise.tau(100.0, 3) == 1
    assert all(noise.tau(eps, 10**6) <= 1 for eps in (0.9, 0.99, 1 - 1e-15, 1.0))


def test_balls_that_only_touch_have_no_overlap() -> None:
    assert UniformBall(0.5).tau(1.0, 4) == 1
    assert UniformBall(0.5).tau(0.9, 4) < 1


# the rules against searches


BRANCHES = {
    "far": [(0.3, 0.05), (0.8, 0.25), (0.8, 0.39), (0.93, 0.05)],
    "held": [(0.95, 0.1), (0.99, 0.2), (0.97, 0.35), (0.999, 0.02), (0.9999, 0.3)],
}


@pytest.mark.parametrize(("branch", "c", "tau"), [(name, *pair) for name, some in BRANCHES.items() for pair in some])
def test_tight_is_the_least_cosine_that_a_search_over_three_parts_finds(branch: str, c: float, tau: float) -> None:
    bound = kept(Tight(), c, tau)
    assert (bound > kept(Tangent(), c, tau) * (1 + 1e-9)) == (branch == "held")
    for dim in (2, 3):
        # the search keeps to its constraints to 1e-10
        assert slow.least_cosine(c, tau, dim) == pytest.approx(bound, abs=2e-9)
        assert slow.random_triples(c, tau, dim, 50_000, seed=dim).min() >= bound


@pytest.mark.parametrize(("c", "tau"), [pair for some in BRANCHES.values() for pair in some])
def test_tight_is_attained_by_a_bounded_field(c: float, tau: float) -> None:
    field = slow.attaining(c, tau, 3)
    assert max(np.linalg.norm(part) for part in (field.here, field.both, field.there)) <= 1 + 1e-12
    here, there = field.smoothed(tau)
    assert np.linalg.norm(here) == pytest.approx(c, rel=1e-12)
    assert kept(Tight(), c, tau) == pytest.approx(slow.cosine(here, there), rel=2e-12)
    assert kept(Tight(), c, tau) <= slow.cosine(here, there)


def test_nothing_follows_from_a_length_that_the_moved_mass_can_cancel() -> None:
    for rule in (Tight(), Tangent()):
        for c in (0.0, 0.3, 1.0):
            assert rule.cosine(c, c / 2) is None
            assert rule.cosine(c, 1.0) is None
    assert Published().cosine(0.0, 0.1) is None


@pytest.mark.parametrize("tau", [1e-9, 0.01, 0.1, 0.25, 0.4, 0.499])
def test_tight_is_continuous_where_its_formula_changes(tau: float) -> None:
    edge = math.sqrt((1 - tau) ** 2 + 3 * tau**2)
    below, above = kept(Tight(), edge * (1 - 1e-13), tau), kept(Tight(), min(1.0, edge * (1 + 1e-13)), tau)
    # d log(cosine) / d log(c) is at most 1 / cosine^2
    assert above == pytest.approx(below, rel=3e-13 / below**2)


@pytest.mark.parametrize("name", ["tight", "tangent"])
def test_a_cosine_next_to_nothing_is_not_above_the_exact_one(name: str) -> None:
    """c -> 2 tau, and for the tight rule c -> 1 and tau -> 1/2 as well, where its other formula comes to a right angle."""
    rng, rule = np.random.default_rng(8), RULES.make(name)
    near = [(2 * tau * (1 + 10 ** rng.uniform(-16, -2)), tau) for tau in rng.uniform(0, 0.49, 1000).tolist()]
    corner = [(1 - gap * rng.random(), 0.5 - gap / 2) for gap in (10 ** rng.uniform(-16, -1, 1000)).tolist()]
    compared = 0
    for c, tau in (*near, *corner):
        found = rule.cosine(c, tau)
        if found is None:
            assert c <= 2 * tau
            continue
        exact = slow.exact_cosine(c, tau, tight=name == "tight")
        assert found <= exact, (c, tau)
        if exact > 1e-4:
            # an x that is 1e-15 too large moves 1 - x^2 by twice that
            assert found >= exact * (1 - 2e-12 - 4e-15 / exact**2), (c, tau)
            compared += 1
    assert compared > 500


@pytest.mark.parametrize("rule", [Tight(), Tangent(), Published()], ids=NAMES)
def test_cosine_falls_with_tau_and_rises_with_c(rule: ByOverlap) -> None:
    rng = np.random.default_rng(3)
    for c, tau in pairs(5000, 1):
        here = kept(rule, c, tau)
        assert kept(rule, c, tau * rng.random()) >= here - 1e-15
        assert kept(rule, c + (1 - c) * rng.random(), tau) >= here - 1e-15
    assert kept(rule, 0.9, 0.2) < kept(rule, 0.9, 0.1) < kept(rule, 0.99, 0.1)


def test_tight_lies_above_tangent_by_at_most_half_its_angle_and_tangent_below_published() -> None:
    for c, tau in pairs(5000, 2):
        tight, tangent = kept(Tight(), c, tau), kept(Tangent(), c, tau)
        assert tight >= tangent - 1e-15
        if tangent >= 0 and tau > 1e-4:
            assert 2 * math.acos(tight) >= math.acos(tangent) * (1 - 1e-8)
            assert kept(Published(), c, tau) > tangent
    assert math.acos(kept(Tight(), 1.0, 0.01)) == pytest.approx(math.asin(0.01 / 0.99), rel=1e-8)


@pytest.mark.parametrize("case", GOLDEN["crossing"], ids=str)
def test_published_claims_more_than_tight_up_to_a_known_length(case: dict) -> None:
    def gap(c: float) -> float:
        return kept(Published(), c, case["tau"]) - kept(Tight(), c, case["tau"])

    assert gap(case["c"] - 1e-6) > 0 > gap(case["c"] + 1e-6)
    assert gap(2 * case["tau"] + 0.1) > 0


@pytest.mark.parametrize("tau", [0.376, 0.45])
def test_published_claims_more_than_tight_at_every_length_where_tau_exceeds_three_eighths(tau: float) -> None:
    assert all(kept(Published(), c, tau) > kept(Tight(), c, tau) for c in np.linspace(2 * tau + 1e-3, 1, 300).tolist())


def test_only_published_is_called_empirical() -> None:
    assert {name: RULES.make(name).guarantee for name in NAMES} == {
        "tight": Guarantee.CONFIDENCE,
        "tangent": Guarantee.CONFIDENCE,
        "published": Guarantee.EMPIRICAL,
    }


# inverses


def thresholds(n: int, seed: int) -> list[tuple[float, float]]:
    rng = np.random.default_rng(seed)
    T = np.where(rng.random(n) < 0.2, 1 - 10 ** rng.uniform(-6, -1, n), rng.uniform(0.02, 1, n))
    return [(c, float(t)) for (c, _), t in zip(pairs(n, seed), T, strict=True)]


def slightly(T: float) -> float:
    """1e-7, and what a cosine that is rounded down by 1e-12 or two hides of a sine of sqrt(1 - T^2)."""
    return 1 + 1e-7 + 1e-11 / (1 - T * T)


@pytest.mark.parametrize("rule", [Tight(), Tangent()], ids=["tight", "tangent"])
def test_at_the_largest_tau_the_threshold_is_kept_and_slightly_above_it_is_not(rule: ByOverlap) -> None:
    for c, T in thresholds(3000, 5):
        tau = rule.largest_tau(c, T)
        assert kept(rule, c, tau) >= T, (c, T)
        assert kept(rule, c, tau * slightly(T)) < T, (c, T)


def test_the_published_inverse_returns_its_threshold() -> None:
    for c, T in thresholds(3000, 5):
        tau = Published().largest_tau(c, T)
        if tau < 1:
            assert kept(Published(), c, tau) == pytest.approx(T, rel=1e-12)  # never called a certificate: either side


@pytest.mark.parametrize("name", ["tight", "tangent"])
@pytest.mark.parametrize("noise", [UniformBall(1.0), Gaussian(0.25)], ids=str)
def test_at_the_largest_eps_the_threshold_is_kept_and_slightly_above_it_is_not(
    name: str, noise: UniformBall | Gaussian
) -> None:
    rule = RULES.make(name)
    for c, T in thresholds(1000, 6):
        eps = noise.eps(rule.largest_tau(c, T), 784)
        assert kept(rule, c, noise.tau(eps, 784)) >= T, (c, T)
        assert kept(rule, c, noise.tau(eps * slightly(T), 784)) < T, (c, T)


@pytest.mark.parametrize("name", NAMES)
def test_no_length_allows_no_eps(name: str) -> None:
    assert UniformBall(1.0).eps(RULES.make(name).largest_tau(0.0, 0.9), 784) == 0


# a network of four ReLUs


class FourReLUs(nn.Module):
    """f = a|x_1| + b x_2 and 0, of images whose origin is mid-grey."""

    def __init__(self, a2: float) -> None:
        super().__init__()
        self.a, self.b = math.sqrt(a2), math.sqrt(1 - a2)

    def forward(self, x: Tensor) -> Tensor:
        first, second = (x.flatten(1) - 0.5)[:, 0], (x.flatten(1) - 0.5)[:, 1]
        f = self.a * (first.relu() + (-first).relu()) + self.b * (second.relu() - (-second).relu())
        return torch.stack([f, torch.zeros_like(f)], dim=1)


@pytest.mark.parametrize("case", GOLDEN["four_relus"], ids=lambda case: f"d={case['d']}")
def test_four_relus_break_the_published_cosine_and_keep_the_others(case: dict) -> None:
    c, true = slow.four_relus(case["d"], case["eps"], case["a2"])
    tau = UniformBall(1.0).tau(case["eps"], case["d"])
    assert (tau, c, true) == pytest.approx((case["tau"], case["c"], case["truth"]), rel=1e-9)
    assert kept(Published(), c, tau) == pytest.approx(case["published"], rel=1e-9)
    assert kept(Published(), c, tau) > true + 0.05
    assert kept(Tight(), c, tau) < true
    assert kept(Tangent(), c, tau) < true
    assert Tight().cosine(c, tau) == (None if case["tight"] is None else pytest.approx(case["tight"], rel=1e-9))


@pytest.mark.parametrize("d", [2, 3, 10, 784, 3072])
def test_four_relus_never_break_tight_whatever_their_weights(d: int) -> None:
    broken = 0
    for eps in np.geomspace(1e-3, 0.9, 25).tolist():
        tau = UniformBall(1.0).tau(eps, d)
        for a2 in np.linspace(0.01, 0.999, 40).tolist():
            c, true = slow.four_relus(d, eps, a2)
            assert kept(Tight(), c, tau) <= true
            assert kept(Tangent(), c, tau) <= true
            broken += kept(Published(), c, tau) > true
    assert broken > 50


@pytest.mark.parametrize(
    "case", [one for one in GOLDEN["four_relus"] if one["d"] <= 3], ids=lambda one: f"d={one['d']}"
)
def test_the_smoothed_gradient_of_four_relus_has_the_cosine_that_breaks_the_published_rule(case: dict) -> None:
    d, N = case["d"], 40_000
    x = torch.full((2, 1, 1, d), 0.5, dtype=torch.float64)
    x[0, 0, 0, 0] -= case["eps"]
    g = UniformSmooth(radius=1.0, samples=N, base=Direction(Saliency()))
    h, there = g.value(FourReLUs(case["a2"]), x, torch.zeros(2, dtype=torch.int64), Draws(0, (0, 1))).numpy()
    # five standard errors of means of numbers up to 1 in either map, over the shorter one
    noise = 5 * 2 / math.sqrt(N) / case["truth"] / case["c"]
    assert noise < (case["published"] - case["truth"]) / 1.2
    assert np.linalg.norm(h) == pytest.approx(case["c"], abs=5 / math.sqrt(N))
    assert slow.cosine(h, there) == pytest.approx(case["truth"], abs=noise)
    assert slow.cosine(h, there) < case["published"] - 0.02


# noise


def test_noise_of_a_ball_has_uniform_volume_and_no_preferred_side() -> None:
    for d in (1, 2, 3, 50):
        noise = unit_noise("uniform", Draws(1, (4,)), "law", 8000, like=torch.zeros(1, d, dtype=torch.float64))[0]
        length = noise.norm(dim=1).numpy()
        assert length.max() <= 1 + 1e-12
        assert kstest(length**d, "uniform").pvalue > 1e-4
        assert kstest((noise[:, 0] / noise.norm(dim=1)).sign().numpy() * length**d, "uniform", (-1, 2)).pvalue > 1e-4


@pytest.mark.parametrize(("d", "eps"), [(2, 0.5), (3, 1.2), (784, 0.05), (784, 0.12)])
def test_the_share_of_a_ball_outside_a_shifted_one_is_tau(d: int, eps: float) -> None:
    m = 4000
    noise = unit_noise("uniform", Draws(2, tuple(range(3))), "law", m, like=torch.zeros(3, d, dtype=torch.float64))
    moved = noise.flatten(0, 1)
    moved[:, 0] -= eps
    outside = int((moved.norm(dim=1) > 1).sum())
    assert binomtest(outside, 3 * m, UniformBall(1.0).tau(eps, d)).pvalue > 1e-4


def test_the_share_of_gaussian_noise_that_a_shift_moves_is_tau() -> None:
    noise = unit_noise("gaussian", Draws(2, (0,)), "law", 20_000, like=torch.zeros(1, 3, dtype=torch.float64))[0]
    assert kstest(noise.flatten().numpy(), "norm").pvalue > 1e-4
    eps, sigma = 0.4, 0.5
    near = int((sigma * noise[:, 0] < eps / 2).sum())  # where the density at x is the larger: P there less P'
    assert binomtest(near, len(noise), (1 + Gaussian(sigma).tau(eps, 3)) / 2).pvalue > 1e-4


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_noise_depends_on_seed_index_and_purpose_alone(kind: str) -> None:
    like = torch.zeros(2, 7, dtype=torch.float64)
    both = unit_noise(kind, Draws(0, (5, 9)), "a", 4, like=like)
    assert torch.equal(unit_noise(kind, Draws(0, (9,)), "a", 4, like=like[:1])[0], both[1])
    for other in (Draws(1, (5, 9)), Draws(0, (6, 8))):
        assert not (unit_noise(kind, other, "a", 4, like=like) == both).any()
    assert not (unit_noise(kind, Draws(0, (5, 9)), "b", 4, like=like) == both).any()


def test_parts_of_a_purpose_are_streams_of_their_own_and_without_parts_nothing_changes() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    blocks = [Draws(3, (7,)).normal("smooth", 5, like=like, part=part) for part in (None, 0, 1, 2, 10**6)]
    assert all(not (one == other).any() for i, one in enumerate(blocks) for other in blocks[:i])
    assert blocks[0][0].tolist() == pytest.approx(
        np.random.Generator(np.random.Philox([3, 7, zlib.crc32(b"smooth")])).standard_normal(5).tolist(), rel=0
    )


def test_no_two_chunks_of_a_million_draws_are_alike_though_their_names_would_be() -> None:
    """The checksums of smooth-k and smooth-j-length meet among 40,000 chunks; parts do not."""
    sums = {zlib.crc32(f"smooth-{k}".encode()): k for k in range(40_000)}
    twins = [(sums[key], j) for j in range(40_000) if (key := zlib.crc32(f"smooth-{j}-length".encode())) in sums]
    assert twins
    like = torch.zeros(1, 4, dtype=torch.float64)
    for k, j in twins[:3]:
        one = Draws(0, (0,)).normal("smooth", 4, like=like, part=k)
        assert not (one == Draws(0, (0,)).normal("smooth-length", 4, like=like, part=j)).any()


@pytest.mark.parametrize(("c", "tau"), [(0.8, 0.25), (0.97, 0.3)])
@pytest.mark.parametrize("d", [2, 3, 10])
def test_a_piecewise_constant_field_meets_tight_with_equality_under_the_program_s_noise(
    d: int, c: float, tau: float
) -> None:
    """Smoothed by the program's own draws and its own mean, at x = 0 and at x = eps e_1."""
    field, eps, N = slow.attaining(c, tau, d), UniformBall(1.0).eps(tau, d), 100_000
    here, both, there = (torch.from_numpy(part) for part in (field.here, field.both, field.there))
    e = torch.eye(d, dtype=torch.float64)[0]

    def g(z: Tensor) -> Tensor:
        near, far = z.norm(dim=-1, keepdim=True) <= 1, (z - eps * e).norm(dim=-1, keepdim=True) <= 1
        return torch.where(near & far, both, torch.where(near, here, there))

    like = torch.zeros(2, d, dtype=torch.float64)
    noise = unit_noise("uniform", Draws(3, (0, 1)), "field", N, like=like)
    estimate = Estimate(ClipAt(1.0), torch.ones(2, dtype=torch.float64), (N,), fixed_direction=False, like=like)
    estimate.add(g(noise + torch.stack([0 * e, eps * e])[:, None]))
    h, moved = estimate.mean.numpy()
    true = kept(Tight(), c, UniformBall(1.0).tau(eps, d))
    # five standard errors: each region's share is known to sqrt(tau (1 - tau) / N), and moves the means by twice that at most
    error = 5 * 2 * math.sqrt(tau * (1 - tau) / N)
    assert np.linalg.norm(h) == pytest.approx(c, abs=error)
    assert slow.cosine(h, moved) == pytest.approx(true, abs=2 * error / np.linalg.norm(moved))
    if c < 0.9:
        assert slow.cosine(h, moved) < kept(Published(), c, tau) - 0.02


# bounded attributions


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def lengths_of_all_sizes(dtype: torch.dtype, n: int = 50) -> Tensor:
    """Vectors from 1e-30 to 1e15, subnormal ones, zeros, and one huge entry among small ones."""
    rng = torch.Generator().manual_seed(0)
    g = torch.randn(1, 12, n, generator=rng, dtype=torch.float64)
    scales = [1e-42, 1e-30, 1e-20, 1e-10, 1e-3, 1.0, 1e3, 1e10, 1e15, 0.0, 1.0, 1.0]
    g = g * torch.tensor(scales, dtype=torch.float64)[None, :, None]
    g[0, 10, 1:] *= 1e-25
    g[0, 11, 1:] = 0
    return g.to(dtype)


@DTYPES
@pytest.mark.parametrize("bounding", [Unit(), ClipAt(0.7), ClipAt(1e-12), ClipAt(1e9), Clip(0.3)], ids=str)
def test_a_bounded_attribution_is_never_longer_than_its_limit(bounding: Bounding, dtype: torch.dtype) -> None:
    g = lengths_of_all_sizes(dtype)
    M = bounding.limit(g.norm(dim=2))
    found = slow.bounded(bounding, g, M)
    assert found.isfinite().all()
    for limit, rows in zip(M.tolist(), found.tolist(), strict=True):
        assert all(
            math.hypot(*row) <= limit * (1 if isinstance(bounding, ClipAt | Clip) else 1 + 1e-15) for row in rows
        )
    assert (found[:, 9] == 0).all()


@DTYPES
def test_unit_keeps_the_direction_of_tiny_and_huge_gradients_and_leaves_zero_alone(dtype: torch.dtype) -> None:
    g = lengths_of_all_sizes(dtype)
    found = slow.bounded(Unit(), g, torch.ones(1, dtype=dtype))
    length = found.double().norm(dim=2)
    assert torch.allclose(length[:, [*range(9), 10, 11]], torch.ones(1, 11, dtype=torch.float64), atol=1e-6)
    assert (found[:, 9] == 0).all()
    true = torch.nn.functional.normalize(g.double(), dim=2, eps=1e-300)
    assert torch.allclose(found[:, 1:9].double(), true[:, 1:9], atol=1e-6)


@DTYPES
def test_clipping_leaves_short_vectors_alone_and_shortens_long_ones_along_themselves(dtype: torch.dtype) -> None:
    g = lengths_of_all_sizes(dtype)
    found = slow.bounded(ClipAt(0.5), g, torch.full((1,), 0.5, dtype=dtype))
    length = g.double().norm(dim=2)
    short = length[0] < 0.5
    assert 0 < int(short.sum()) < 12
    assert torch.equal(found[0, short], g[0, short].double())
    assert torch.allclose(found[0, ~short].double().norm(dim=1), torch.tensor(0.5, dtype=torch.float64), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e-16, 1e20, 1e37])
def test_clipping_keeps_the_direction_of_tiny_and_huge_float32_gradients(scale: float) -> None:
    g = (scale * torch.linspace(-1, 1, 9, dtype=torch.float64)).float()[None, None]
    for limit in (scale / 2, 10 * scale):
        (found,) = slow.bounded(ClipAt(limit), g, torch.tensor([limit], dtype=torch.float64))[0]
        length = min(limit, math.hypot(*g.flatten().tolist()))
        assert math.hypot(*found.tolist()) == pytest.approx(length, rel=1e-12)
        assert slow.cosine(found.numpy(), g[0, 0].double().numpy()) == pytest.approx(1, rel=1e-12)


def test_a_pilot_draw_that_is_not_finite_counts_as_zero() -> None:
    lengths = torch.arange(1.0, 102.0)[None].repeat(3, 1)
    lengths[0, 50], lengths[1, 50], lengths[2, :] = math.nan, math.inf, math.nan
    zeroed = lengths[0].clone()
    zeroed[50] = 0
    expected = float(torch.quantile(zeroed, 0.3))
    assert Clip(0.3).limit(lengths).tolist() == pytest.approx([expected, expected, 1.0])
    assert expected > 2


def test_clip_takes_the_quantile_of_its_pilot_for_each_sample() -> None:
    lengths = torch.stack([torch.arange(1.0, 102.0), 5 * torch.arange(1.0, 102.0)])
    assert Clip(0.1).limit(lengths).tolist() == pytest.approx([11.0, 55.0])
    assert Clip(0.5).limit(torch.zeros(3, 10)).tolist() == [1.0, 1.0, 1.0]
    assert Clip(0.1).pilot >= 50


@pytest.mark.parametrize(
    "text", ["unit:1", "clip", "clip:0", "clip:1", "clip:-1", "clip-at", "clip-at:0", "clip-at:-2", "", "max"]
)
def test_a_bounding_that_bounds_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be unit, clip:Q"):
        make_bounding(text)


@pytest.mark.parametrize("text", ["clip:nan", "clip:x", "clip-at:inf", "clip-at:1/0"])
def test_a_limit_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="number"):
        make_bounding(text)


def test_words_for_boundings_mean_what_they_say() -> None:
    assert make_bounding("unit") == Unit()
    assert make_bounding("clip:0.1") == Clip(0.1)
    assert make_bounding("clip-at:3/2") == ClipAt(1.5)
