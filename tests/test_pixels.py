"""Maps certified pixel by pixel: exact tests that hold together, sides that stay, and what `smooth --certify-pixels` writes."""

import csv
import json
import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
import torch
from PIL import Image, ImageColor
from reference.program import attrcert as program
from safetensors.torch import save_file
from scipy.stats import norm
from torch import nn

import attrcert
from attrcert.bounds.smoothed.pixels import Marks, certified_pixels, common_radius, holm, least_draws, number_marked
from attrcert.errors import UsageError
from attrcert.loading.architectures import softplus_mlp
from attrcert.pictures import SIDES
from attrcert.reporting.pages.content import make_page
from attrcert.running.keeping.heatmaps import smoothed_maps
from attrcert.running.keeping.pixel_rows import pixel_rows
from attrcert.running.opening.opening import open_run
from attrcert.saved.map_files import NAMES, PIXEL_NAMES
from attrcert.settings.commands import task_of

TOP, NOT_TOP, ABSTAINED = 1, -1, 0
LEVEL = 0.75


def tails(draws: int, p: Fraction) -> list[Fraction]:
    """P(X >= k) of a binomial X for every k, exactly."""
    chances = [math.comb(draws, k) * p**k * (1 - p) ** (draws - k) for k in range(draws + 1)]
    return list(accumulate(reversed(chances)))[::-1]


def certified(counts, draws, *, sigma=1.0, q=0.01, level=LEVEL):
    return certified_pixels(np.array(counts), draws, sigma=sigma, q=q, level=level)


@pytest.mark.parametrize("level", ["1/2", "3/4", "9/10"])
def test_one_pixel_is_decided_where_the_exact_test_decides(level):
    draws, q, p0 = 60, Fraction(1, 100), Fraction(level)
    exact = tails(draws, p0)
    for count in range(draws + 1):
        top, outside = exact[count] <= q / 4, exact[draws - count] <= q / 4
        found = certified([count], draws, q=float(q), level=float(p0))
        assert found.side.tolist() == [TOP if top else NOT_TOP if outside else ABSTAINED], count


@pytest.mark.parametrize("count", [55, 58, 60, 0, 3])
def test_a_radius_is_that_of_the_clopper_pearson_bound(count):
    draws, q, sigma, level = 60, 0.01, 0.3, 0.5
    (radius,) = certified([count], draws, q=q, sigma=sigma, level=level).radius
    p = Fraction(norm.cdf(radius / sigma))  # at the lower bound, so many have the probability that the test allows
    assert float(tails(draws, p)[max(count, draws - count)]) == pytest.approx(q / 4, rel=1e-6)


def test_no_certified_pixel_has_a_smaller_radius_than_the_levels():
    counts = np.arange(2001)
    found = certified(counts, 2000, sigma=0.1)
    decided = found.side != ABSTAINED
    assert found.radius[decided].min() == common_radius(0.1, LEVEL) == pytest.approx(0.1 * norm.ppf(LEVEL), rel=1e-8)
    assert common_radius(0.1, LEVEL) < 0.1 * norm.ppf(LEVEL)
    assert (found.radius[~decided] == 0).all()
    assert found.radius[0] == found.radius[-1] == found.radius.max() > 2 * common_radius(0.1, LEVEL)


def slow_holm(p, q):
    left, rejected = list(range(len(p))), set()
    while left:
        smallest = min(left, key=lambda i: p[i])
        if p[smallest] > q / len(left):
            break
        rejected.add(smallest)
        left.remove(smallest)
    return [i in rejected for i in range(len(p))]


@pytest.mark.parametrize("seed", range(20))
def test_holm_rejects_what_the_step_down_does(seed):
    rng = np.random.default_rng(seed)
    p = rng.random(30) ** rng.integers(1, 8)
    p[rng.integers(0, 30, 5)] = p[0]
    assert holm(p, 0.2).tolist() == slow_holm(p, 0.2)


def test_holm_rejects_more_than_bonferroni_and_stops_at_the_first_failure():
    assert holm(np.array([0.02, 0.03, 0.001]), 0.05).tolist() == [True, True, True]  # Bonferroni: 0.0167 alone
    assert holm(np.array([0.04, 0.03, 0.001]), 0.05).tolist() == [False, False, True]
    assert holm(np.array([0.5]), 0.05).tolist() == [False]
    assert holm(np.array([0.05]), 0.05).tolist() == [True]


def test_certified_pixels_are_tested_by_holm_and_not_one_by_one():
    # 79 decided pixels make room for one that Bonferroni's share, and not the last steps of Holm's, refuses
    draws, pixels, q = 400, 80, 0.05
    exact = tails(draws, Fraction(3, 4))
    near = next(k for k in range(draws) if exact[k] <= Fraction(q) / 2 / (pixels + 1))
    assert exact[near] > Fraction(q) / 2 / (2 * pixels)
    crowd = [draws] * (pixels - 1)
    assert certified([*crowd, near], draws, q=q).side[-1] == TOP
    assert certified([*crowd, near - 1], draws, q=q).side[-1] == ABSTAINED
    assert certified([300] * (pixels - 1) + [near], draws, q=q).side[-1] == ABSTAINED  # nobody makes room
    assert certified([near], draws, q=q).side[-1] == TOP  # alone it need not share


TRUTHS = {
    "all at the level": np.full(100, LEVEL),
    "both levels": np.repeat([LEVEL, 1 - LEVEL], 50),
    "mixed": np.repeat([0.99, LEVEL, 0.5, 1 - LEVEL, 0.01], 20),
    "mostly decided": np.repeat([0.999, LEVEL], [90, 10]),
}


def wrong(found, truth, sigma) -> bool:
    """Whether a side or a radius claims more than is true."""
    held = np.where(found.side == TOP, truth, np.where(found.side == NOT_TOP, 1 - truth, 1.0))
    return bool((found.radius > sigma * norm.ppf(held)).any() or (held <= LEVEL).any())


@pytest.mark.parametrize("truth", TRUTHS.values(), ids=TRUTHS)
def test_all_pixels_together_are_wrong_at_most_as_often_as_said(truth):
    rng, draws, q, times = np.random.default_rng(1), 300, 0.1, 1000
    trials = [rng.binomial(draws, truth) for _ in range(times)]
    errors = sum(wrong(certified(counts, draws, q=q, sigma=0.5), truth, 0.5) for counts in trials)
    assert errors / times <= q + 4 * math.sqrt(q * (1 - q) / times)
    # tested one by one, or at a lower level, almost every map would have a wrong pixel: the trials can tell
    exact = np.array([float(one) for one in tails(draws, Fraction(LEVEL))])
    alone = sum((exact[counts] <= q)[truth == LEVEL].any() for counts in trials[:100])
    lower = sum(wrong(certified(counts, draws, q=q, sigma=0.5, level=0.65), truth, 0.5) for counts in trials[:100])
    assert alone > 50
    assert lower > 50


def test_pixels_that_all_draws_agree_on_are_certified_and_the_others_are_not():
    found = certified([0, 400, 200, 300], 400)
    assert found.side.tolist() == [NOT_TOP, TOP, ABSTAINED, ABSTAINED]


@pytest.mark.parametrize(
    ("pixels", "q", "level"), [(1, 0.01, 0.75), (784, 1e-3, 0.75), (50176, 1e-6, 0.9), (10, 0.05, 0.5)]
)
def test_fewer_draws_than_the_least_decide_nothing(pixels, q, level):
    least = least_draws(pixels, q=q, level=level)
    for draws, decided in ((least - 1, 0), (least, 1)):
        counts = np.full(pixels, draws // 2)
        counts[0] = draws
        assert (certified(counts, draws, q=q, level=level).side != ABSTAINED).sum() == decided


def slow_marks(g, marked):
    """Of maps by channel and pixel: the largest by their sum of moduli, the first of equals, none that is 0."""
    counts = np.zeros(g.shape[-1], dtype=int)
    for draw in g:
        mass = np.nan_to_num(np.abs(draw).sum(axis=0), nan=0.0)
        for pixel in sorted(range(len(mass)), key=lambda i: (-mass[i], i))[:marked]:
            counts[pixel] += mass[pixel] > 0
    return counts


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
@pytest.mark.parametrize("channels", [1, 3])
def test_marks_count_the_largest_pixels_whatever_is_equal_or_zero(share, channels):
    rng = np.random.default_rng(channels)
    g = rng.integers(-1, 2, (2, 40, channels, 12)).astype(np.float32)
    g[0, 3] = 0
    g[1, 5, 0, 2] = np.nan
    marks = Marks(2, 12, share)
    for part in np.split(g, [7, 30], axis=1):
        marks.add(torch.from_numpy(part).flatten(2))
    assert marks.draws == 40
    assert marks.counts.tolist() == [slow_marks(one, number_marked(12, share)).tolist() for one in g]


def test_all_pixels_none_and_one_are_certified_as_they_must_be():
    everything, nothing, single = Marks(1, 5, 0.99), Marks(1, 5, 0.4), Marks(1, 1, 0.5)
    everything.add(torch.rand(1, 200, 5) + 0.1)
    nothing.add(torch.zeros(1, 200, 5))
    single.add(torch.rand(1, 200, 1) + 0.1)
    sides = [certified(one.counts[0].numpy(), 200).side.tolist() for one in (everything, nothing, single)]
    assert sides == [[TOP] * 5, [NOT_TOP] * 5, [TOP]]


class Fence(nn.Module):
    """The gradient of class 1 is larger at the first of two pixels where that is above 0.5, and at the second elsewhere."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.flatten(1).unbind(1)
        return torch.stack([0 * first, 2 * torch.relu(first - 0.5) + second], dim=1)


def test_the_radius_ends_where_a_half_space_ends():
    """Of a half-space the theorem is attained: the true radius is the distance to it, and draws come near."""
    sigma, image = 0.1, torch.tensor([[[[0.62, 0.3]]]])
    found = attrcert.smooth(
        Fence(),
        (image, torch.tensor([1])),
        target="1",
        smooth="gaussian",
        sigma=sigma,
        samples=4000,
        certify_pixels=0.5,
    )
    assert found["pixel_side"].tolist() == [[[TOP, NOT_TOP]]]
    assert found["pixel_radius"].shape == (1, 1, 2)
    assert (found["pixel_radius"] <= 0.12).all()
    assert (found["pixel_radius"] > 0.12 * 0.9).all()


@pytest.fixture(scope="module")
def small():
    """A ReLU network on images of 6 x 6 with two channels, and two images."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 12), nn.ReLU(), nn.Linear(12, 3))
    return net, torch.rand(2, 2, 6, 6)


def test_certified_pixels_keep_their_side_at_perturbed_inputs(small):
    net, images = small
    sigma, share, fresh = 0.1, 0.2, 3000
    maps = attrcert.smooth(
        net, (images, torch.tensor([1, 1])), target="1", smooth="gaussian", sigma=sigma, samples=1000, certify_pixels=share,
        softplus_beta=None,
    )  # fmt: skip
    rng = torch.Generator().manual_seed(5)
    noise = 4.5 * math.sqrt(
        0.25 / fresh
    )  # of the 36 pixels at 48 points, one in 170 such tests has one beyond it by chance
    lowest = 1.0
    for image, side, radii in zip(
        images, maps["pixel_side"].reshape(2, 36), maps["pixel_radius"].reshape(2, 36), strict=True
    ):
        assert {TOP, NOT_TOP, ABSTAINED} == set(side.tolist())
        for delta in perturbations(net, image, side, radii, sigma, rng):
            for radius in (common_radius(sigma, LEVEL), float(np.median(radii[side != ABSTAINED]))):
                marked = marks_at(net, image + radius * delta / delta.norm(), sigma, fresh, rng)[0].mean(dim=0).numpy()
                held = np.where(side == TOP, marked, 1 - marked)[(side != ABSTAINED) & (radii >= radius)]
                assert (held > 0.5 - noise).all()
                lowest = min(lowest, held.min())
    assert lowest < 0.75  # the perturbations do move what is certified


def perturbations(net, image, side, radii, sigma, rng):
    """Random ones, and those along which the least certain pixels of both sides leave it fastest."""
    yield from (torch.randn(image.shape, generator=rng) for _ in range(4))
    marks, noise = marks_at(net, image, sigma, 3000, rng)
    for one in (TOP, NOT_TOP):
        for pixel in sorted(np.flatnonzero(side == one), key=lambda i: radii[i])[:4]:
            # the gradient of E[mark] is E[mark n] / sigma
            slope = (marks[:, pixel, None] * noise.flatten(1)).mean(dim=0).view_as(image)
            yield -one * slope


def marks_at(net, image, sigma, draws, rng):
    """Which pixels fresh draws at an image mark, and their noise."""
    noise = torch.randn(draws, *image.shape, generator=rng)
    noisy = (image + sigma * noise).requires_grad_()
    (g,) = torch.autograd.grad(net(noisy)[:, 1].sum(), noisy)
    places = g.flatten(2).abs().sum(dim=1).topk(number_marked(36, 0.2)).indices
    return torch.zeros(draws, 36).scatter(1, places, 1.0), noise


def test_the_arrays_are_those_of_the_draws_of_the_maps(small):
    """The counts come from the draws that the maps are made of, and change nothing of the maps."""
    net, images = small
    asked = {"smooth": "gaussian", "sigma": 0.1, "samples": 120, "softplus_beta": None}
    plain = attrcert.smooth(net, (images, torch.tensor([0, 1])), **asked)
    maps = attrcert.smooth(net, (images, torch.tensor([0, 1])), certify_pixels="20%", **asked)
    assert set(plain) == set(NAMES)
    assert set(maps) == set(NAMES + PIXEL_NAMES)
    for name in NAMES:
        np.testing.assert_array_equal(plain[name], maps[name])
    assert maps["pixel_side"].dtype == np.int8
    assert maps["pixel_side"].shape == maps["pixel_radius"].shape == (2, 6, 6)
    assert ((maps["pixel_radius"] > 0) == (maps["pixel_side"] != ABSTAINED)).all()


def test_simultaneous_shares_the_failure_among_the_samples(small):
    net, images = small
    asked = {"smooth": "gaussian", "sigma": 0.1, "samples": 300, "certify_pixels": 0.2, "softplus_beta": None}
    found = [
        attrcert.smooth(net, (images, torch.tensor([0, 1])), failure=q, simultaneous=together, **asked)
        for q, together in ((0.01, True), (0.005, False), (0.01, False))
    ]
    np.testing.assert_array_equal(found[0]["pixel_radius"], found[1]["pixel_radius"])
    assert (found[0]["pixel_radius"] <= found[2]["pixel_radius"]).all()
    assert (found[0]["pixel_radius"] < found[2]["pixel_radius"]).any()


def test_a_higher_level_certifies_fewer_pixels_farther(small):
    net, images = small
    asked = {"smooth": "gaussian", "sigma": 0.1, "samples": 400, "certify_pixels": 0.2, "softplus_beta": None}
    low, high = (
        attrcert.smooth(net, (images, torch.tensor([0, 1])), pixel_level=level, **asked) for level in (0.6, 0.9)
    )
    assert (
        low["pixel_side"][high["pixel_side"] != ABSTAINED] == high["pixel_side"][high["pixel_side"] != ABSTAINED]
    ).all()
    assert (high["pixel_side"] != ABSTAINED).sum() < (low["pixel_side"] != ABSTAINED).sum()
    assert high["pixel_radius"][high["pixel_side"] != ABSTAINED].min() >= common_radius(0.1, 0.9)


ARGS = {"inputs": 36, "classes": 3, "hidden": 5}


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A command with a small model and three images, one of them unusable."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    save_file(softplus_mlp(**ARGS).state_dict(), "net.safetensors")
    images = np.random.default_rng(0).random((3, 1, 6, 6), dtype=np.float32)
    images[1, 0, 0, 0] = np.nan
    np.savez("data.npz", images=images, labels=np.arange(3))
    args = [word for name, value in ARGS.items() for word in ("--arch-arg", f"{name}={value}")]
    model = ("net.safetensors", "data.npz", "--arch", "softplus-mlp", *args)
    return ("smooth", *model, "--smooth", "gaussian", "--sigma", 0.3, "--samples", 400, "--max-incomplete", 0.5)


def read(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_command_writes_sides_rows_and_pictures_that_agree(words, tmp_path):
    done = program(*words, "--certify-pixels", "25%", "--csv", "pixels.csv", "--png", "pictures")
    assert done.code == 0, done.err
    maps, rows = np.load("maps.npz"), read("pixels.csv")
    assert [row["status"] for row in rows] == ["ok", "error:non-finite", "ok"]
    for place, row in enumerate((rows[0], rows[2])):
        side = maps["pixel_side"][place]
        counted = [int(row[name]) for name in ("pixels_top", "pixels_not", "pixels_abstained")]
        assert counted == [(side == one).sum() for one in (TOP, NOT_TOP, ABSTAINED)]
        assert int(row["pixels_marked"]) == 9
        assert float(row["pixels_share"]) == counted[0] / 9
        assert float(row["pixel_radius"]) == common_radius(0.3, LEVEL)
        assert (row["guarantee"], row["noise"], row["samples"], row["failure"]) == (
            "confidence",
            "gaussian",
            "400",
            "0.001",
        )
        with Image.open(tmp_path / "pictures" / f"{row['index']}.png") as drawn:
            seen = {colour for _, colour in drawn.convert("RGB").getcolors(2**24)}
            # three panels beside each other, and four lines below
            assert drawn.width > 3 * drawn.height / 2
        assert {ImageColor.getrgb(colour) for colour in SIDES.values()} <= seen  # in the legend at least
    manifest = json.loads((tmp_path / "pixels.csv.json").read_text())
    assert (manifest["state"], manifest["rows"], manifest["command"], manifest["maps"]) == (
        "complete",
        3,
        "pixels",
        "maps.npz",
    )
    assert manifest["identity"]["certify_pixels"] == 0.25
    shares = [float(row["pixels_share"]) for row in (rows[0], rows[2])]
    assert f"{math.floor(1000 * 100 * sum(shares) / 2) / 1000:.4g}"[:4] in done.shown
    assert "|delta|_2 <= 0.2023" in done.shown
    assert "more than half of the noise" in done.shown
    assert "probability 1 - 0.001 over the program's own draws, for all pixels of a sample together" in done.shown


def test_the_picture_shows_the_side_of_each_pixel_in_its_colour(words, tmp_path):
    assert program(*words, "--certify-pixels", 0.25, "--png", tmp_path / "p", "--quiet").code == 0
    side = np.load("maps.npz")["pixel_side"][0]
    with Image.open(tmp_path / "p" / "0.png") as drawn:
        pixels = np.asarray(drawn.convert("RGB"))
    scale = round(256 / 6)
    corner = (
        np.array([ImageColor.getrgb(SIDES[one]) for one in side.ravel()])
        .reshape(6, 6, 3)
        .repeat(scale, 0)
        .repeat(scale, 1)
    )
    wide = pixels.shape[1]
    found = any(
        np.array_equal(pixels[34 : 34 + 6 * scale, left : left + 6 * scale], corner) for left in range(wide // 2, wide)
    )
    assert found


def test_gate_and_report_read_the_rows(words, tmp_path):
    assert program(*words, "--certify-pixels", "25%", "--csv", "pixels.csv", "--quiet").code == 0
    mean = np.mean([float(row["pixels_share"]) for row in read("pixels.csv") if row["status"] == "ok"])
    gate = ("gate", "pixels.csv", "--max-incomplete", 0.5, "--require")
    assert program(*gate, f"mean(pixels_share) >= {mean - 0.01}").code == 0
    assert program(*gate, f"mean(pixels_share) >= {mean + 0.01}").code == 1
    assert program(*gate, "max(pixels_abstained) <= 0").code == 1
    refused = program(*gate, "mean(pixels_share) <= 1")
    assert refused.code == 2
    assert "cannot fail" in refused.shown
    page = make_page([tmp_path / "pixels.csv"], title="", most=10, pictures=1)
    assert [gallery.title for gallery in page.galleries] == ["pixels: certified least", "pixels: certified most"]
    assert [picture.label for picture in page.galleries[0].cards[0].pictures] == [
        "input",
        "smoothed map",
        "certified pixels",
    ]
    (part,) = page.parts
    assert part.tables[0].title.startswith("Pixels that stay")
    assert program("report", "pixels.csv", "-o", "page.html").code == 0


def test_pictures_of_another_run_are_not_shown_beside_the_rows(words, tmp_path):
    assert program(*words, "--certify-pixels", "25%", "--csv", "pixels.csv").code == 0
    assert program(*words, "--certify-pixels", "50%", "--overwrite").code == 0
    assert "another run" in make_page([tmp_path / "pixels.csv"], title="", most=10, pictures=1).missing[0]
    assert program(*words, "--overwrite").code == 0
    assert "no certified pixels" in make_page([tmp_path / "pixels.csv"], title="", most=10, pictures=1).missing[0]
    (tmp_path / "maps.npz").unlink()
    assert "No such file" in make_page([tmp_path / "pixels.csv"], title="", most=10, pictures=1).missing[0]


def test_without_pixels_the_file_and_stdout_are_as_they_were(words):
    done = program(*words)
    assert done.out == ""
    with np.load("maps.npz") as maps:
        assert sorted(maps) == sorted(NAMES)
    assert program(*words).code == 2
    assert program(*words, "--certify-pixels", "10%", "--overwrite").code == 0
    assert program(*words, "--overwrite").code == 0  # a file with sides is ours too


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--certify-pixels", "0"), "--certify-pixels must lie strictly between 0 and 1, got 0"),
        (("--certify-pixels", "100%"), "--certify-pixels must lie strictly between 0 and 1, got 1"),
        (("--certify-pixels", "-5%"), "--certify-pixels must lie strictly between 0 and 1, got -0.05"),
        (("--certify-pixels", "10"), "e.g. 10% or 0.1"),
        (("--certify-pixels", "nan"), "must be a share such as 10% or 0.1, got 'nan'"),
        (("--certify-pixels", "many"), "--certify-pixels must be a share such as 10% or 0.1, got 'many'"),
        (("--certify-pixels", "10%", "--pixel-level", 0.4), "--pixel-level must be at least 0.5, got 0.4"),
        (("--certify-pixels", "10%", "--pixel-level", 1), "--pixel-level must be from 0.5 to below 1, got 1"),
        (("--pixel-level", 0.9), "--pixel-level has no effect here: it is for --certify-pixels"),
        (("--csv", "pixels.csv"), "add --certify-pixels 10%"),
        (("--certify-pixels", "10%", "--csv", "no/such/folder.csv"), "--csv must name a CSV in a folder that exists"),
        (("--certify-pixels", "10%", "--csv", "x.npz"), "--csv must name a CSV"),
        (("--certify-pixels", "10%", "--failure", 1e-60), "--samples must be at least"),
    ],
)  # fmt: skip
def test_what_cannot_be_certified_is_refused_with_what_to_do(words, tmp_path, given, said):
    done = program(*words, *given)
    assert done.code == 2
    assert said in done.said
    assert not (tmp_path / "maps.npz").exists()


def test_uniform_noise_is_refused_and_told_what_to_use():
    for given in ({"smooth": "uniform", "radius": 1.0}, {}):
        with pytest.raises(UsageError, match="for gaussian noise, got uniform") as refused:
            task_of("smooth", {"certify_pixels": "10%", **given})
        assert "--smooth gaussian --sigma r/sqrt(d)" in (refused.value.hint or "")


@pytest.mark.parametrize("command", ["bound", "max-eps", "min-radius"])
def test_other_commands_do_not_know_certified_pixels(command):
    assert "certify-pixels" in program(command, "--certify-pixels", "10%").err


def test_a_csv_is_replaced_when_asked_and_only_if_it_is_ours(words, tmp_path):
    asked = (*words, "--certify-pixels", "25%", "--csv", "pixels.csv")
    (tmp_path / "pixels.csv").write_text("mine\n1\n")
    assert program(*asked).code == 2
    assert "not a file that attrcert wrote" in program(*asked, "--overwrite").said
    assert (tmp_path / "pixels.csv").read_text() == "mine\n1\n"
    (tmp_path / "pixels.csv").unlink()
    assert program(*asked, "--overwrite").code == 0
    first = (tmp_path / "pixels.csv").read_bytes()
    assert program(*asked, "--overwrite").code == 0
    assert (tmp_path / "pixels.csv").read_bytes() == first
    (tmp_path / "pixels.csv").unlink()
    (tmp_path / "maps.npz").unlink()
    assert "pixels.csv.json exists hint: --overwrite replaces it" in program(*asked).said


class Bowl(nn.Module):
    """The gradient of class 1 is the image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = (x.flatten(1) ** 2).sum(dim=1) / 2
        return torch.stack([0 * half, half], dim=1)


def test_where_more_pixels_stay_among_the_largest_than_there_are_at_a_time_the_share_is_1():
    # each draw marks all but one of four equal pixels: every one is marked by three in four
    task = task_of("smooth", {"smooth": "gaussian", "sigma": 0.05, "certify_pixels": "75%", "pixel_level": 0.6})
    run = open_run(Bowl(), (torch.full((1, 1, 2, 2), 0.5), torch.tensor([1])), task)
    (row,) = pixel_rows(run, *smoothed_maps(run))
    assert (row["pixels_top"], row["pixels_marked"], row["pixels_share"]) == (4, 3, 1.0)
