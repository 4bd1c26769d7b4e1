"""Scores against loops from their definitions, cases that are known by hand, and what must hold of all."""

import json
import math
import re
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from reference import scores as slow
from reference.climbing import largest_change
from reference.smooth_networks import chain, classifier, gradient_of
from torch import Tensor, nn

import attrcert
from attrcert.ascent.loop import Reference, ascend
from attrcert.attacks.manipulate import Manipulate, frame
from attrcert.attributions.gradient import Saliency
from attrcert.bounds.first_order.l2_spectral import L2Spectral
from attrcert.bounds.proved.bound import ProvedBound, Prover
from attrcert.bounds.proved.reading import read_network
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.networks.classifier import Classifier
from attrcert.scores import ABOUT, SCORES
from attrcert.scores.adversarial_insertion import AdversarialInsertion
from attrcert.scores.cosine_criterion import CosineCriterion, most
from attrcert.scores.insertion import Deletion, Insertion, filling, ranks, spread
from attrcert.scores.local_robustness import LocalRobustness
from attrcert.scores.perturbation_similarity import PerturbationSimilarity
from attrcert.scores.relative_stability import RelativeStability
from attrcert.scores.sight import CurvedSight, Sight
from attrcert.types import Batch
from attrcert.vocabulary import Norm

L2, LINF = Norm.parse("l2"), Norm.parse("linf")
EXACT = 1e-10  # sums of a few hundred terms in float64, through a softmax
DIGITS = 1e-12


def sight(
    f: Classifier, x: Tensor, *, norm: Norm = LINF, eps: tuple[float, ...] = (0.1,), indices: Any = None
) -> Sight:
    """Saliency of the predicted class."""
    indices = tuple(indices or range(len(x)))
    y, saliency, draws = f(x).argmax(1), Saliency(), Draws(0, indices)
    batch = Batch(indices, x, (None,) * len(x))
    return Sight(
        f=f, guide=f, attribution=saliency, batch=batch, target=y, predicted=y, g=saliency.value(f, x, y), draws=draws, norm=norm,
        eps=eps, chunk=5,
    )  # fmt: skip


def curved(seen: Sight, proved: dict[float, ProvedBound] | None = None) -> CurvedSight:
    """With its Jacobian, and a search that finds nothing."""
    J = seen.attribution.explain(seen.f, seen.x, seen.target).jacobian
    return CurvedSight(
        **vars(seen), jacobian=J, worst=L2Spectral(seen.norm)(J, seen.draws), status=["ok"] * len(seen.x),
        ball_wide=lambda eps: [0.0] * len(seen.x), proved=proved or {}, noise=torch.zeros(len(seen.x)).double(),
    )  # fmt: skip


@pytest.fixture
def f(smooth_cnn) -> Classifier:
    return Classifier(smooth_cnn(channels=2, side=8), mean=(0.4, 0.5), std=(0.3, 0.2), beta=None)


@pytest.fixture
def x(images) -> Tensor:
    return images(3, 2, 8, 8)


def probability(f: Classifier, y: int):
    return lambda z: float(f(torch.from_numpy(z)[None]).softmax(1)[0, y])


def maps_of(f: Classifier, y: int):
    """Inputs to maps of class y, in numpy."""
    return lambda z: gradient_of(f, y)(torch.from_numpy(z)[None])[0].numpy()


# insertion and deletion


@pytest.mark.parametrize("word", ["zero", "mean", "blur"])
def test_curves_and_areas_are_those_of_the_definition(f, x, word):
    fill, seen = filling(word, f.mean), sight(f, x)
    found = {into: kind(fill, 7)(seen)[0] for into, kind in ((True, Insertion), (False, Deletion))}
    for i, picture in enumerate(x.numpy()):
        left = {
            "zero": np.zeros_like(picture),
            "mean": np.array(f.mean)[:, None, None] + np.zeros_like(picture),
            "blur": slow.blurred(picture, 5.0, 11),
        }[word]
        h = slow.heat(seen.g[i].view(2, 8, 8).numpy())
        for into, name in ((True, "insertion"), (False, "deletion")):
            wanted = slow.curve(probability(f, int(seen.target[i])), picture, left, h, 7, into=into)
            assert found[into][name][i] == pytest.approx(slow.area(wanted), rel=EXACT)
            points = [tuple(map(float, point.split(":"))) for point in str(found[into]["curve"][i]).split(";")]
            assert points == [(float(f"{s:.4g}"), float(f"{p:.4g}")) for s, p in wanted]


def test_the_pixels_of_several_samples_go_through_the_network_together(f, x):
    calls: list[int] = []
    handle = f.network.register_forward_hook(lambda _m, given, _o: calls.append(len(given[0])))
    seen = replace(sight(f, x), chunk=20)
    calls.clear()
    Insertion(shares=9)(seen)
    handle.remove()
    assert calls == [20, 10]  # three samples, ten steps each


def test_no_order_inserts_a_linear_model_s_pixels_better_than_that_of_its_weights():
    """p = sigmoid(w . x): the partial sums are largest when the largest come first."""
    w, x = torch.tensor([0.3, 2.0, 0.9, 1.4]).double(), torch.full((1, 1, 2, 2), 0.5).double()
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).double()
    network[1].weight.data, network[1].bias.data = torch.stack([w, 0 * w]), torch.zeros(2).double()
    seen = sight(Classifier(network, beta=None), x)
    found = Insertion(shares=4)(seen)[0]["insertion"][0]

    def by_hand(order: tuple[int, ...], *, into: bool = True) -> float:
        there = [order[:k] if into else order[k:] for k in range(5)]
        sums = [0.5 * float(w[list(places)].sum()) for places in there]
        return slow.area([(k / 4, 1 / (1 + math.exp(-one))) for k, one in enumerate(sums)])

    areas = [by_hand(order) for order in permutations(range(4))]
    assert found == pytest.approx(max(areas), rel=DIGITS)
    assert min(areas) < found
    assert Deletion(shares=4)(seen)[0]["deletion"][0] == pytest.approx(by_hand((1, 3, 2, 0), into=False), rel=DIGITS)


def test_equal_pixels_come_in_an_order_of_their_own_in_each_sample():
    flat = torch.zeros(40, 3, 3).double()
    flat[:, 1, 1] = 1.0
    found = ranks(flat, Draws(0, tuple(range(40))))
    assert (found[:, 1, 1] == 0).all()
    assert (found.flatten(1).sort(dim=1).values == torch.arange(9)).all()
    assert len({tuple(one.flatten().tolist()) for one in found}) == 40
    assert torch.equal(ranks(flat[:1], Draws(0, (17,)))[0], found[17])
    assert not torch.equal(ranks(flat[:1], Draws(1, (17,)))[0], found[17])


def test_coarse_maps_are_made_as_large_as_the_inputs_and_others_are_refused(x):
    coarse = torch.arange(4).double().view(1, 2, 2)
    large = spread(coarse, x[:1])[0]
    assert tuple(large.shape) == (8, 8)
    assert (large[0, 0], large[0, -1], large[-1, -1]) == (0, 1, 3)
    for inputs, fitting, other in (((2, 8, 8), (1, 2, 2), (4,)), ((2, 9), (9,), (1, 2, 9)), ((6,), (6,), (3,))):
        Insertion().check(Classifier(nn.Identity()), torch.zeros(1, *inputs), fitting)
        with pytest.raises(UsageError, match=re.escape(f"need maps that rank their pixels, got maps of shape {other}")):
            Insertion().check(Classifier(nn.Identity()), torch.zeros(1, *inputs), other)


def test_the_order_of_the_attacked_map_inserts_the_pixels_of_the_clean_input(f, x):
    seen, steps = sight(f, x, eps=(0.05, 0.3)), 6
    found = AdversarialInsertion(shares=7, steps=steps)(seen)
    for cells, ball in zip(found, seen.balls, strict=True):
        attack, problem = Manipulate(frame((2, 8, 8), like=x), 0.5, 0.5), seen.problem(ball)
        reached = ascend(attack, problem, Reference.of(problem), torch.zeros(1, 3, 128).double(), steps=steps)
        assert (reached.delta != 0).any()
        for i, picture in enumerate(x.numpy()):
            h = slow.heat(reached.map[i].view(2, 8, 8).numpy())
            wanted = slow.curve(probability(f, int(seen.target[i])), picture, 0 * picture, h, 7, into=True)
            assert cells["adv_insertion"][i] == pytest.approx(slow.area(wanted), rel=EXACT)
    still = AdversarialInsertion(shares=7, steps=0)(seen)[0]["adv_insertion"]
    assert still == Insertion(shares=7)(seen)[0]["insertion"]
    assert still != found[1]["adv_insertion"]


# similarity under random perturbations


class Watched(Saliency):
    """Notes where it is looked at."""

    seen: list[Tensor]

    def value(self, f, x, y, draws=None):
        self.seen.append(x)
        return super().value(f, x, y, draws)


@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
def test_similarity_is_that_of_the_definition_at_the_points_that_are_drawn(f, x, norm, monkeypatch):
    monkeypatch.setattr(Watched, "seen", [], raising=False)
    eps = (0.02, 0.7)
    seen = replace(sight(f, x, norm=norm, eps=eps), attribution=Watched())
    found = PerturbationSimilarity(random_draws=3)(seen)
    points = [Watched.seen[:3], Watched.seen[3:]]
    for size, drawn, cells in zip(eps, points, found, strict=True):
        for z in drawn:
            away = (z - x).flatten(1).norm(p=norm.p, dim=1)
            assert z.min() >= 0
            assert z.max() <= 1
            assert (away <= size * (1 + DIGITS)).all()
            assert (away > size / 3).all()
        for i in range(len(x)):
            maps = maps_of(f, int(seen.target[i]))
            wanted = slow.similarities(slow.heat(maps(x[i].numpy())), [slow.heat(maps(z[i].numpy())) for z in drawn])
            got = [cells[name][i] for name in ("rps_cosine", "rps_pearson", "rps_ssim")]
            assert got == pytest.approx(wanted, rel=EXACT)
    assert not torch.equal(points[0][0], points[0][1])


def test_similarity_is_one_at_no_distance_and_does_not_depend_on_the_batch(f, x):
    near = PerturbationSimilarity()(sight(f, x, eps=(1e-9,)))[0]
    assert all(cell == pytest.approx(1, abs=1e-12) for cells in near.values() for cell in cells)
    together = PerturbationSimilarity()(sight(f, x, indices=(4, 7, 9)))[0]
    alone = PerturbationSimilarity()(sight(f, x[1:2], indices=(7,)))[0]
    assert {name: cells[1] for name, cells in together.items()} == pytest.approx(
        {name: cells[0] for name, cells in alone.items()}, rel=DIGITS
    )


# local robustness


def test_of_a_quadratic_both_ends_are_the_norm_of_its_hessian(images):
    class Quadratic(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            q = z.flatten(1)
            A = torch.diag(torch.tensor([3.0, -5.0, 1.0, 2.0]).double())
            return torch.stack([(q @ A * q).sum(1) / 2 + 9, 0 * q.sum(1)], dim=1)

    seen = sight(Classifier(Quadratic(), beta=None), images(2, 1, 2, 2), norm=L2, eps=(0.1, 1.0))
    for cells in LocalRobustness(random_draws=2, steps=2)(curved(seen)):
        assert cells["robustness_lower"] == pytest.approx([5, 5], rel=1e-9)
        assert cells["robustness_first_order"] == pytest.approx([5, 5], rel=0.01)
        assert cells["robustness_proved"] == [None, None]


def test_the_gain_at_x_counts_where_the_map_moves_more_slowly_everywhere_else():
    """The slope of the softplus bends most at 0: no point of the ball reaches the second derivative there."""
    f = chain(1)
    first, last = (float(f.network[place].weight) for place in (1, 3))
    seen = sight(f, torch.full((1, 1, 1, 1), 2.5 / first).double(), norm=L2, eps=(1.0,))
    (found,) = LocalRobustness(random_draws=3, steps=3)(curved(seen))
    second = last * first**2 * 2 / 4  # of last * softplus(first * x - 2.5), beta 2, at its middle
    assert found["robustness_lower"] == pytest.approx([second], rel=2e-9)  # less what the solver allows for rounding
    away = largest_change(gradient_of(f, 0), seen.x[0], 1.0, linf=False)
    assert away < 0.99 * second


def proved(seen: Sight, eps: float, effort: int = 0) -> ProvedBound:
    network = read_network(seen.f, tuple(seen.x.shape[1:]), torch.device("cpu"))
    prover = Prover(network, Saliency(), seen.norm, 10**9, effort)
    return prover(seen.x, seen.target, [torch.full((len(seen.x),), eps).double()], seen.draws)[0]


@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
@pytest.mark.parametrize(("kind", "form"), [("deep", "joint"), ("convolutional", "secant"), ("residual", "secant")])
def test_no_shorter_perturbation_moves_the_map_faster_than_is_proved(kind, form, norm, images):
    f, eps = classifier(kind, "softplus", seed=4), 0.1
    seen = sight(f, images(2, 1, 3, 3), norm=norm, eps=(eps,))
    bound = proved(seen, eps, effort=4 if form == "joint" else 0)
    assert bound.method == (form, form)
    assert bound.trusted == (form == "joint")
    found = LocalRobustness(random_draws=2, steps=5)(curved(seen, {eps: bound}))[0]
    for i in range(2):
        limit = found["robustness_proved"][i]
        assert found["robustness_lower"][i] <= limit
        for size in (1e-4, eps / 4, eps):
            gradient = gradient_of(f, int(seen.target[i]))
            moved = largest_change(gradient, seen.x[i], size, linf=norm is LINF, starts=8, steps=15)
            assert 0 < moved / size <= limit


def test_a_secant_bound_with_trusted_ranges_says_nothing_of_the_rate(images):
    bound = proved(sight(classifier("deep", "softplus", seed=4), images(1, 1, 3, 3), norm=L2, eps=(0.1,)), 0.1)
    assert float(bound.rate(0.1)) == pytest.approx(float(bound.upper) / 0.1)
    assert float(replace(bound, trusted=True).rate(0.1)) == float("inf")


def test_a_bound_by_intervals_says_nothing_of_the_rate():
    """In a large ball the gradient of one neuron is bounded by what it can be at all, and near x it moves faster than that allows."""
    f, x, eps = chain(1), torch.full((1, 1, 1, 1), 2.0).double(), 400.0
    seen = sight(f, x, norm=L2, eps=(eps,))
    bound = proved(seen, eps)
    near = largest_change(gradient_of(f, 0), x[0], 0.01, linf=False) / 0.01
    assert near > float(bound.upper) / eps
    assert bound.method == ("interval",)
    assert LocalRobustness(1, 1)(curved(seen, {eps: bound}))[0]["robustness_proved"] == [None]


# the cosine criterion


def test_the_bound_of_the_criterion_is_known_at_a_few_shares_and_is_attained():
    shares = torch.tensor([0.1, 0.5, 0.9, 1e-9, 1.0, 2.0], dtype=torch.float64)
    found = most(shares).tolist()
    assert found[:3] == pytest.approx([0.0025062814, 0.0669872981, 0.2820550528], abs=1e-10)  # known to ten places
    assert found[3] == pytest.approx(2.5e-19, rel=DIGITS)
    assert all(map(math.isnan, found[4:]))
    g = np.array([1.0, 0.0])
    for r, limit in zip(shares[:3].tolist(), found, strict=False):
        moved = np.array([1 - r * r, r * math.sqrt(1 - r * r)])  # as far as a difference of length r turns it
        assert slow.criterion(g, moved) == pytest.approx(limit, rel=1e-9)


def test_the_criterion_exceeds_the_published_figure_and_not_the_bound():
    """f = x_1 + 100 x_2^3 at 0: no curvature there, and the gradient has turned at .05 by a cosine of .8."""

    class Cubic(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return torch.stack([z[:, 0] + 100 * z[:, 1] ** 3 + 9, 0 * z[:, 0]], dim=1)

    seen = curved(sight(Classifier(Cubic(), beta=None), torch.zeros(1, 2).double(), norm=L2, eps=(0.05,)))
    seen = replace(seen, worst=replace(seen.worst, direction=torch.tensor([[0.0, 1.0]]).double()))
    (found,) = CosineCriterion(random_draws=3)(seen)
    assert (found["crc"][0], found["crc_published"][0]) == pytest.approx((0.1, 0.0), abs=DIGITS)
    assert found["crc_bound"][0] == pytest.approx(0.1, rel=DIGITS)  # attained: r = .75 / 1.25


def test_the_criterion_is_the_largest_of_those_at_the_points_that_are_tried(f, x):
    plain = sight(f, x, norm=L2, eps=(0.3,))
    seen = curved(plain, {0.3: proved(plain, 0.3)})
    (found,) = CosineCriterion(random_draws=4)(seen)
    ends = [sign * 0.3 * seen.worst.direction for sign in (1, -1)]
    from_ball = replace(
        next(seen.balls), low=torch.full((3, 128), -torch.inf).double(), high=torch.full((3, 128), torch.inf).double()
    )
    deltas = [*ends, *(from_ball.random(seen.draws, f"crc-{j}") for j in range(4))]
    J = seen.jacobian
    for i in range(len(x)):
        g = seen.g[i].numpy()
        tried = []
        for delta in deltas:
            moved = maps_of(f, int(seen.target[i]))((x[i] + delta[i].view_as(x[i])).numpy()).ravel()
            share = math.hypot(*(moved - g)) / max(math.hypot(*g), math.hypot(*moved))
            linear = float(J.matvec(delta)[i].norm()) / math.hypot(*moved)
            tried.append((slow.criterion(g, moved), linear, (1 - math.sqrt(1 - share**2)) / 2))
        wanted = max(tried)
        assert [found[name][i] for name in ("crc", "crc_published", "crc_bound")] == pytest.approx(wanted, rel=1e-7)
        assert found["crc"][i] <= found["crc_bound"][i] * (1 + 1e-9)
        assert found["crc"][i] <= (found["crc_proved"][i] or 1)


@pytest.mark.parametrize("score", [LocalRobustness(2, 2), CosineCriterion(2)], ids=lambda one: type(one).__name__)
def test_what_stands_beside_bounds_is_found_in_the_whole_ball(score, f, monkeypatch):
    monkeypatch.setattr(Watched, "seen", [], raising=False)
    score(replace(curved(sight(f, torch.zeros(1, 2, 8, 8).double(), norm=L2, eps=(0.1,))), attribution=Watched()))
    tried = [z for z in Watched.seen if z.any()]
    assert len(tried) >= 4
    assert all(z.min() < 0 for z in tried)


def test_rounding_is_not_taken_for_a_change_of_the_map(smooth_cnn, images):
    """In float32, where x + delta is not x + delta and maps are off by more than they move."""
    x, eps = images(3, 2, 8, 8), [1e-8, 1e-7, 1e-6]
    given = {"metric": ["local-robustness", "crc"], "norm": "l2", "eps": eps, "steps": 5}
    rough, exact = (
        attrcert.score(smooth_cnn(channels=2, side=8).to(dtype), x.to(dtype), dtype=name, **given)
        for name, dtype in (("float32", torch.float32), ("float64", torch.float64))
    )
    assert rough[0]["robustness_lower"] > 0
    for ours, theirs in zip(rough, exact, strict=True):
        if ours["metric"] == "crc":
            assert ours["crc"] <= theirs["crc_first_order"] * 1.001
        else:
            assert ours["robustness_lower"] <= theirs["robustness_first_order"] * 1.001


# relative stability


class Two(nn.Module):
    """A convolution inside, whose output is 0 in places, and a label that turns when the first pixel does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 2, 2), nn.Linear(8, 2)
        rng = torch.Generator().manual_seed(3)
        for part in self.parameters():
            part.data = torch.randn(part.shape, generator=rng).double()

    def forward(self, z: Tensor) -> Tensor:
        logits = self.head(torch.tanh(self.conv(z)).flatten(1))
        return logits + 50 * torch.stack([z[:, 0, 0, 0] - 0.5, 0.5 - z[:, 0, 0, 0]], dim=1)


def test_relative_stability_is_that_of_the_definition_over_points_that_keep_the_label(monkeypatch, images):
    monkeypatch.setattr(Watched, "seen", [], raising=False)
    network = Two()
    x = images(2, 1, 3, 3)
    x[0, 0, 0, 0], x[1, 0, 0, 0], x[1, 0, 2, 2] = 0.5 + 1e-3, 0.9, 0.0
    f = Classifier(network, beta=None)
    seen = replace(sight(f, x, eps=(0.05,)), attribution=Watched())
    found = RelativeStability(random_draws=6)(seen)[0]
    counted, left_out = [], []
    for i in range(2):
        y, ratios = int(seen.target[i]), []
        for z in Watched.seen:
            logits, before = f(z[i : i + 1])[0].detach().numpy(), f(x[i : i + 1])[0].detach().numpy()
            moved = slow.relative(*(maps_of(f, y)(p[i].numpy()) for p in (x, z)))
            inner = slow.relative(*(network.conv(p[i]).detach().numpy() for p in (x, z)))
            whole = (slow.relative(x[i].numpy(), z[i].numpy()), math.dist(logits, before), inner)
            (ratios if logits.argmax() == y else left_out).append([moved / max(by, 1e-6) for by in whole])
        counted.append(len(ratios))
        assert [found[name][i] for name in ("ris", "ros", "rrs")] == pytest.approx(np.max(ratios, axis=0), rel=1e-7)
    assert 0 < counted[0] < counted[1] == 6
    assert max(one[0] for one in left_out) > found["ris"][0]  # it would have been the largest


def test_a_layer_is_found_by_itself_or_by_its_name_and_one_that_is_none_is_refused(images):
    f, x = Classifier(Two(), beta=None), images(2, 1, 3, 3)
    dense = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 2)).double(), beta=None)
    by_itself, inner = (RelativeStability(2, layer)(sight(dense, x))[0]["rrs"] for layer in (None, "2"))
    assert by_itself == inner
    assert inner != RelativeStability(2, "1")(sight(dense, x))[0]["rrs"]
    assert RelativeStability(2)(sight(f, x))[0]["rrs"] == RelativeStability(2, "conv")(sight(f, x))[0]["rrs"]
    with pytest.raises(UsageError, match="--inner-layer must be one of conv, head, got 'cnov'"):
        RelativeStability(2, "cnov").check(f, x, (1, 3, 3))
    assert not any(module._forward_hooks for network in (f.network, dense.network) for module in network.modules())


# all of them


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 6), (5,)], ids=["a pixel", "a signal", "a line of a table"])
def test_every_metric_takes_other_inputs_than_images_or_refuses_them(shape, tmp_path):
    n = math.prod(shape)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(n, 4), nn.Softplus(), nn.Linear(4, 3)).double()
    data = torch.rand(2, *shape)
    plain = {"dtype": "float64", **({"data_kind": "signals"} if len(shape) == 2 else {})}
    boxes, places = tmp_path / "boxes.json", range(2)
    annotations = [{"image_id": place, "bbox": [0, 0, 1, 1]} for place in places]
    boxes.write_text(json.dumps({"images": [{"id": place} for place in places], "annotations": annotations}))
    refused = {
        "adv-insertion": "adv-insertion needs maps with channels, height and width",
        "localisation": "localisation needs images and maps with height and width",
    }
    for name in SCORES:
        settings = {"metric": name, "random_draws": 2, "steps": 2, "shares": 3, "boxes": str(boxes)}
        given = {key: value for key, value in settings.items() if key == "metric" or key in ABOUT[name].settings}
        given |= plain
        given |= {"eps": 0.1} if ABOUT[name].by_eps else {}
        if name in refused and len(shape) < 3:
            with pytest.raises(UsageError, match=refused[name]):
                attrcert.score(network, data, **given)
            continue
        rows = attrcert.score(network, data, **given)
        assert [row["status"] for row in rows] == ["ok", "ok"]
        assert all(math.isfinite(cell) for row in rows for cell in row.values() if isinstance(cell, float))
    if len(shape) < 3:
        with pytest.raises(UsageError, match="a blur needs images"):
            attrcert.score(network, data, metric="insertion", fill="blur", **plain)


def test_a_map_that_is_zero_has_no_similarity_and_any_order():
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    network[1].weight.data[:] = 0
    rows = attrcert.score(network, torch.rand(1, 1, 4, 4), eps=0.1)
    cells = {row["metric"]: row for row in rows}
    assert [cells["rps"][name] for name in ("rps_cosine", "rps_pearson", "rps_ssim")] == [None] * 3
    assert cells["insertion"]["insertion"] == pytest.approx(cells["deletion"]["deletion"])


def test_a_relu_network_is_measured_as_it_is_and_its_bounds_speak_of_the_softplus_version(relu_mlp, images):
    network, x = relu_mlp(), images(4, 1, 3, 3)
    settings = {
        "metric": ["insertion", "adv-insertion", "crc"],
        "eps": 0.05,
        "steps": 2,
        "softplus_beta": 2,
        "dtype": "float64",
    }
    rows = attrcert.score(network, x, **settings)
    plain = attrcert.score(network, x, metric="insertion", dtype="float64")
    assert [row["insertion"] for row in rows if row["metric"] == "insertion"] == [row["insertion"] for row in plain]
    twin = Classifier(network, beta=2.0)
    y = twin(x).argmax(1)
    assert [row["g_norm"] for row in rows if row["metric"] == "crc"] == pytest.approx(
        Saliency().value(twin, x, y).norm(dim=1).tolist(), rel=DIGITS
    )
    assert {row["g_norm"] for row in rows if row["metric"] == "adv-insertion"} == {row["g_norm"] for row in plain}
