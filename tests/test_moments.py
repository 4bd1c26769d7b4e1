"""The covariance rule against many digits, a linear program and fields that are integrated exactly."""

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from reference import moments as slow
from reference import smoothing
from reference.typechecking import unchecked
from scipy.special import ndtr

from attrcert.bounds.smoothed import ball_moments, covariance_rule, moments
from attrcert.bounds.smoothed.averaged import Averaged
from attrcert.bounds.smoothed.cosine_bounds import Tight
from attrcert.bounds.smoothed.covariance_rule import Best, Moments
from attrcert.bounds.smoothed.noise_overlap import Gaussian, UniformBall

plain = unchecked(moments)
largest_angle_sine, largest_shift, most_moved = plain.largest_angle_sine, plain.largest_shift, plain.most_moved
GOLDEN = json.loads((Path(__file__).parent / "golden_moments.json").read_text())
GRID = [(s, share, B) for s in (0.03, 0.3, 1.0, 2.2, 4.0) for share in (1e-9, 1e-3, 0.06, 0.5, 0.9) for B in (1.0, 1.7)]
# K is rounded outwards by 1e-12, and found to twice as many digits as its brackets settle at
ROUNDING = 1e-9
KNOWN = [  # C, M, variance
    (0.9, 1.0, 0.05),
    (0.97, 1.0, 0.01),
    (0.45, 1.0, 0.0356),
    (0.2, 1.0, 0.06),
    (0.2, 1.0, 0.9),
    (0.03, 0.1, 1e-6),
    (70.0, 100.0, 400.0),
    (0.999, 1.0, 1e-3),
]


def by_variance(s: float, variance: float) -> float:
    return math.sqrt(variance * math.expm1(s * s))


def by_range(s: float, B: float) -> float:
    return B * math.erf(s / math.sqrt(2))


# Golden values


@pytest.mark.parametrize("case", GOLDEN["K"], ids=str)
def test_the_largest_move_is_the_golden_one(case: dict) -> None:
    assert most_moved(case["s"], case["lam"], case["B"]) == pytest.approx(case["K"], rel=1e-9)


@pytest.mark.parametrize("case", GOLDEN["angle_deg"], ids=str)
def test_the_largest_angle_is_the_golden_one(case: dict) -> None:
    sine = largest_angle_sine(case["s"], case["C"], case["lam"], case["M"])
    assert math.degrees(math.asin(sine)) == pytest.approx(case["angle"], rel=1e-9)


@pytest.mark.parametrize("case", GOLDEN["max_s"], ids=str)
def test_the_largest_shift_is_the_golden_one(case: dict) -> None:
    sine = math.sqrt(1 - case["T"] ** 2)
    s = largest_shift(case["C"], case["lam"], case["M"], sine)
    assert s == pytest.approx(case["s"], rel=1e-9)
    assert s > case["chi_square_start"]
    known = Averaged(case["C"], case["M"], case["lam"], Gaussian(0.25), 784)
    assert Moments().reach(known, case["T"]) == pytest.approx(0.25 * case["s"], rel=1e-9)


# K


@pytest.mark.parametrize(("s", "share", "B"), GRID)
def test_the_largest_move_is_attained_by_a_clipped_likelihood_ratio_and_no_rounding_is_below_it(
    s: float, share: float, B: float
) -> None:
    K, attained = most_moved(s, share * B * B, B), slow.largest_feasible(s, share * B * B, B)
    assert attained <= K <= attained * (1 + ROUNDING)


@pytest.mark.parametrize(
    ("s", "variance", "B"), [(0.1, 0.02, 1.4), (0.5, 0.05, 1.3), (1.2, 0.05, 1.3), (2.5, 0.2, 0.8), (1.0, 0.3, 0.6)]
)
def test_the_largest_move_is_the_value_of_a_linear_program(s: float, variance: float, B: float) -> None:
    lower, upper = slow.program(s, variance, B, rounds=10)
    # cells of 1/16 lose 1e-3 of the spread of L within them
    assert lower <= most_moved(s, variance, B) <= 1.002 * upper
    assert lower > 0.997 * upper


def test_the_moments_of_the_slow_reference_are_those_of_a_quadrature() -> None:
    s, a, b, B = 0.8, 1.3, 0.9, 0.7
    n = np.linspace(-12, 12, 400_001)
    L, weight = np.exp(s * n - s * s / 2), np.exp(-n * n / 2) / math.sqrt(2 * math.pi) * (n[1] - n[0])
    Z = np.clip(a * (L - b), -B, B)
    expected = [(weight * Z).sum(), (weight * Z**2).sum(), (weight * Z * L).sum()]
    found = slow.clipped(*(mp.mpf(number) for number in (s, a, b, B)))
    np.testing.assert_allclose([float(part) for part in found], expected, atol=1e-8)  # kinks at 6e-5 apart


@pytest.mark.parametrize(("s", "share", "B"), GRID)
def test_the_largest_move_is_below_both_simple_forms(s: float, share: float, B: float) -> None:
    K = most_moved(s, share * B * B, B)
    assert by_variance(s, share * B * B) * (1 + ROUNDING) >= K
    assert by_range(s, B) * (1 + ROUNDING) >= K


@pytest.mark.parametrize("s", [1e-3, 0.1, 1.0, 2.5])
def test_a_wide_range_leaves_the_variance_alone(s: float) -> None:
    assert most_moved(s, 0.04, 1e9) == pytest.approx(by_variance(s, 0.04), rel=ROUNDING)
    assert most_moved(s, 0.04, 0.3) < 0.999 * by_variance(s, 0.04)


@pytest.mark.parametrize("s", [1e-9, 0.1, 1.0, 2.5, 30.0])
@pytest.mark.parametrize("variance", [1.0, 1.5, 1e300])
def test_a_variance_beyond_the_range_leaves_the_range_alone(s: float, variance: float) -> None:
    assert most_moved(s, variance, 1.0) == pytest.approx(by_range(s, 1.0), rel=ROUNDING)


@pytest.mark.parametrize(("s", "share", "B"), GRID)
def test_the_largest_move_scales_with_the_attribution(s: float, share: float, B: float) -> None:
    K = most_moved(s, share * B * B, B)
    for scale in (1e-30, 0.3, 1e30):
        assert most_moved(s, share * (scale * B) ** 2, scale * B) == pytest.approx(scale * K, rel=ROUNDING)


@pytest.mark.parametrize(("s", "share", "B"), GRID)
def test_the_largest_move_rises_with_shift_variance_and_range(s: float, share: float, B: float) -> None:
    variance = share * B * B
    K = most_moved(s, variance, B)
    assert most_moved(1.1 * s, variance, B) > K * (1 - ROUNDING)
    assert most_moved(s, 1.05 * variance, B) > K * (1 - ROUNDING)
    assert most_moved(s, variance, 1.1 * B) > K * (1 - ROUNDING)
    assert most_moved(0.5 * s, variance, B) < K


def test_without_shift_or_variance_or_range_nothing_moves() -> None:
    assert most_moved(0.0, 0.1, 1.0) == most_moved(1.0, 0.0, 1.0) == most_moved(1.0, 0.1, 0.0) == 0


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def never_below_a_feasible_value(s: float, share: float, B: float, log_a: float, level: float) -> None:
    """An arbitrary clipped likelihood ratio, and the sign of n."""
    variance = share * B * B
    K = most_moved(s, variance, B)
    with mp.workdps(slow.DIGITS + int(s * s)):
        a = mp.sqrt(mp.mpf(variance) / mp.expm1(mp.mpf(s) ** 2)) * mp.exp(log_a)
        assert slow.feasible(s, variance, B, a, mp.exp(-(mp.mpf(s) ** 2) / 2 * level)) <= K
        assert min(mp.mpf(B), mp.sqrt(variance)) * mp.erf(mp.mpf(s) / mp.sqrt(2)) <= K
    assert by_range(s, B) * (1 + ROUNDING) >= K
    assert s > 19 or by_variance(s, variance) * (1 + ROUNDING) >= K


# small cases say no more than others
MANY = settings(max_examples=150, deadline=None, derandomize=True, phases=[Phase.generate])
SHIFTS, RANGES, STEEP, LEVELS = powers(-12, 1.2), powers(-30, 30), st.floats(0, 40), st.floats(0, 1)


@MANY
@given(powers(-4, 0.9), powers(-100, -0.05), RANGES, STEEP, LEVELS)
def test_the_largest_move_is_never_below_a_feasible_value(
    s: float, share: float, B: float, log_a: float, level: float
) -> None:
    never_below_a_feasible_value(s, share, B, log_a, level)


@MANY
@given(powers(-12, -4), powers(-40, -0.05), RANGES, STEEP, LEVELS)
def test_the_largest_move_is_never_below_a_feasible_value_at_small_shifts(
    s: float, share: float, B: float, log_a: float, level: float
) -> None:
    never_below_a_feasible_value(s, share, B, log_a, level)


@MANY
@given(SHIFTS, powers(-16, -0.5), RANGES, STEEP, LEVELS)
def test_the_largest_move_is_never_below_a_feasible_value_at_variances_next_to_the_range(
    s: float, missing: float, B: float, log_a: float, level: float
) -> None:
    never_below_a_feasible_value(s, 1 - missing, B, log_a, level)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(powers(0.5, 1.6), powers(-300, 0))
def test_the_largest_move_is_found_at_every_variance_however_far_the_shift(s: float, variance: float) -> None:
    found = most_moved(s, variance, 1.0)
    with mp.workdps(30):
        simple = mp.sqrt(mp.mpf(variance) * mp.expm1(mp.mpf(s) ** 2))
        assert min(mp.mpf(1), mp.sqrt(variance)) * mp.erf(mp.mpf(s) / mp.sqrt(2)) <= found <= simple * (1 + ROUNDING)
    assert found <= by_range(s, 1.0) * (1 + ROUNDING)


# Fields


def sine_between(one: np.ndarray, other: np.ndarray) -> float:
    """2 where the angle is a right one or larger."""
    inner, lengths = one @ other, np.linalg.norm(one) * np.linalg.norm(other)
    if inner <= 0:
        return 2.0
    return float(np.linalg.norm(one * (one @ other) / (one @ one) - other) / np.linalg.norm(other)) if lengths else 0.0


def share_of_the_angle(field: slow.Steps, shift: np.ndarray) -> float:
    """The true angle at the shifted point over the largest that is claimed; 0 where nothing is."""
    (h, covariance), (moved, _) = field.moments(ndtr, 0 * shift), field.moments(ndtr, shift)
    top = float(np.linalg.eigvalsh(covariance)[-1])
    claimed = largest_angle_sine(float(np.linalg.norm(shift)), float(np.linalg.norm(h)), top, field.limit)
    if claimed is None:
        return 0.0
    true = sine_between(h, moved)
    assert true <= claimed * (1 + 1e-9) + 1e-12  # rounding of the sums over cells
    return math.asin(true) / math.asin(claimed)


def test_no_field_that_is_integrated_exactly_turns_by_more_than_is_claimed() -> None:
    rng, shares = np.random.default_rng(1), []
    for field in slow.fields(400, seed=0):
        direction = rng.standard_normal(len(field.edges))
        shift = direction / np.linalg.norm(direction) * rng.choice([0.05, 0.2, 0.5, 1.0, 1.6])
        shares.append(share_of_the_angle(field, shift))
    assert np.count_nonzero(shares) > 150  # of which something is claimed
    assert max(shares) > 0.85


@pytest.mark.parametrize(("s", "C", "spread"), [(0.2, 0.8, 0.05), (0.6, 0.8, 0.1), (1.0, 0.9, 0.05)])
def test_the_extremal_field_turns_by_what_is_claimed(s: float, C: float, spread: float) -> None:
    """g = C e + v Z, Z the likelihood ratio less 1, where v leans back from e by the angle that is reached."""
    cells = np.linspace(-5, 5 + s, 600)
    edges = np.concatenate([[-np.inf], cells, [np.inf]])
    L = np.diff(ndtr(edges - s)) / np.diff(ndtr(edges))
    Z = spread * (L - 1)
    phi = math.asin(spread * math.expm1(s * s) / C)
    v = np.array([-math.sin(phi), math.cos(phi)])
    assert 0.98 <= share_of_the_angle(slow.Steps((edges,), np.array([C, 0.0]) + Z[:, None] * v), np.array([s])) <= 1


@pytest.mark.parametrize(("s", "variance", "B"), [(0.5, 0.2, 0.8), (1.5, 0.05, 1.0), (2.5, 0.2, 0.8)])
def test_the_extremal_field_moves_by_the_largest_move(s: float, variance: float, B: float) -> None:
    edges = np.concatenate([[-np.inf], np.linspace(-5, 6, 400), [np.inf]])
    L = np.diff(ndtr(edges - s)) / np.diff(ndtr(edges))
    a, b = (float(one) for one in slow.extremal(s, variance, B))
    field = slow.Steps((edges,), np.clip(a * (L - b), -B, B)[:, None])
    (h, covariance), (moved, _) = field.moments(ndtr, np.zeros(1)), field.moments(ndtr, np.array([s]))
    assert covariance[0, 0] == pytest.approx(variance, rel=1e-2)
    assert 0.98 <= abs(moved - h)[0] / most_moved(s, float(covariance[0, 0]), B) <= 1


# Angles and their inverse


@pytest.mark.parametrize(("C", "M", "variance"), KNOWN)
@pytest.mark.parametrize("sine", [1e-6, 0.05, 0.43, 0.9])
def test_at_the_largest_shift_the_angle_is_kept_and_slightly_above_it_is_not(
    C: float, M: float, variance: float, sine: float
) -> None:
    s = largest_shift(C, variance, M, sine)
    assert s > 0
    assert largest_angle_sine(s, C, variance, M) <= sine * (1 + 1e-9)
    beyond = largest_angle_sine(1.0001 * s, C, variance, M)
    assert beyond is None or beyond > sine


@pytest.mark.parametrize(("C", "M", "variance"), KNOWN)
def test_the_claimed_angle_solves_its_equation_from_above(C: float, M: float, variance: float) -> None:
    for s in (0.01, 0.1, 0.5):
        sine = largest_angle_sine(s, C, variance, M)
        if sine is None:
            assert most_moved(s, variance, 2 * M) >= C
        else:
            assert most_moved(s, variance, M * (1 + sine)) <= C * sine
            assert most_moved(s, variance, M * (1 + 0.999 * sine)) > C * 0.999 * sine


@settings(max_examples=100, deadline=None, derandomize=True)
@given(powers(-3, 1), powers(-3, 0), powers(-6, -0.1), RANGES, st.floats(0.01, 0.999))
def test_angles_and_shifts_are_found_whatever_is_known(s: float, c: float, share: float, M: float, sine: float) -> None:
    angle, shift = largest_angle_sine(s, c * M, share * M * M, M), largest_shift(c * M, share * M * M, M, sine)
    assert angle is None or 0 <= angle < 1
    assert 0 < shift < math.inf
    assert most_moved(shift, share * M * M, M * (1 + sine)) <= c * M * sine


@pytest.mark.parametrize("variance", [1e-32, 1e-100, 1e-300])
def test_the_angle_of_next_to_no_variance_is_found(variance: float) -> None:
    assert by_variance(0.4, variance) / 0.9 <= largest_angle_sine(0.4, 0.9, variance, 1.0) < 1e-12


@pytest.mark.parametrize("variance", [1e-150, 1e-200, 1e-300])
def test_the_shift_of_next_to_no_variance_is_found(variance: float) -> None:
    least = math.sqrt(math.log1p(0.36**2 / variance))
    assert least * (1 - ROUNDING) <= largest_shift(0.9, variance, 1.0, 0.4) < 40


def test_without_length_nothing_follows_and_without_variance_nothing_turns() -> None:
    assert largest_angle_sine(0.1, 0.0, 0.1, 1.0) is None
    assert largest_shift(0.0, 0.1, 1.0, 0.4) == 0
    assert largest_shift(0.5, 0.1, 1.0, 0.0) == 0
    assert largest_angle_sine(3.0, 0.5, 0.0, 1.0) == 0
    assert largest_shift(0.5, 0.0, 1.0, 0.4) == math.inf
    assert largest_angle_sine(0.0, 0.5, 0.1, 1.0) == 0


# The rules


@pytest.fixture(autouse=True)
def _rules_are_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariance_rule, "moments", plain)


NOISES = [Gaussian(0.25), UniformBall(1.5)]
by_noise = pytest.mark.parametrize("noise", NOISES, ids=str)


@by_noise
@pytest.mark.parametrize("rule", [Moments(), Best()], ids=str)
@pytest.mark.parametrize(("C", "M", "variance"), KNOWN)
def test_at_its_reach_a_rule_keeps_the_cosine_and_slightly_above_it_does_not(
    rule: Moments | Best, noise: Gaussian | UniformBall, C: float, M: float, variance: float
) -> None:
    known = Averaged(C, M, variance, noise, 30)
    for T in (0.6, 0.9, 0.999):
        eps = rule.reach(known, T)
        assert eps > 0
        assert rule.kept(known, eps) >= T
        beyond = rule.kept(known, 1.0001 * eps)
        assert beyond is None or beyond < T


@by_noise
@pytest.mark.parametrize(("C", "M", "variance"), KNOWN)
def test_the_best_rule_is_the_better_of_both(
    noise: Gaussian | UniformBall, C: float, M: float, variance: float
) -> None:
    known = Averaged(C, M, variance, noise, 30)
    rivals = (Moments(), Tight())
    for eps in (1e-3, 0.03, 0.1, 0.3, 1.0):
        kept = [rule.kept(known, eps) for rule in rivals]
        assert Best().kept(known, eps) == max((one for one in kept if one is not None), default=None)
    for T in (0.2, 0.9, 0.999):
        assert Best().reach(known, T) == max(rule.reach(known, T) for rule in rivals)


def test_each_of_the_rules_is_somewhere_the_better_one() -> None:
    short, long = Averaged(0.39, 1.0, 0.71, Gaussian(1.0), 30), Averaged(0.9, 1.0, 0.01, Gaussian(1.0), 30)
    assert Tight().kept(short, 0.25) > Moments().kept(short, 0.25)
    assert Tight().kept(long, 0.25) < Moments().kept(long, 0.25)


@by_noise
def test_the_length_bounds_the_variance_where_it_is_not_known(noise: Gaussian | UniformBall) -> None:
    for variance in (0.19, 0.5, math.inf):
        known = Averaged(0.9, 1.0, variance, noise, 30)
        assert known.largest_variance == pytest.approx(0.19)
        assert Moments().kept(known, 0.1) == pytest.approx(Moments().kept(Averaged(0.9, 1.0, 0.19, noise, 30), 0.1))


@by_noise
def test_the_kept_cosine_falls_with_eps_and_variance_and_rises_with_length(noise: Gaussian | UniformBall) -> None:
    def kept(eps: float, C: float, variance: float) -> float:
        return Moments().kept(Averaged(C, 1.0, variance, noise, 30), eps)

    assert kept(0.05, 0.8, 0.05) > kept(0.06, 0.8, 0.05)
    assert kept(0.05, 0.8, 0.05) > kept(0.05, 0.8, 0.06)
    assert kept(0.05, 0.8, 0.05) < kept(0.05, 0.85, 0.05)


# Balls


def segments(radius: float, d: int):
    """How one coordinate of uniform noise in the interval or the disc is distributed."""

    def law(t: np.ndarray) -> np.ndarray:
        x = np.clip(t / radius, -1, 1)
        return (1 + x) / 2 if d == 1 else 0.5 + (x * np.sqrt(1 - x * x) + np.arcsin(x)) / np.pi

    return law


def in_the_ball(h: np.ndarray, moved: np.ndarray, top: float, M: float, tau: float) -> float:
    """The true sine over the claimed one; 0 where nothing is claimed."""
    claimed = ball_moments.largest_angle_sine(tau, float(np.linalg.norm(h)), max(0.0, top), M)
    if claimed is None:
        return 0.0
    true = sine_between(h, moved)
    assert true <= claimed * (1 + 1e-9) + 1e-12
    return true / claimed


@pytest.mark.parametrize("d", [1, 2])
def test_no_field_under_uniform_noise_turns_by_more_than_is_claimed(d: int) -> None:
    """Fields of one coordinate, which may lie across the shift."""
    rng, shares, radius = np.random.default_rng(d), [], 1.7
    law = segments(radius, d)
    for field in slow.fields(400, seed=d):
        if len(field.edges) == 2:
            continue
        eps = rng.choice([0.02, 0.1, 0.4])
        along = eps if d == 1 else eps * math.cos(rng.uniform(0, 2 * math.pi))
        (h, covariance), (moved, _) = field.moments(law, np.zeros(1)), field.moments(law, np.array([along]))
        top, tau = float(np.linalg.eigvalsh(covariance)[-1]), UniformBall(radius).tau(eps, d)
        shares.append(in_the_ball(h, moved, top, field.limit, tau))
    assert np.count_nonzero(shares) > 80
    assert max(shares) > 0.3


def test_no_field_on_the_three_parts_of_two_balls_turns_by_more_than_is_claimed() -> None:
    """Values at x only, at both, at x + delta only: all there is to know of a field but for its spread in each part."""
    rng, shares = np.random.default_rng(3), []
    for _ in range(3000):
        tau = rng.choice([0.003, 0.03, 0.15])
        values = rng.standard_normal((3, 2))
        values[1] = values[1] / np.linalg.norm(values[1]) * rng.uniform(0.2, 1)
        values[[0, 2]] /= np.linalg.norm(values[[0, 2]], axis=1, keepdims=True)
        field = smoothing.Field(*values)
        h, moved = field.smoothed(tau)
        covariance = tau * np.outer(values[0] - h, values[0] - h) + (1 - tau) * np.outer(values[1] - h, values[1] - h)
        shares.append(in_the_ball(h, moved, float(np.linalg.eigvalsh(covariance)[-1]), 1.0, tau))
    assert max(shares) > 0.95


@pytest.mark.parametrize(("C", "M", "variance"), KNOWN)
def test_at_the_largest_overlap_the_angle_is_kept_and_slightly_above_it_is_not(
    C: float, M: float, variance: float
) -> None:
    for sine in (1e-4, 0.1, 0.43, 0.9):
        tau = ball_moments.largest_overlap(C, variance, M, sine)
        assert 0 < tau < 0.5
        assert M * tau + math.sqrt(variance * tau * (1 - tau)) <= C * sine * (1 - tau)
        assert ball_moments.largest_angle_sine(tau, C, variance, M) <= sine
        beyond = ball_moments.largest_angle_sine(1.0001 * tau, C, variance, M)
        assert beyond is None or beyond > sine


def test_balls_that_do_not_meet_or_a_field_without_length_allow_no_claim() -> None:
    assert ball_moments.largest_angle_sine(1.0, 0.5, 0.1, 1.0) is None
    assert ball_moments.largest_angle_sine(0.1, 0.0, 0.1, 1.0) is None
    assert ball_moments.largest_overlap(0.0, 0.1, 1.0, 0.4) == 0
    assert ball_moments.largest_angle_sine(0.0, 0.5, 0.1, 1.0) == 0
