"""Centre smoothing: its ranks against exact arithmetic, its claim against simulated fields, and the rows that it gives."""

from fractions import Fraction
from math import ceil, comb, degrees, log, pi, sqrt
from statistics import NormalDist

import pytest
import torch
from reference.program import attrcert
from torch import nn

from attrcert import bound
from attrcert.bounds.smoothed.centre import FACTOR, ROUNDING, Shares, angles, chosen, largest_angle
from attrcert.errors import UsageError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
LAW = NormalDist()


def slow_rank(shares: Shares, shift: float) -> int | None:
    """By the definition, in fractions."""
    k, n, m, q = shares.candidates, shares.choosing, shares.measuring, shares.q
    half = 0.5 + sqrt(log(2 * (k + 1) / (q / 2)) / (2 * n))
    if half >= 1:
        return None
    p = Fraction(LAW.cdf(LAW.inv_cdf(half) + shift))
    tail = Fraction(0)
    for j in range(m, -1, -1):  # P(Binomial >= j)
        tail += comb(m, j) * p**j * (1 - p) ** (m - j)
        if tail > Fraction(q) / 2:
            return j + 1 if j < m else None
    return 0


@pytest.mark.parametrize(("draws", "q"), [(400, 1e-3), (150, 0.2), (100, 0.05), (60, 0.5)])
@pytest.mark.parametrize("shift", [1e-6, 0.3, 1.0, 3.0])
def test_the_rank_is_that_of_exact_arithmetic(draws, q, shift):
    shares = Shares.of(draws, q)
    assert shares.candidates + shares.choosing + shares.measuring == draws
    assert 2.0**-shares.candidates <= q / 4
    assert shares.rank(shift) == slow_rank(shares, shift)


def test_too_few_draws_certify_nothing():
    assert Shares.of(50, 1e-30).rank(0.1) is None
    assert Shares.of(2000, 1e-3).rank(20.0) is None


def test_distances_are_angles_and_no_map_is_as_far_as_can_be():
    maps = torch.tensor([[[1.0, 0.0], [0.0, 3.0], [-1e-20, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    expected = torch.tensor([[0, pi / 2, pi, pi], [pi / 2, 0, pi / 2, pi], [pi, pi / 2, 0, pi], [pi, pi, pi, 0]])
    assert torch.allclose(angles(maps, maps)[0], expected.double(), atol=1e-12)


def test_the_centre_is_the_candidate_with_the_least_median():
    distances = torch.rand(4, 7, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for i, of_sample in enumerate(distances.tolist()):
        medians = [sorted(one)[ceil(len(one) / 2) - 1] for one in of_sample]
        assert chosen(distances)[i] == medians.index(min(medians))


def turning(points: torch.Tensor) -> torch.Tensor:
    """Maps in the plane that turn with the first coordinate, and jump."""
    angle = 0.7 * points[..., 0] + 0.9 * (points[..., 0] > 0.4) + 0.4 * torch.tanh(3 * points[..., 1])
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def shifted(points: torch.Tensor) -> torch.Tensor:
    """One direction left of a border, many right of it."""
    spread = torch.where(points[..., 0] > 0, 40 * points[..., 1], 0.0)
    return torch.stack([spread.cos(), spread.sin()], dim=-1)


def smoothed(field, x: torch.Tensor, shares: Shares, sigma: float, rng: torch.Generator) -> tuple:
    """Centres of independent runs at x, b x 2, and the distances to fresh draws."""
    parts = [
        field(x[:, None] + sigma * torch.randn(len(x), m, 2, generator=rng, dtype=torch.float64))
        for m in (shares.candidates, shares.choosing, shares.measuring)
    ]
    centres = parts[0][torch.arange(len(x)), chosen(angles(parts[1], parts[0]))]
    return centres, angles(parts[2], centres[:, None])[:, 0]


@pytest.mark.parametrize("field", [turning, shifted])
def test_no_centre_within_eps_is_farther_than_what_is_certified(field):
    shares, rng, runs, said = Shares.of(300, 0.2), torch.Generator().manual_seed(1), 80, []
    for sigma, eps in ((0.2, 0.05), (0.2, 0.2), (0.5, 0.3)):
        for place in (-0.6, -0.2, 0.0, 0.3):
            x = torch.tensor([place, 0.1], dtype=torch.float64).expand(runs, 2)
            centres, distances = smoothed(field, x, shares, sigma, rng)
            limits = [largest_angle(one, shares, eps / sigma) for one in distances]
            for way in torch.tensor([[1, 0], [-1, 0], [0, 1]], dtype=torch.float64):
                others, _ = smoothed(field, x + eps * way, shares, sigma, rng)
                moved = angles(others[:, None], centres[:, None])[:, 0, 0].tolist()
                wrong = sum(limit is not None and limit < one for limit, one in zip(limits, moved, strict=True))
                assert wrong <= 0.2 * runs
            said += [limit for limit in limits if limit is not None]
    assert len(said) > runs  # something is claimed


def test_three_radii_are_needed():
    """Near x nearly all maps point forwards; at x + delta they are at both edges of that ball, or beyond one of them."""
    shares, rng, sigma, eps, radius = Shares(30, 400, 12000, 0.2), torch.Generator().manual_seed(3), 1.0, 3.3, 0.2
    edge, far = 0.55, 4.0

    def field(points: torch.Tensor) -> torch.Tensor:
        sides = torch.where(points[..., 1] > 0, radius, -radius)
        angle = torch.where(points[..., 0] < edge, 0.0, torch.where(points[..., 0] < far, sides, 2.99 * radius))
        return torch.stack([angle.cos(), angle.sin()], dim=-1)

    x = torch.zeros(10, 2, dtype=torch.float64)
    centres, distances = smoothed(field, x, shares, sigma, rng)
    assert torch.equal(centres, torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(10, 2))
    limits = [largest_angle(one, shares, eps / sigma) for one in distances]
    assert sum(limit == pytest.approx(3 * radius, abs=1e-5) for limit in limits) >= 4
    there = torch.tensor([eps, 0.0], dtype=torch.float64).expand(40, 2)
    others, _ = smoothed(field, there, Shares(30, 400, 1, 0.2), sigma, rng)
    moved = angles(others[:, None], centres[:1].expand(40, 2)[:, None])[:, 0, 0]
    assert moved.max() <= min(limit for limit in limits if limit is not None)
    assert (moved > 2.9 * radius).double().mean() > 0.2


def test_the_shift_by_eps_is_taken_into_account():
    """Maps are alike left of a border, whose mass at x + delta is just half: at x the radius 0 is then rarely claimed, and is with more."""
    shares, rng, sigma, eps = Shares.of(2000, 0.1), torch.Generator().manual_seed(2), 1.0, 0.5

    def claimed(mass: float) -> float:
        """How often, where the mass at x + delta is so much."""
        at_x = LAW.cdf(LAW.inv_cdf(mass) + eps / sigma)
        far = (torch.rand(400, shares.measuring, generator=rng, dtype=torch.float64) > at_x).double()
        angles_found = [largest_angle(one, shares, eps / sigma) for one in far]
        return sum(one is not None and one < 1e-6 for one in angles_found) / len(angles_found)

    assert claimed(0.5 + shares.slack) <= 0.05 + 0.04  # a2 = 0.05, and four standard errors
    assert claimed(0.5 + shares.slack - 0.02) <= 0.03
    assert claimed(0.5 + shares.slack + 0.08) > 0.9


def affine() -> nn.Module:
    layer = nn.Linear(9, 3)
    layer.weight.data = torch.arange(27.0).sin().view(3, 9)
    return nn.Sequential(nn.Flatten(), layer).double()


def test_maps_that_noise_does_not_move_keep_their_direction(images):
    rows = bound(
        affine(), images(2, 1, 3, 3), smooth="centre", sigma=[0.1, 0.5], eps=[0.1, 0.2], samples=400, dtype="float64"
    )
    assert [(row["radius"], row["eps"]) for row in rows[:4]] == [(0.1, 0.1), (0.1, 0.2), (0.5, 0.1), (0.5, 0.2)]
    for row in rows:
        told = (row["guarantee"], row["noise"], row["confidence"], row["samples"], row["failure"])
        assert told == ("confidence", "centre", "binomial", 400, 1e-3)
        if row["radius"] == 0.5 or row["eps"] == 0.1:
            assert row["status"] == "ok"
            assert 1 - 1e-6 < row["cosine"] < 1
            assert degrees(FACTOR * ROUNDING) <= row["angle_deg"] <= degrees(2 * FACTOR * ROUNDING)
    assert rows.manifest["identity"]["smooth"] == "centre"


def test_a_row_is_what_the_procedure_gives_of_the_networks_maps(smooth_cnn, images):
    network, x = smooth_cnn(beta=20.0), images(2, 1, 5, 5)
    given = {"sigma": 0.05, "eps": [0.005, 0.03], "samples": 1200, "dtype": "float64", "seed": 4}
    rows = bound(network, x, smooth="centre", **given)
    for row in rows:  # the angle is about three times a quantile of the distances, by draws of our own
        noise = torch.randn(1000, *x.shape[1:], generator=torch.Generator().manual_seed(9), dtype=torch.float64)
        noisy = (x[row["index"]] + 0.05 * noise).requires_grad_()
        (maps,) = torch.autograd.grad(network(noisy)[:, row["target"]].sum(), noisy)
        unit = torch.nn.functional.normalize(maps.flatten(1), dim=1)
        between = (unit @ unit.T).clamp(-1, 1).arccos()
        of_centre = between[between.median(dim=1).values.argmin()]
        shares = Shares.of(1200, 1e-3)
        share = slow_rank(shares, row["eps"] / 0.05) / shares.measuring
        assert row["angle_deg"] == pytest.approx(degrees(3 * float(of_centre.quantile(share))), rel=0.15)
    means = bound(network, x, smooth="gaussian", **given)
    for own, mean in zip(rows, means, strict=True):  # the same cases, beside each other
        assert (own["index"], own["radius"], own["eps"]) == (mean["index"], mean["radius"], mean["eps"])
    wide = bound(network, x, smooth="centre", **{**given, "sigma": 2.0})
    for row in wide:
        assert row["status"] == "vacuous"
        assert row["cosine"] is None or row["cosine"] <= 0
    text = " ".join(wide.summary().split())
    assert "as 1 - cosine is not bounded below 1" in text
    assert "Vacuous: 1 - cosine is not bounded below 1 on 4 of 4 rows." in text
    assert "centre of half of the unit maps" in text
    met = bound(network, x, smooth="centre", min_cosine=0.999, **given)
    assert {row["status"] for row in met} == {"abstained"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("max-eps", "--min-cosine", 0.9), "--smooth centre is for bound, got max-eps"),
        (("attack",), "--smooth centre is for bound, got attack"),
        (("bound", "--rule", "tight"), "--rule has no effect here: it is for averages over noise"),
        (("bound", "--bounded", "clip:0.1"), "--bounded has no effect here: it is for averages over noise"),
        (("bound", "--samples", "auto"), "--smooth centre needs a number of --samples, got auto"),
        (("bound", "--radius", 1), "gaussian noise takes --sigma, not --radius"),
    ],
)
def test_what_means_nothing_with_a_centre_is_refused(words, said):
    done = attrcert(words[0], "--limit", 1, "--smooth", "centre", *words[1:])
    assert done.code == 2
    assert said in done.said


def test_a_centre_needs_l2():
    with pytest.raises(UsageError, match="are for l2, got norm linf"):
        bound(affine(), torch.rand(1, 1, 3, 3), smooth="centre", norm="linf")
