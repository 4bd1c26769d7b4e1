"""What a deviation says about top-k, correlation and mass centre, against all sets, random changes and changes made to beat it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import deviations
from reference import metrics as slow
from reference.typechecking import unchecked

from attrcert.geometry import top_k
from attrcert.geometry.correlation import least_correlation
from attrcert.geometry.mass_centre import Masses

plain = unchecked(top_k)
swap_lengths, share_kept, length_keeping = plain.swap_lengths, plain.share_kept, plain.length_keeping
GOLDEN = json.loads((Path(__file__).parent / "golden_moments.json").read_text())
# lengths and displacements are rounded towards the weaker claim by 1e-9
OUTWARDS = 4e-9


def one(g: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(g, dtype=np.float64))[None]


def kept(g: np.ndarray, k: int, T: float) -> float:
    return share_kept(swap_lengths(one(g), k), torch.tensor([T], dtype=torch.float64), k).item()


def keeping(g: np.ndarray, k: int, share: float) -> float:
    return length_keeping(swap_lengths(one(g), k), share, k).item()


# Top-k


@pytest.mark.parametrize("case", GOLDEN["top_k_swaps"], ids=lambda case: f"k={case['k']}, T={case['T']}")
def test_the_number_of_swaps_is_the_golden_one(case: dict) -> None:
    """Golden swaps are by value: with a large number added to all, |value| has the same order."""
    g = np.array(case["values"]) + 10
    assert kept(g, case["k"], case["T"]) == pytest.approx(1 - case["swaps"] / case["k"], abs=1e-12)


MAPS = {
    "normal": np.random.default_rng(0).standard_normal(7),
    "exponential": np.random.default_rng(1).exponential(size=8) ** 3,
    "with zeros": np.array([0.5, 0.0, -2.0, 0.0, 0.0, 0.3, -0.1]),
    "ties": np.array([1.0, -1.0, 1.0, 0.5, 0.5, -0.5, 2.0]),
    "near ties": 1 + 1e-12 * np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0]),
    "near ties far from zero": 1e6 + 1e-3 * np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0]),
    "small": 1e-30 * np.random.default_rng(2).standard_normal(7),
    "large": 1e30 * np.random.default_rng(3).standard_normal(7),
    "powers": 10.0 ** -np.arange(8),
}
by_map = pytest.mark.parametrize("g", MAPS.values(), ids=MAPS)


@by_map
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_the_swap_lengths_are_the_shortest_over_all_sets(g: np.ndarray, k: int) -> None:
    lengths = swap_lengths(one(g), k)[0].numpy()
    expected = [deviations.shortest_swap(g, k, m)[0] for m in range(1, min(k, len(g) - k) + 1)]
    assert len(lengths) == len(expected)
    # differences of values that are themselves rounded
    grain = 4 * np.spacing(np.abs(g).max())
    assert (lengths <= np.array(expected) + grain).all()
    assert (lengths >= np.array(expected) * (1 - OUTWARDS) - grain).all()


@by_map
@pytest.mark.parametrize("k", [1, 3, 4])
def test_a_change_a_little_longer_than_the_cost_pushes_the_entries_out(g: np.ndarray, k: int) -> None:
    lengths = swap_lengths(one(g), k)[0].numpy()
    for m in range(1, len(lengths) + 1):
        least, moved = deviations.shortest_swap(g, k, m)
        beyond = g + (1 + 1e-6) * (moved - g)
        grain = 4 * np.spacing(np.abs(g).max())
        if 1e-6 * least <= 10 * grain:
            continue  # a millionth beyond the common level is lost in rounding
        length = float(np.linalg.norm(beyond - g))
        assert lengths[m - 1] <= length <= lengths[m - 1] * (1 + 2e-6) + grain
        assert kept(g, k, length) <= slow.top_k(beyond, g, k) + 1e-12
        if len(set(np.abs(g))) == len(g):
            assert slow.top_k(beyond, g, k) <= 1 - m / k + 1e-12


@pytest.mark.parametrize("k", [1, 5, 10, 20, 39])
def test_no_change_pushes_more_entries_out_than_is_claimed(k: int) -> None:
    rng, many = np.random.default_rng(k), 60
    nearest = 1.0
    for spread in (0.05, 0.3, 1.0, 3.0):
        g = rng.standard_normal(40) * rng.exponential(size=40)
        T = spread * rng.uniform(0.1, 1, many)
        claimed = share_kept(swap_lengths(one(g), k).expand(many, -1), torch.from_numpy(T * (1 + 1e-12)), k)
        for i in range(many):
            change = rng.standard_normal(40) if i % 3 == 0 else against_the_largest(g, k, spread, rng)
            share = slow.top_k(g + T[i] * change / np.linalg.norm(change), g, k)
            assert share >= claimed[i].item() - 1e-12
            nearest = min(nearest, share - claimed[i].item())
    assert nearest <= 1 / k  # within one entry, somewhere


def against_the_largest(g: np.ndarray, k: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    """The k largest down and the others up, most of all near the border."""
    border = np.sort(np.abs(g))[-k]
    near = np.exp(-np.abs(np.abs(g) - border) / (spread * rng.exponential()))
    return np.where(np.abs(g) >= border, -1, 1) * np.sign(g) * (near + 1e-9) * rng.uniform(0.5, 1, len(g))


@by_map
@pytest.mark.parametrize("k", [1, 3, 5])
def test_the_length_that_keeps_a_share_keeps_it_and_a_little_more_does_not(g: np.ndarray, k: int) -> None:
    for share in (1.0, 0.9, 0.8, 2 / 3, 0.6, 0.5, 0.4, 1 / 3, 0.2):
        T = keeping(g, k, share)
        if math.inf == T:
            assert kept(g, k, 1e300) >= share - 1e-9
            continue
        assert kept(g, k, T * (1 + 1e-8)) < share
        assert T == 0 or kept(g, k, T * (1 - 1e-8)) >= share - 1e-9


def test_shares_that_are_no_floating_point_numbers_are_met() -> None:
    g = np.arange(1.0, 21.0)
    for k in range(1, 11):
        lengths = swap_lengths(one(g), k)[0].tolist()
        for m in range(k):
            assert keeping(g, k, 1 - m / k) == pytest.approx(lengths[m], rel=1e-8)
            assert keeping(g, k, (k - m) / k) == pytest.approx(lengths[m], rel=1e-8)


def test_all_entries_are_kept_where_there_are_no_others() -> None:
    g = np.array([3.0, -1.0, 2.0])
    for k in (3, 4, 100):
        assert swap_lengths(one(g), k).shape == (1, 0)
        assert kept(g, k, 1e9) == 1
        assert keeping(g, k, 1.0) == math.inf


def test_no_more_entries_leave_than_there_are_others() -> None:
    g = np.random.default_rng(4).standard_normal(10)
    assert kept(g, 8, 1e9) == pytest.approx(6 / 8)
    assert kept(g, 5, 1e9) == 0
    assert keeping(g, 8, 6 / 8) == math.inf


def test_nothing_is_claimed_of_a_map_of_zeros_or_of_equal_entries() -> None:
    for g in (np.zeros(9), np.full(9, -0.3)):
        assert swap_lengths(one(g), 4).tolist() == [[0.0] * 4]
        assert kept(g, 4, 1e-300) == 0
        assert keeping(g, 4, 0.5) == 0


def test_the_swap_lengths_of_a_batch_are_those_of_its_maps_and_rise() -> None:
    g = torch.randn(5, 60, generator=torch.Generator().manual_seed(0))
    together = swap_lengths(g, 25)
    assert together.shape == (5, 25)
    assert (together.diff(dim=1) >= 0).all()
    for i in range(5):
        assert swap_lengths(g[i : i + 1], 25)[0].equal(together[i])
    np.testing.assert_allclose(swap_lengths(-g, 25), together)
    np.testing.assert_allclose(swap_lengths(4 * g, 25), 4 * together, rtol=1e-9)
    T = torch.linspace(0.1, 3, 5, dtype=torch.float64)
    assert share_kept(together, T, 25).tolist() == [kept(g[i].numpy(), 25, T[i].item()) for i in range(5)]


def test_a_gap_far_smaller_than_the_largest_entry_is_not_taken_for_larger() -> None:
    g = np.array([1.0, 3e-20, 2e-20, 0.0])
    assert swap_lengths(one(g), 2)[0, 0] <= deviations.shortest_swap(g, 2, 1)[0]


# Pearson's correlation


@pytest.mark.parametrize("share", [1e-6, 0.1, 0.5, 0.9, 0.999])
def test_no_change_leaves_less_correlation_than_is_claimed_and_one_leaves_that(share: float) -> None:
    rng = np.random.default_rng(0)
    g = rng.standard_normal(30) + 3
    centred = g - g.mean()
    length = float(np.linalg.norm(centred))
    T, unit = share * length, centred / length
    bound = least_correlation(T, length)
    for _ in range(300):
        change = rng.standard_normal(30) - rng.uniform(0, 3) * unit + rng.normal() * np.ones(30)
        moved = g + T * change / np.linalg.norm(change)
        assert np.corrcoef(g, moved)[0, 1] >= bound - 1e-12
    side = rng.standard_normal(30)
    side -= side.mean()
    side -= (side @ unit) * unit
    worst = g + T * (-share * unit + math.sqrt(1 - share**2) * side / np.linalg.norm(side))
    assert np.corrcoef(g, worst)[0, 1] == pytest.approx(bound, rel=1e-9)


def test_a_deviation_as_long_as_the_centred_map_leaves_no_correlation() -> None:
    assert least_correlation(1.0, 1.0) is None
    assert least_correlation(2.0, 1.0) is None
    assert least_correlation(0.0, 0.0) is None
    assert least_correlation(math.inf, 1.0) is None
    assert 1 - 1e-11 < least_correlation(0.0, 1.0) <= 1
    assert 0 <= least_correlation(math.nextafter(1.0, 0), 1.0) < 1e-7


# Mass centre

SHAPES = [(1, 5, 4), (2, 3, 6), (3, 4, 4), (1, 1, 9)]
by_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def places(shape: tuple[int, ...]) -> np.ndarray:
    channels, height, width = shape
    return np.array([(row, column) for _ in range(channels) for row in range(height) for column in range(width)], float)


def displacement(g: np.ndarray, shape: tuple[int, ...], T: float) -> float:
    return Masses(one(g), shape).displacement(torch.tensor([T], dtype=torch.float64)).item()


@by_shape
def test_no_change_moves_the_mass_centre_farther_than_is_claimed(shape: tuple[int, ...]) -> None:
    rng, n = np.random.default_rng(sum(shape)), math.prod(shape)
    for spread in (1e-3, 0.05, 0.2, 0.6, 2.0):
        g = rng.standard_normal(n) * rng.exponential(size=n)
        T = spread * float(np.abs(g).sum()) / math.sqrt(n)
        bound = displacement(g, shape, T)
        for _ in range(100):
            change = rng.standard_normal(n) * rng.exponential(size=n) ** rng.integers(0, 4)
            assert slow.mass_centre(g + T * change / np.linalg.norm(change), g, shape) <= bound


@by_shape
def test_changes_that_climb_come_close_to_the_claimed_displacement_and_not_beyond(shape: tuple[int, ...]) -> None:
    rng, n, ratios = np.random.default_rng(sum(shape)), math.prod(shape), []
    for spread in (1e-3, 0.05, 0.2, 0.6, 0.95, 2.0):
        for power in (0, 1, 3):
            g = rng.choice([-1, 1], n) * rng.exponential(size=n) ** power
            T = spread * float(np.abs(g).sum()) / math.sqrt(n)
            moved = deviations.farthest_centre(g, places(shape), T)
            assert np.linalg.norm(moved - g) <= T * (1 + 1e-12)
            reached = slow.mass_centre(moved, g, shape)
            bound = displacement(g, shape, T)
            assert reached <= bound
            ratios.append(reached / bound)
    assert max(ratios) > 0.99
    assert np.median(ratios) > 0.5


@by_shape
def test_the_displacement_of_a_mass_that_lies_to_one_side_is_attained_while_no_entry_vanishes(
    shape: tuple[int, ...],
) -> None:
    p = places(shape)
    g = 1 + 6 * (p[:, 1] / p[:, 1].max()) ** 3
    for T in (0.01, 0.4, 1.0):
        moved = deviations.farthest_centre(g, p, T, directions=64)
        assert (moved > 0).all()
        assert 0.995 <= slow.mass_centre(moved, g, shape) / displacement(g, shape, T) <= 1


@by_shape
def test_without_a_deviation_the_mass_centre_stays(shape: tuple[int, ...]) -> None:
    g = np.random.default_rng(0).standard_normal(math.prod(shape))
    assert displacement(g, shape, 0.0) == 0


@by_shape
def test_a_mass_centre_stays_among_the_pixels_whatever_the_deviation(shape: tuple[int, ...]) -> None:
    g = np.random.default_rng(1).standard_normal(math.prod(shape))
    p = places(shape)
    farthest = np.linalg.norm(p - deviations.centre(np.abs(g), p), axis=1).max()
    for T in (1e3, 1e200, math.inf):
        assert farthest <= displacement(g, shape, T) <= farthest * 1.002  # a polygon of 64 directions
    assert displacement(g, shape, 0.1) < farthest


@by_shape
def test_the_displacement_rises_with_the_deviation_and_does_not_depend_on_the_scale(shape: tuple[int, ...]) -> None:
    g = np.random.default_rng(2).standard_normal(math.prod(shape))
    bounds = [displacement(g, shape, T) for T in np.geomspace(1e-6, 10, 60)]
    assert bounds == sorted(bounds)
    for scale in (1e-60, 1e-9, 1e60):
        assert displacement(scale * g, shape, scale * 0.3) == pytest.approx(displacement(g, shape, 0.3), rel=1e-9)


def test_displacements_of_a_batch_are_those_of_its_maps_and_a_map_of_zeros_has_none() -> None:
    g = torch.randn(4, 48, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g[2] = 0
    T = torch.tensor([0.1, 1.0, 0.1, 50.0], dtype=torch.float64)
    together = Masses(g, (3, 4, 4)).displacement(T)
    for i in (0, 1, 3):
        assert together[i].item() == pytest.approx(displacement(g[i].numpy(), (3, 4, 4), T[i].item()), rel=1e-12)
    assert together[2].isnan()
