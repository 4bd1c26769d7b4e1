"""Metrics against loops from their definitions, what must hold for any maps, and maps where nothing is defined."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from reference import metrics as slow
from torch import Tensor

from attrcert.errors import UsageError
from attrcert.metrics import METRICS
from attrcert.metrics.cosine import Degrees, cosine
from attrcert.metrics.kendall import Kendall
from attrcert.metrics.mass_centre import MassCentre, centre
from attrcert.metrics.metric import Metric
from attrcert.metrics.pearson import Pearson
from attrcert.metrics.spearman import Spearman
from attrcert.metrics.ssim import SSIM
from attrcert.metrics.top_k import TopK, TopKMass, largest, share

# a few hundred terms of order one in float64
EXACT = 1e-12
# the same operations on the same numbers, the sums perhaps in another order
ROUNDING = 1e-14
K = 20
GREY, COLOUR, VECTOR = (1, 9, 11), (3, 8, 7), (60,)
LARGE = 3 * 224 * 224

REFERENCES: dict[str, Callable[[np.ndarray, np.ndarray, tuple[int, ...]], float]] = {
    "euclidean": slow.euclidean,
    "cosine": slow.cosine,
    "degrees": slow.degrees,
    "top-k": lambda g, reference, shape: slow.top_k(g, reference, K),
    "top-k-mass": lambda g, reference, shape: slow.top_k_mass(g, reference, K),
    "kendall": slow.kendall,
    "spearman": slow.spearman,
    "pearson": slow.pearson,
    "mass-centre": slow.mass_centre,
    "ssim": slow.ssim,
}
FOR_IMAGES = {"mass-centre", "ssim"}
# the figure of two identical maps; that of top-k-mass is the mass of the map's own k largest entries
PERFECT = {name: 0.0 if name in ("euclidean", "degrees", "mass-centre") else 1.0 for name in METRICS}
SYMMETRIC = [name for name in METRICS if name != "top-k-mass"]
BLIND_TO_PLACE = [name for name in METRICS if name not in FOR_IMAGES]
BLIND_TO_SCALE = [name for name in METRICS if name != "euclidean"]
NO_ZERO_MAPS = [name for name in METRICS if name != "euclidean"]
NO_CONSTANT_MAPS = ["kendall", "spearman", "pearson"]


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def maps(shape: tuple[int, ...], b: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Maps that resemble each other, with a different likeness in each sample."""
    reference, noise = normal(seed, b, math.prod(shape)), normal(seed + 1, b, math.prod(shape))
    return reference + torch.linspace(0.3, 2, b, dtype=torch.float64)[:, None] * noise, reference


def rounded(shape: tuple[int, ...], b: int = 3) -> tuple[Tensor, Tensor]:
    """Maps of few different values: ties within a map, between maps, and at the k-th entry."""
    g, reference = maps(shape, b, seed=7)
    return g.round(), (2 * reference).round() / 2


MAPS = {"distinct": maps, "tied": rounded}


def made(name: str) -> Metric:
    return METRICS.make(name, k=K)


def figures(name: str, g: Tensor, reference: Tensor, shape: tuple[int, ...]) -> Tensor:
    found = made(name)(g, reference, shape)
    assert found is not None
    return found


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# against the definitions


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("shape", [GREY, COLOUR, VECTOR], ids=str)
@pytest.mark.parametrize("name", list(METRICS))
def test_every_figure_is_that_of_the_definition(name: str, shape: tuple[int, ...], kind: str) -> None:
    if name in FOR_IMAGES and shape == VECTOR:
        assert made(name)(*maps(shape), shape) is None
        return
    g, reference = MAPS[kind](shape)
    expected = [REFERENCES[name](a, b, shape) for a, b in zip(g.numpy(), reference.numpy(), strict=True)]
    assert np.ptp(expected) > 1e-3  # three different figures
    np.testing.assert_allclose(figures(name, g, reference, shape), expected, rtol=0, atol=EXACT)


def test_tied_maps_have_ties_that_matter() -> None:
    """The maps of the test above: entries within each map are equal, and so are the k-th and the next."""
    for g in rounded(GREY):
        assert all(len(row.unique()) < 20 for row in g)
        ordered = g.abs().sort(dim=1, descending=True).values
        assert (ordered[:, K - 1] == ordered[:, K]).all()


def test_mass_centre_applies_to_volumes_too() -> None:
    shape = (2, 3, 4, 5)
    g, reference = maps(shape)
    expected = [slow.mass_centre(a, b, shape) for a, b in zip(g.numpy(), reference.numpy(), strict=True)]
    np.testing.assert_allclose(MassCentre()(g, reference, shape), expected, atol=EXACT)


@pytest.mark.parametrize("k", [1, 2, 59, 60, 61, 10_000])
def test_k_above_the_number_of_entries_means_all_of_them(k: int) -> None:
    g, reference = maps(VECTOR)
    pairs = list(zip(g.numpy(), reference.numpy(), strict=True))
    np.testing.assert_allclose(TopK(k)(g, reference, VECTOR), [slow.top_k(a, b, k) for a, b in pairs], atol=ROUNDING)
    np.testing.assert_allclose(
        TopKMass(k)(g, reference, VECTOR), [slow.top_k_mass(a, b, k) for a, b in pairs], atol=EXACT
    )
    assert largest(reference, k).shape == (3, min(k, 60))


@pytest.mark.parametrize("k", [0, -3])
@pytest.mark.parametrize("member", [TopK, TopKMass])
def test_k_below_one_is_refused(member: type, k: int) -> None:
    with pytest.raises(UsageError, match=f"k must be at least 1, got {k}"):
        member(k)


# figures known in closed form


def test_kendall_of_a_rotated_order_is_known_at_imagenet_size() -> None:
    """Quadratic time or memory would not end here: there are 11 thousand million pairs."""
    n, m = LARGE, 30_000
    order = torch.arange(n, dtype=torch.float64)
    found = Kendall()(torch.stack([order.roll(m), -order]), torch.stack([order, order]), (3, 224, 224))
    # m entries came before the n - m others, and all of these pairs changed their order
    np.testing.assert_allclose(found, [1 - 4 * m * (n - m) / (n * (n - 1)), -1], atol=EXACT)


def test_kendall_of_blocks_of_ties_is_known_at_imagenet_size() -> None:
    n, block = LARGE, 49
    order = torch.arange(n, dtype=torch.float64)[None]
    pairs = n * (n - 1) // 2
    untied = pairs - n // block * (block * (block - 1) // 2)
    for tied in (order // block, -(order // block)):
        expected = math.copysign(math.sqrt(untied / pairs), float(tied.sum()))
        np.testing.assert_allclose(Kendall()(tied, order, (n,)), [expected], atol=EXACT)


def test_spearman_of_a_rotated_order_is_known_at_imagenet_size() -> None:
    n, m = LARGE, 30_000
    order = torch.arange(n, dtype=torch.float64)[None]
    squares = m * (n - m) ** 2 + (n - m) * m**2  # m entries moved by n - m places, n - m entries by m
    found = Spearman()(order.roll(m, dims=1), order, (n,))
    np.testing.assert_allclose(found, [1 - 6 * squares / (n * (n**2 - 1))], atol=EXACT)


@pytest.mark.parametrize("n", [2, LARGE])
@pytest.mark.parametrize("radians", [1.0, 1e-3, 1e-6, 1e-9, 1e-12])
def test_angles_are_right_however_near_to_0_or_180_degrees(radians: float, n: int) -> None:
    """An arc cosine gives 0 instead of 1e-9 radians."""
    first, second = (torch.arange(n) < n // 2).double(), (torch.arange(n) >= n // 2).double()
    reference = torch.stack([first, -first])
    g = (first + math.tan(radians) * second).expand(2, -1)
    expected = [math.degrees(radians), 180 - math.degrees(radians)]
    # 1e-16 radians and the rounding of the sums, in degrees; 180 itself has steps of 3e-14
    np.testing.assert_allclose(Degrees()(g, reference, (n,)), expected, rtol=0, atol=1e-13)


def test_mass_centre_counts_the_pixels_of_a_shift() -> None:
    reference = torch.zeros(2, 3, 12, 12, dtype=torch.float64)
    reference[:, :, 2:5, 1:6] = normal(3, 2, 3, 3, 5)
    moved = reference.roll((3, 4), dims=(2, 3))
    moved[1] *= -7  # neither the sign nor the scale of a map moves its centre
    np.testing.assert_allclose(
        MassCentre()(moved.flatten(1), reference.flatten(1), (3, 12, 12)), [5.0, 5.0], atol=EXACT
    )


def test_ssim_of_flat_pictures_with_one_bright_pixel_is_known() -> None:
    """In windows without the bright pixel the structure is the same and only the light differs."""
    x, y = torch.full((1, 8, 7), 0.5), torch.full((1, 8, 7), 0.25)
    x[0, 0, 0] = y[0, 0, 0] = 1.0
    c1, c2 = 1e-4, 9e-4
    mx, my = (48 * 0.5 + 1) / 49, (48 * 0.25 + 1) / 49
    # one entry out of 49 that is a above the others: sample variance a^2 / 49
    top = (2 * mx * my + c1) * (2 * 0.5 * 0.75 / 49 + c2) / ((mx**2 + my**2 + c1) * ((0.5**2 + 0.75**2) / 49 + c2))
    bottom = (2 * 0.5 * 0.25 + c1) / (0.5**2 + 0.25**2 + c1)
    np.testing.assert_allclose(SSIM()(x.flatten(1), y.flatten(1), (1, 8, 7)), [(top + bottom) / 2], atol=EXACT)


def test_of_equal_entries_the_lower_index_is_among_the_largest() -> None:
    reference = rows([1, -3, 2, 3, -2, 2], [0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1])
    assert largest(reference, 3).tolist() == [[1, 3, 2], [5, 0, 1], [0, 1, 2]]
    assert largest(torch.ones(1, LARGE), 1000).tolist() == [list(range(1000))]


# what holds for any maps


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("name", list(METRICS))
def test_identical_maps_give_the_perfect_figure(name: str, kind: str) -> None:
    _, reference = MAPS[kind](COLOUR)
    found = figures(name, reference, reference.clone(), COLOUR)
    if name == "top-k-mass":
        mass = reference.abs().sort(dim=1, descending=True).values
        np.testing.assert_allclose(found, mass[:, :K].sum(1) / mass.sum(1), atol=EXACT)
    else:
        np.testing.assert_allclose(found, [PERFECT[name]] * 3, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_maps_can_be_exchanged(name: str, kind: str) -> None:
    g, reference = MAPS[kind](COLOUR)
    np.testing.assert_allclose(
        figures(name, g, reference, COLOUR), figures(name, reference, g, COLOUR), atol=ROUNDING, rtol=ROUNDING
    )


def test_top_k_mass_is_of_the_moved_map_at_the_places_of_the_original() -> None:
    g, reference = rows([1, 0, 3]), rows([5, -4, 0])
    assert TopKMass(1)(g, reference, (3,)).tolist() == [0.25]
    assert TopKMass(1)(reference, g, (3,)).tolist() == [0.0]


@pytest.mark.parametrize("name", BLIND_TO_PLACE)
def test_one_permutation_of_both_maps_changes_nothing(name: str) -> None:
    g, reference = maps(COLOUR)
    order = torch.randperm(g.shape[1], generator=torch.Generator().manual_seed(1))
    np.testing.assert_allclose(
        figures(name, g[:, order], reference[:, order], COLOUR), figures(name, g, reference, COLOUR), atol=EXACT
    )


@pytest.mark.parametrize("name", list(METRICS))
def test_mirrored_images_have_the_same_figures(name: str) -> None:
    images = [g.view(3, *COLOUR) for g in maps(COLOUR)]
    plain = figures(name, *(x.flatten(1) for x in images), COLOUR)
    for axes in ((2,), (3,), (1, 2, 3)):
        found = figures(name, *(x.flip(axes).flatten(1) for x in images), COLOUR)
        np.testing.assert_allclose(found, plain, atol=EXACT)


@pytest.mark.parametrize("name", list(METRICS))
def test_a_permutation_of_one_map_alone_is_seen(name: str) -> None:
    g, reference = maps(COLOUR)
    difference = figures(name, g.flip(1), reference, COLOUR) - figures(name, g, reference, COLOUR)
    assert (difference.abs() > 1e-4).all()


@pytest.mark.parametrize("factor", [3.0, 1e-200, 1e200])
@pytest.mark.parametrize("name", BLIND_TO_SCALE)
def test_a_positive_factor_of_either_map_changes_nothing(name: str, factor: float) -> None:
    """Also one whose square is not a number of float64."""
    g, reference = maps(COLOUR)
    plain = figures(name, g, reference, COLOUR)
    np.testing.assert_allclose(figures(name, factor * g, reference, COLOUR), plain, rtol=0, atol=EXACT)
    np.testing.assert_allclose(figures(name, g, factor * reference, COLOUR), plain, rtol=0, atol=EXACT)


def test_euclidean_distance_scales_with_the_maps() -> None:
    g, reference = maps(COLOUR)
    np.testing.assert_allclose(
        figures("euclidean", 3 * g, 3 * reference, COLOUR), 3 * figures("euclidean", g, reference, COLOUR), rtol=EXACT
    )


@pytest.mark.parametrize(
    ("name", "sign"), [("cosine", -1), ("kendall", -1), ("spearman", -1), ("pearson", -1), ("top-k", 1), ("ssim", 1)]
)
def test_the_sign_of_a_map_is_part_of_correlations_and_not_of_masses(name: str, sign: int) -> None:
    g, reference = maps(COLOUR)
    plain = figures(name, g, reference, COLOUR)
    np.testing.assert_allclose(figures(name, -g, reference, COLOUR), sign * plain, atol=EXACT)


@pytest.mark.parametrize("name", ["kendall", "spearman"])
def test_rank_correlations_see_only_the_order(name: str) -> None:
    g, reference = maps(COLOUR)
    np.testing.assert_allclose(
        figures(name, g.exp(), reference**3, COLOUR), figures(name, g, reference, COLOUR), atol=EXACT
    )


def test_pearson_is_blind_to_an_offset_and_sees_more_than_the_order() -> None:
    g, reference = maps(COLOUR)
    plain = Pearson()(g, reference, COLOUR)
    np.testing.assert_allclose(Pearson()(g + 5, reference - 3, COLOUR), plain, atol=EXACT)
    assert ((Pearson()(g.exp(), reference, COLOUR) - plain).abs() > 1e-2).all()


@pytest.mark.parametrize("name", ["cosine", "pearson", "spearman"])
def test_rounding_does_not_lift_a_correlation_above_one(name: str) -> None:
    g = normal(5, 500, 7)
    for factor in (1 / 3, -1 / 3):
        assert float(figures(name, factor * g, g, (7,)).abs().max()) <= 1


# maps and shapes where nothing is defined


@pytest.mark.parametrize("name", NO_ZERO_MAPS)
def test_a_zero_map_has_no_figure_and_the_other_samples_keep_theirs(name: str) -> None:
    g, reference = maps(COLOUR)
    plain = figures(name, g, reference, COLOUR)
    for either in (g, reference):
        kept = either[1].clone()
        either[1] = 0
        found = figures(name, g, reference, COLOUR)
        either[1] = kept
        assert found.isnan().tolist() == [False, True, False]
        np.testing.assert_allclose(found[[0, 2]], plain[[0, 2]], atol=ROUNDING, rtol=ROUNDING)


@pytest.mark.parametrize("value", [1.0, 0.1, -1e9 / 7])
@pytest.mark.parametrize("name", NO_CONSTANT_MAPS)
def test_a_constant_map_has_no_correlation_even_where_its_mean_is_rounded(name: str, value: float) -> None:
    g, reference = maps(COLOUR)
    constant = torch.full_like(g, value)
    assert figures(name, constant, reference, COLOUR).isnan().all()
    assert figures(name, g, constant, COLOUR).isnan().all()
    assert figures(name, constant, constant, COLOUR).isnan().all()


@pytest.mark.parametrize("name", [name for name in METRICS if name not in NO_CONSTANT_MAPS])
def test_a_constant_map_has_every_figure_but_a_correlation(name: str) -> None:
    g, _ = maps(COLOUR)
    assert figures(name, g, torch.full_like(g, 0.1), COLOUR).isfinite().all()


def test_the_distance_of_zero_maps_is_zero() -> None:
    zero = torch.zeros(2, 5)
    assert figures("euclidean", zero, zero, (5,)).tolist() == [0, 0]


@pytest.mark.parametrize("name", list(METRICS))
def test_a_map_with_nan_in_it_has_no_figure(name: str) -> None:
    g, reference = maps(COLOUR)
    g[0, 3] = reference[2, 5] = torch.nan
    assert figures(name, g, reference, COLOUR).isnan().tolist() == [True, False, True]


@pytest.mark.parametrize("shape", [(60,), (6, 10)])
@pytest.mark.parametrize("name", list(METRICS))
def test_only_the_metrics_of_pictures_need_images(name: str, shape: tuple[int, ...]) -> None:
    assert (made(name)(*maps(shape), shape) is None) == (name in FOR_IMAGES)


@pytest.mark.parametrize(
    ("shape", "applies"), [((1, 7, 7), True), ((3, 7, 20), True), ((1, 6, 20), False), ((1, 20, 6), False)]
)
def test_ssim_needs_room_for_one_window(shape: tuple[int, ...], applies: bool) -> None:
    assert (SSIM()(*maps(shape), shape) is not None) == applies
    assert MassCentre()(*maps(shape), shape) is not None


@pytest.mark.filterwarnings("ignore:One or more sample arguments is too small")  # scipy says so of one entry
@pytest.mark.parametrize("name", BLIND_TO_PLACE)
def test_one_entry_is_a_map_without_correlation(name: str) -> None:
    found = figures(name, rows([2.0]), rows([3.0]), (1,))
    assert found.isnan().tolist() == [name in NO_CONSTANT_MAPS]


# the contract of the family


@pytest.mark.parametrize("name", list(METRICS))
def test_every_metric_of_the_family_has_a_slow_reference(name: str) -> None:
    assert name in REFERENCES


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list(METRICS))
def test_figures_are_float64_on_the_cpu_without_a_graph_one_for_each_sample(name: str, dtype: torch.dtype) -> None:
    g, reference = (x.to(dtype).requires_grad_() for x in maps(COLOUR))
    found = figures(name, g, reference, COLOUR)
    assert found.dtype == torch.float64
    assert found.device.type == "cpu"
    assert found.shape == (3,)
    assert not found.requires_grad
    assert figures(name, g[:0], reference[:0], COLOUR).shape == (0,)


@pytest.mark.parametrize("name", list(METRICS))
def test_maps_in_float32_are_measured_in_float64(name: str) -> None:
    g, reference = (x.float() for x in maps(COLOUR))
    np.testing.assert_array_equal(
        figures(name, g, reference, COLOUR), figures(name, g.double(), reference.double(), COLOUR)
    )


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("name", list(METRICS))
def test_the_figure_of_a_sample_does_not_depend_on_the_others(name: str, kind: str) -> None:
    g, reference = MAPS[kind](COLOUR, b=5)
    together = figures(name, g, reference, COLOUR)
    alone = torch.cat([figures(name, g[i : i + 1], reference[i : i + 1], COLOUR) for i in range(5)])
    np.testing.assert_allclose(together, alone, atol=ROUNDING, rtol=ROUNDING)
    order = [3, 0, 4, 2, 1]
    np.testing.assert_allclose(
        figures(name, g[order], reference[order], COLOUR), together[order], atol=ROUNDING, rtol=ROUNDING
    )


@pytest.mark.parametrize("name", list(METRICS))
def test_measuring_leaves_the_maps_as_they_were(name: str) -> None:
    g, reference = maps(COLOUR)
    before = g.clone(), reference.clone()
    figures(name, g, reference, COLOUR)
    assert torch.equal(g, before[0])
    assert torch.equal(reference, before[1])


# what an attack ascends


SMALL = (2, 3, 4)
HELPERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": cosine,
    "share": lambda g, reference: share(g, largest(reference, 5)),
    "centre": lambda g, reference: centre(g, SMALL),
}


@pytest.mark.parametrize("name", HELPERS)
def test_gradients_with_respect_to_the_moved_map_are_finite_differences(name: str) -> None:
    g, reference = maps(SMALL)
    assert float(g.abs().min()) > 1e-3  # no step reaches the kink of |g|
    leaf = g.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: HELPERS[name](z, reference), leaf)
    assert torch.autograd.gradgradcheck(lambda z: HELPERS[name](z, reference), leaf)
    (slope,) = torch.autograd.grad(HELPERS[name](leaf, reference).sum(), leaf)
    assert float(slope.abs().max()) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", HELPERS)
def test_ascended_figures_keep_the_dtype_and_the_device_of_the_map(name: str, device: str, dtype: torch.dtype) -> None:
    g, reference = (x.to(device, dtype) for x in maps(SMALL))
    found = HELPERS[name](g, reference)
    assert found.dtype == dtype
    assert found.device.type == device


@pytest.mark.parametrize("name", HELPERS)
def test_ascended_figures_survive_maps_whose_squares_underflow(name: str) -> None:
    g, reference = (x.float() for x in maps(SMALL))
    plain, tiny = HELPERS[name](g, reference), HELPERS[name](1e-30 * g, 1e-30 * reference)
    np.testing.assert_allclose(tiny, plain, rtol=1e-5, atol=1e-6)  # float32: seven digits of numbers up to three


@pytest.mark.parametrize("name", HELPERS)
def test_a_zero_map_spoils_the_gradient_of_its_own_sample_only(name: str) -> None:
    g, reference = maps(SMALL)
    g[1] = 0
    leaf = g.requires_grad_()
    (slope,) = torch.autograd.grad(HELPERS[name](leaf, reference).sum(), leaf)
    assert slope[[0, 2]].isfinite().all()


def test_centre_of_one_pixel_is_its_row_and_column() -> None:
    g = torch.zeros(1, 2, 5, 7)
    g[0, 1, 3, 6] = -2
    assert centre(g.flatten(1), (2, 5, 7)).tolist() == [[3, 6]]
