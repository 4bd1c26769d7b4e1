"""Lower confidence bounds of |h| against loops, golden values and simulation, and the projections that they are made from."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy import ndarray
from reference import smoothing as slow
from reference.typechecking import unchecked
from scipy.stats import binomtest
from torch import Tensor

from attrcert.attributions.bounded import ClipAt, Unit
from attrcert.bounds.smoothed.lengths import PROJECTION_ROUNDING, Estimate, lower_length
from attrcert.settings.smoothing import CHUNK
from attrcert.statistics import CONFIDENCES, confidence
from attrcert.statistics.confidence import Betting, EmpiricalBernstein, McDiarmid, Projections, pilot_size

GOLDEN = json.loads((Path(__file__).parent / "golden_smoothing.json").read_text())
NAMES = ("betting", "empirical-bernstein", "mcdiarmid")
WAVE = 0.3 + 0.1 * np.sin(np.arange(1, 1001))
NONE = np.zeros(0)


def seen(
    later: ndarray, pilot: ndarray = NONE, *, M: float = 1.0, norm: float | None = None, horizon: int | None = None
) -> Projections:
    length = abs(float(later.mean())) if norm is None else norm
    return Projections(
        pilot, later, length, M, np.full(horizon or len(later), float(horizon or len(later))), len(pilot) + len(later)
    )


def two_valued(mean: float, variance: float, n: int) -> ndarray:
    """Numbers with exactly that mean and variance."""
    return mean + math.sqrt(variance) * np.where(np.arange(n) % 2, 1.0, -1.0)


# golden values and loops


@pytest.mark.parametrize(
    ("cap", "anytime", "golden", "rel"),
    [
        (0.75, True, "betting_anytime_cap_0.75", 1e-10),
        (0.75, False, "betting_at_the_end_cap_0.75", 1e-10),
        (0.9, True, "betting_anytime_cap_0.9", 1e-9),  # known to ten digits
        (0.9, False, "betting_at_the_end_cap_0.9", 1e-9),
    ],
)
def test_betting_on_a_wave_is_the_golden_bound(cap: float, anytime: bool, golden: str, rel: float) -> None:
    expected = GOLDEN["confidence"][golden]
    assert slow.betting(WAVE.tolist(), 1.0, 1e-3, cap=cap, anytime=anytime) == pytest.approx(expected, rel=rel)
    if anytime:
        assert Betting(cap=cap)(seen(WAVE), 1e-3) == pytest.approx(expected, rel=rel)


def test_betting_with_a_pilot_s_opinion_is_the_golden_bound_and_that_of_loops() -> None:
    words = {"cap": 0.75, "mean": 0.65, "variance": 0.005 / 4, "weight": 50}
    expected = GOLDEN["confidence"]["betting_at_the_end_cap_0.75_prior"]
    assert slow.betting(WAVE.tolist(), 1.0, 1e-3, anytime=False, **words) == pytest.approx(expected, rel=1e-10)
    pilot = two_valued(0.3, 0.005, 50)
    assert Betting(cap=0.75)(seen(WAVE, pilot), 1e-3) == pytest.approx(
        slow.betting(WAVE.tolist(), 1.0, 1e-3, **words), rel=1e-10
    )


@pytest.mark.parametrize("M", [1.0, 7.5, 1e-3])
@pytest.mark.parametrize("q", [0.3, 1e-3, 1e-9])
def test_betting_is_what_loops_give_on_skewed_draws(M: float, q: float) -> None:
    rng = np.random.default_rng(0)
    Y = M * np.where(rng.random(120) < 0.9, rng.uniform(0.5, 1, 120), -rng.random(120))
    pilot = M * rng.uniform(0.2, 1, 20)
    expected = slow.betting(
        Y.tolist(),
        M,
        q,
        cap=0.9,
        mean=float((pilot / M + 1).mean() / 2),
        variance=float((pilot / M / 2).var()),
        weight=20,
    )
    assert Betting()(seen(Y, pilot, M=M), q) == pytest.approx(max(0.0, expected), rel=1e-9, abs=1e-12 * M)


def test_empirical_bernstein_on_a_wave_is_the_golden_bound() -> None:
    assert EmpiricalBernstein()(seen(WAVE), 1e-3) == pytest.approx(GOLDEN["confidence"]["maurer_pontil"], rel=1e-10)
    assert EmpiricalBernstein()(seen(4 * WAVE, M=4.0), 1e-3) == pytest.approx(
        4 * GOLDEN["confidence"]["maurer_pontil"], rel=1e-10
    )


@pytest.mark.parametrize("case", GOLDEN["mcdiarmid"], ids=str)
def test_mcdiarmid_is_the_golden_bound(case: dict) -> None:
    def lower(M: float) -> float:
        return McDiarmid()(Projections(NONE, NONE, M * case["norm"], M, NONE, case["N"]), 1e-3)

    assert lower(1.0) == pytest.approx(case["lower"], rel=1e-10)
    assert lower(3.0) == pytest.approx(3 * case["lower"], rel=1e-10)


# what must hold for any draws


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [-1.0, -0.2, 0.0, 0.1, 0.9, 1.0])
def test_equal_draws_give_a_bound_between_zero_and_themselves(name: str, level: float) -> None:
    for n in (1, 2, 10, 1000):
        for pilot in (NONE, np.full(40, level)):
            lower = CONFIDENCES.make(name)(seen(np.full(n, level), pilot), 1e-3)
            assert 0 <= lower <= abs(level)
            assert lower <= max(level, 0.0) or name == "mcdiarmid"  # which sees a length, not projections


@pytest.mark.parametrize("name", NAMES)
def test_many_equal_draws_give_a_bound_close_to_themselves(name: str) -> None:
    assert CONFIDENCES.make(name)(seen(np.full(20_000, 0.9)), 1e-3) > 0.85


@pytest.mark.parametrize("name", NAMES)
def test_no_draws_or_one_give_no_bound(name: str) -> None:
    assert CONFIDENCES.make(name)(Projections(NONE, NONE, 0.0, 1.0, np.ones(1), 0), 1e-3) == 0
    assert CONFIDENCES.make(name)(Projections(NONE, np.ones(1), 1.0, 1.0, np.ones(1), 1), 1e-3) == 0


@pytest.mark.parametrize("name", NAMES)
def test_draws_at_both_extremes_give_a_number_between_zero_and_the_mean(name: str) -> None:
    for share in (0.0, 0.01, 0.5, 0.99, 1.0):
        Y = np.where(np.arange(400) < 400 * share, 1.0, -1.0)
        for order in (Y, Y[::-1]):
            lower = CONFIDENCES.make(name)(seen(order.copy()), 1e-2)
            assert 0 <= lower <= (1.0 if name == "betting" else abs(order.mean()))


@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_failure_gives_a_smaller_bound(name: str) -> None:
    bounds = [CONFIDENCES.make(name)(seen(WAVE), q) for q in (0.2, 0.05, 1e-3, 1e-6, 1e-12)]
    assert bounds == sorted(bounds, reverse=True)
    assert len(set(bounds)) == 5


@pytest.mark.parametrize("name", NAMES)
def test_longer_projections_give_a_larger_bound(name: str) -> None:
    bounds = [CONFIDENCES.make(name)(seen(WAVE + up, WAVE[:50] + up), 1e-3) for up in (0.0, 0.01, 0.1, 0.4)]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == 4


def test_betting_never_falls_as_draws_come_in_and_uses_no_draw_before_it_came() -> None:
    rng = np.random.default_rng(1)
    Y = np.concatenate([rng.uniform(0.2, 1, 150), rng.uniform(-1, 0.2, 150)])
    bounds = [Betting()(seen(Y[:n], Y[:20], horizon=300), 0.05) for n in range(10, 301, 10)]
    assert bounds == sorted(bounds)
    assert bounds[14] == bounds[-1] > 0  # what was shown once stays shown, though the mean fell


# coverage by simulation: many samples in one estimate


def two_point(p: float) -> Callable[[np.random.Generator, int, int], ndarray]:
    def draw(rng: np.random.Generator, b: int, m: int) -> ndarray:
        X = np.zeros((b, m, 3))
        X[..., 0] = np.where(rng.random((b, m)) < p, 1.0, -1.0)
        return X

    return draw


A, B = 1.4, 0.02  # 0.4 less min(A, B/U): a tail of index one, cut where the length reaches 1


def heavy(rng: np.random.Generator, b: int, m: int) -> ndarray:
    X = np.zeros((b, m, 2))
    X[..., 0] = 0.4 - np.minimum(A, B / rng.random((b, m)))
    return X


def isotropic(length: float, d: int) -> Callable[[np.random.Generator, int, int], ndarray]:
    def draw(rng: np.random.Generator, b: int, m: int) -> ndarray:
        X = rng.standard_normal((b, m, d))
        X *= (1 - length) / np.linalg.norm(X, axis=2, keepdims=True)
        X[..., 0] += length
        return X

    return draw


LAWS: dict[str, tuple[Callable[[np.random.Generator, int, int], ndarray], float]] = {
    "two-point .98": (two_point(0.98), 0.96),
    "two-point .8": (two_point(0.8), 0.6),
    "heavy": (heavy, 0.4 - B * (1 + math.log(A / B))),
    "isotropic .3": (isotropic(0.3, 8), 0.3),
}
MANY, DRAWN, FAILURE = 5000, 200, 0.05


def estimated(X: Tensor, *, frozen: bool = False, horizon: int | None = None) -> Estimate:
    """The draws of every sample in the program's chunks."""
    b, N, d = X.shape
    like, M = X.new_zeros(b, d), X.new_ones(b)
    estimate = Estimate(ClipAt(1.0), M, (horizon or N,), fixed_direction=frozen, like=like)
    for part in X.split(CHUNK, dim=1):
        estimate.add(part)
    return estimate


@pytest.fixture(scope="module", params=LAWS)
def simulated(request) -> tuple[Tensor, float]:
    draw, true = LAWS[request.param]
    X = torch.from_numpy(draw(np.random.default_rng(11), MANY, DRAWN))
    assert X.norm(dim=2).max() <= 1 + 1e-12
    # the law's length is what it is said to be: five standard errors
    assert X.mean(dim=(0, 1)).norm().item() == pytest.approx(true, abs=5 * math.sqrt(X.shape[2] / (MANY * DRAWN)))
    return X, true


@pytest.mark.parametrize("name", NAMES)
def test_a_bound_exceeds_the_truth_no_more_often_than_its_failure(name: str, simulated) -> None:
    """For betting at all stopping times at once: its bound never falls while draws come in."""
    X, true = simulated
    bound = getattr(unchecked(confidence), CONFIDENCES.member(name).__name__)()
    found = estimated(X, frozen=name == "empirical-bernstein").projections()
    lower = np.array([lower_length(bound, one, FAILURE, torch.float64) for one in found])
    misses = int((lower > true).sum())
    assert binomtest(misses, MANY, FAILURE, alternative="greater").pvalue > 1e-4
    assert np.median(lower) > true * {"betting": 0.7, "empirical-bernstein": 0.3, "mcdiarmid": 0.25}[name]
    if name == "betting":
        assert misses > 20  # a bound that is never wrong could not be caught here


def test_betting_seldom_finds_a_length_where_there_is_none_though_every_mean_has_one() -> None:
    X = torch.from_numpy(isotropic(0.0, 8)(np.random.default_rng(13), 1000, 100))
    found = estimated(X).projections()
    bound = unchecked(confidence).Betting()
    misses = sum(bound(one, FAILURE) > 0 for one in found)
    assert binomtest(misses, 1000, FAILURE, alternative="greater").pvalue > 1e-4
    assert min(one.mean_norm for one in found) > 0.01


# what the projections are made from


def draws(b: int = 3, N: int = 230, d: int = 6, seed: int = 0) -> Tensor:
    X = torch.from_numpy(np.random.default_rng(seed).standard_normal((b, N, d)))
    X[..., 0] += 0.7
    return torch.nn.functional.normalize(X, dim=2)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("N", [60, 230, 600])
def test_projections_are_those_on_the_sum_of_earlier_chunks(frozen: bool, N: int) -> None:
    X = draws(N=N)
    for one, rows in zip(estimated(X, frozen=frozen).projections(), X.numpy(), strict=True):
        pilot, later = slow.projections(rows, CHUNK, pilot_size(N), frozen=frozen)
        np.testing.assert_allclose(one.pilot, pilot, atol=1e-12)
        np.testing.assert_allclose(one.later, later, atol=1e-12)
        assert one.total == N
        assert one.mean_norm == pytest.approx(np.linalg.norm(rows.mean(axis=0)), rel=1e-12)
        assert len(one.later) > 0


@pytest.mark.parametrize("changed", [0, 30, 110, 229])
def test_a_draw_changes_no_projection_but_its_own_and_those_after_its_chunk(changed: int) -> None:
    X, Y = draws(), draws()
    Y[:, changed] = -Y[:, changed]
    before, after = (torch.from_numpy(every(estimated(part))) for part in (X, Y))
    same = (before == after).all(dim=0)
    place = changed - CHUNK  # the first chunk has no direction to be projected on
    end = (changed // CHUNK + 1) * CHUNK - CHUNK
    assert same[: max(place, 0)].all()
    assert same[max(place + 1, 0) : end].all()
    assert place < 0 or not same[place]
    assert not same[end:].any()


def every(estimate: Estimate) -> ndarray:
    return np.stack([np.concatenate([one.pilot, one.later]) for one in estimate.projections()])


def test_projections_of_draws_without_a_mean_have_none() -> None:
    """A direction that knew of its own chunk would make their mean 1/sqrt(chunk) or so."""
    X = torch.from_numpy(isotropic(0.0, 8)(np.random.default_rng(5), 400, 200))
    later = np.stack([one.later for one in estimated(X).projections()])
    # uncorrelated given the past; each has variance 1/8
    assert abs(later.mean()) < 5 * math.sqrt(1 / 8 / later.size)


def test_the_direction_of_empirical_bernstein_stays_as_the_pilot_left_it_and_that_of_betting_does_not() -> None:
    X = draws(N=400)
    for frozen in (True, False):
        estimate = Estimate(Unit(), X.new_ones(3), (400,), fixed_direction=frozen, like=X.new_zeros(3, 6))
        directions = []
        for part in X.split(CHUNK, dim=1):
            estimate.add(part)
            directions.append(estimate.direction.clone())
        settled = directions[pilot_size(400) // CHUNK]
        assert all(torch.equal(direction, settled) for direction in directions[3:]) == frozen
        assert torch.allclose(directions[0], torch.nn.functional.normalize(X[:, :CHUNK].sum(dim=1), dim=1))


def test_samples_of_a_batch_do_not_meet_and_a_chosen_one_goes_on_alone() -> None:
    X = draws(b=4)
    together = every(estimated(X))
    for i in range(4):
        np.testing.assert_allclose(every(estimated(X[i : i + 1]))[0], together[i], atol=1e-14)
    estimate = estimated(X[:, :150], horizon=230)
    estimate.select(torch.tensor([2, 0]))
    for part in X[[2, 0], 150:].split(CHUNK, dim=1):
        estimate.add(part)
    np.testing.assert_allclose(every(estimate), together[[2, 0]], atol=1e-14)


def test_memory_is_one_number_a_draw_and_sample_from_the_start_and_does_not_grow() -> None:
    b, d = 2, 500

    def held(estimate: Estimate) -> int:
        parts = [part for value in vars(estimate).values() for part in (value if isinstance(value, list) else [value])]
        return sum(part.untyped_storage().nbytes() for part in parts if isinstance(part, Tensor))

    X = draws(b=b, N=CHUNK, d=d)
    sizes = {}
    for horizon in (1000, 2000):
        estimate = Estimate(Unit(), X.new_ones(b), (horizon,), fixed_direction=False, like=X.new_zeros(b, d))
        seen = []
        for _ in range(30):
            estimate.add(X)
            seen.append((held(estimate), {id(part) for part in vars(estimate).values() if isinstance(part, list)}))
        assert len({size for size, _ in seen}) == 1
        assert all(not lists for _, lists in seen)
        sizes[horizon] = seen[-1][0]
    assert sizes[2000] - sizes[1000] == 8 * b * 1000


def test_draws_that_are_not_finite_count_as_zero() -> None:
    X = draws(b=1)
    spoilt, zero = X.clone(), X.clone()
    for place, value in ((3, math.nan), (77, math.inf), (200, -math.inf)):
        spoilt[0, place, 2] = value
        zero[0, place] = 0
    assert (every(estimated(spoilt)) == every(estimated(zero))).all()
    assert estimated(spoilt).mean.equal(estimated(zero).mean)


@pytest.mark.parametrize("name", NAMES)
def test_an_attribution_that_is_zero_everywhere_has_no_length(name: str) -> None:
    (one,) = estimated(torch.zeros(1, 200, 5, dtype=torch.float64)).projections()
    assert lower_length(CONFIDENCES.make(name), one, 0.05, torch.float64) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rounding_lengthens_no_projection_by_more_than_is_taken_off(dtype: torch.dtype) -> None:
    """Constant vectors of many entries: |h| is 1, and so may no projection exceed it."""
    d = 150_528
    g = torch.rand(1, 1, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    estimate = Estimate(Unit(), torch.ones(1, dtype=dtype), (60,), fixed_direction=False, like=g[:, 0])
    for _ in range(3):
        estimate.add(g.expand(1, 20, d))
    (one,) = estimate.projections()
    raw = torch.einsum("bmn,bn->bm", slow.bounded(Unit(), g, torch.ones(1, dtype=dtype)), estimate.direction)
    assert abs(float(raw) - 1) <= PROJECTION_ROUNDING[torch.float64]
    assert one.later.max() <= 1
    assert lower_length(lambda *_: 1.0, one, 0.05, dtype) <= 1 - 0.9 * PROJECTION_ROUNDING[dtype]


def test_a_constant_map_in_single_precision_is_not_certified_longer_than_it_is() -> None:
    """Clipped at 1 but shorter, many entries and many draws: nothing but rounding can be wrong."""
    d = 196_608
    g = torch.randn(1, 1, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = (0.72 * g / g.norm()).float()
    true = math.hypot(*g.flatten().tolist())
    estimate = Estimate(ClipAt(1.0), torch.ones(1), (20_000,), fixed_direction=False, like=g[:, 0])
    for _ in range(5):
        estimate.add(g.expand(1, CHUNK, d))
    (one,) = estimate.projections()
    np.testing.assert_allclose(one.pilot, true, rtol=1e-12)
    many = seen(np.full(1_000_000, one.pilot.max()), np.full(100, one.pilot.max()))
    assert 0.999 * true < lower_length(Betting(), many, 0.05, torch.float32) <= true


@pytest.mark.parametrize("scale", [1e-16, 1e-30, 1e-200, 1e100])
def test_the_scale_of_an_attribution_does_not_change_what_is_certified_of_it(scale: float) -> None:
    def ratio(factor: float) -> float:
        X = factor * draws(b=1)
        estimate = Estimate(ClipAt(factor), X.new_full((1,), factor), (230,), fixed_direction=False, like=X[:, 0])
        for part in X.split(CHUNK, dim=1):
            estimate.add(part)
        (one,) = estimate.projections()
        assert float(estimate.direction.norm()) == pytest.approx(1, rel=1e-12)
        return lower_length(Betting(), one, 0.05, torch.float64) / factor

    assert ratio(scale) == pytest.approx(ratio(1.0), rel=1e-9)
    assert ratio(1.0) > 0.1


def test_what_the_draws_will_certify_is_seldom_taken_for_out_of_reach() -> None:
    """Samples of which a tenth or so is drawn; those whose bound after all draws is the better half are hoped for."""
    X = torch.from_numpy(isotropic(0.6, 8)(np.random.default_rng(17), 300, 600))
    bound = unchecked(confidence).Betting()
    final = np.array([bound(one, FAILURE) for one in estimated(X).projections()])
    early = [one.continued(600 - one.total) for one in estimated(X[:, :100], horizon=600).projections()]
    assert {len(one.later) for one in early} == {525}
    wanted = final >= np.median(final)
    dropped = np.array([bound(one, FAILURE) < np.median(final) for one in early]) & wanted
    assert dropped.sum() <= 0.03 * wanted.sum()
    assert all(one.later.max() <= one.M for one in early)
    # and what is far below is not hoped for
    assert all(bound(one, FAILURE) < 0.85 for one in early)


def test_without_projections_as_much_is_hoped_for_as_there_can_be() -> None:
    (one,) = (Projections(NONE, NONE, 0.2, 3.0, np.full(10, 10.0), 20).continued(10),)
    assert one.later.tolist() == [3.0] * 10


def test_the_pilot_is_a_tenth_and_two_at_least() -> None:
    assert [pilot_size(n) for n in (1, 10, 20, 21, 1000, 1001)] == [2, 2, 2, 3, 100, 101]
