"""What is read off the draws: shares of the failure, fixed looks, and how often the bounds fail over all of them."""

import numpy as np
import pytest
import torch
from numpy import ndarray
from reference.program import attrcert

from attrcert.errors import UsageError
from attrcert.running.evaluating.evidence import LENGTH, MEAN, SOLVER, Reading
from attrcert.settings.smoothing import AUTO, CHUNK, MOST, Smoothing
from attrcert.statistics.variance import largest_variance, mean_error

SEEDS, DRAWS = 5000, 400
PLANS = {"fixed": {"samples": 400}, "stopping": {"samples": 400, "stop_when": "certified"}, "auto": {"samples": AUTO}}


def reading(q: float, **plan: object) -> Reading:
    return Reading(Smoothing(**plan), q, 0, torch.float64)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_what_is_claimed_at_all_looks_shares_one_failure(plan: dict) -> None:
    read = reading(0.01, **plan)
    variance = sum(read._variance_share(look) for look in range(len(read.smoothing.looks)))
    assert read._length_share + variance + (MEAN + SOLVER) * 0.01 == pytest.approx(0.01, rel=1e-12)
    assert read._length_share == LENGTH * 0.01


def test_looks_are_fixed_rise_and_end_with_the_most() -> None:
    assert Smoothing(samples=730).looks == (730,)
    assert Smoothing(samples=AUTO).looks == (500, 1000, 2000, 4000, 8000, MOST)
    for most in (50, 120, 200, 201, 1000, 3333):
        looks = Smoothing(samples=most, stop_when="certified").looks
        assert looks[-1] == most
        assert list(looks) == sorted(set(looks))
        assert all(look % CHUNK == 0 for look in looks[:-1])


def in_a_ball(rng: np.random.Generator) -> ndarray:
    """Normal vectors of unlike directions, shortened to length 1."""
    X = rng.standard_normal((SEEDS, DRAWS, 3)) * (0.4, 0.2, 0.1)
    return X / np.maximum(1, np.linalg.norm(X, axis=2, keepdims=True))


def skewed(rng: np.random.Generator) -> ndarray:
    X = np.zeros((SEEDS, DRAWS, 3))
    X[:, :, 0] = np.where(rng.random((SEEDS, DRAWS)) < 0.1, 0.9, -0.1)  # whose mean is 0
    X[:, :, 1] = 0.1 * rng.choice((-1.0, 1.0), (SEEDS, DRAWS))
    return X


def rarely_far(rng: np.random.Generator) -> ndarray:
    """A share of values so rare that many seeds see none for long."""
    X = np.zeros((SEEDS, DRAWS, 3))
    X[:, :, 0] = rng.random((SEEDS, DRAWS)) < 0.004
    X[:, :, 1] = 0.02 * rng.choice((-1.0, 1.0), (SEEDS, DRAWS))
    return X


def known_variance(law: object) -> float:
    """By many more draws, or by hand where the draws are rare."""
    if law is rarely_far:
        return 0.004 * 0.996
    X = np.concatenate([law(np.random.default_rng(seed)).reshape(-1, 3) for seed in (7, 8)])
    return float(np.linalg.eigvalsh(np.cov(X.T))[-1])


@pytest.mark.parametrize("q", [0.05, 0.2])
@pytest.mark.parametrize("law", [in_a_ball, skewed, rarely_far])
def test_the_variance_exceeds_its_bound_at_any_look_no_more_often_than_is_stated(law: object, q: float) -> None:
    read = reading(q, **PLANS["stopping"])
    X = law(np.random.default_rng(1))
    centre = X[:, :1] * 0  # any fixed one is valid, and one at the mean has nothing to hide behind
    R = (1 + np.linalg.norm(centre, axis=2)[:, 0]) ** 2
    rest = X[:, CHUNK:] - centre
    true, failed, plugged = known_variance(law), np.zeros(SEEDS, dtype=bool), np.zeros(SEEDS, dtype=bool)
    share = sum(read._variance_share(look) for look in range(len(read.smoothing.looks)))
    for look, draws in enumerate(read.smoothing.looks):
        n = draws - CHUNK
        tops = np.linalg.eigvalsh(rest[:, :n].transpose(0, 2, 1) @ rest[:, :n] / n)[:, -1]
        bounds = [largest_variance(top, r, n, read._variance_share(look)) for top, r in zip(tops, R, strict=True)]
        failed |= np.array(bounds) < true
        plugged |= tops < true
    assert failed.mean() <= share
    assert plugged.mean() > 0.3  # an estimate in place of the bound would be found out


def test_the_mean_is_no_farther_off_than_is_stated() -> None:
    X = in_a_ball(np.random.default_rng(2))[:2000, :300]
    h, variance = np.zeros(3), known_variance(in_a_ball)
    total = float((X.reshape(-1, 3) ** 2).sum(axis=1).mean())
    off = np.linalg.norm(X.mean(axis=1) - h, axis=1)
    allowed = mean_error(variance, total, 2.0, 300, 0.05)
    assert (off > allowed).mean() <= 0.05
    assert allowed < 0.2


def test_a_sample_stops_at_one_of_the_looks_and_more_draws_reach_farther() -> None:
    words = ("max-eps", "--limit", 2, "--smooth", "gaussian", "--sigma", 0.1, "--min-cosine", 0.9, "--format", "csv")
    many, few = attrcert(*words, "--samples", AUTO).rows, attrcert(*words, "--samples", 500).rows
    assert {int(row["samples"]) for row in many} <= set(Smoothing(samples=AUTO).looks)
    assert all(float(a["eps_max"]) > 1.02 * float(b["eps_max"]) for a, b in zip(many, few, strict=True))


def test_what_stops_early_is_certified_or_out_of_reach() -> None:
    words = ("bound", "--limit", 3, "--smooth", "gaussian", "--sigma", 0.1, "--min-cosine", 0.9, "--format", "csv")
    plan = ("--samples", 4000, "--stop-when", "certified")
    for eps, status in ((0.02, "ok"), (0.5, "abstained")):
        rows = attrcert(*words, *plan, "--eps", eps).rows
        assert {row["status"] for row in rows} == {status}
        assert all(int(row["samples"]) < 4000 for row in rows)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"samples": "many"}, "--samples must be a whole number or auto, got 'many'"),
        ({"samples": 10}, "--samples must be at least 50"),
        ({"samples": AUTO, "confidence": "mcdiarmid"}, "--samples auto goes with --confidence betting alone"),
        ({"samples": AUTO, "rule": "published"}, "--samples auto needs a rule that certifies"),
    ],
)
def test_numbers_of_draws_that_mean_nothing_are_refused(given: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Smoothing(**given)
