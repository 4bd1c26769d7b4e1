"""The joint form and the ranges it stands on: nothing beats them, and where nothing is loose they are exact."""

from itertools import product

import pytest
import torch
from reference.climbing import largest_change
from reference.smooth_networks import classifier, gradient_of
from test_proved import ATTRIBUTIONS, attribution_map
from torch import Tensor, nn

from attrcert.attributions.gradient import TALLY, Saliency
from attrcert.bounds.proved import curves
from attrcert.bounds.proved.bound import ProvedBound, Prover
from attrcert.bounds.proved.form import parts
from attrcert.bounds.proved.joint import Whole
from attrcert.bounds.proved.loops import loops
from attrcert.bounds.proved.point import at_points
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.reading import read_network
from attrcert.bounds.proved.remainders import remainder
from attrcert.bounds.proved.search import MultiplierSearch
from attrcert.bounds.proved.secant import Change, change
from attrcert.draws import Draws
from attrcert.linalg.ritz import dense
from attrcert.networks.classifier import Classifier
from attrcert.vocabulary import Norm

CPU = torch.device("cpu")
L2, LINF = Norm.parse("l2"), Norm.parse("linf")
CURVES = [curves.Softplus(5.0), curves.Sigmoid(), curves.Tanh(), curves.Gelu(), curves.Silu(), curves.Elu()]


def bound(f: Classifier, x: Tensor, eps: float, norm: Norm, effort: int, attribution=None) -> ProvedBound:
    network = read_network(f, tuple(x.shape[1:]), CPU)
    prover = Prover(network, attribution or Saliency(), norm, 10**9, effort)
    return prover(x, torch.zeros(len(x), dtype=torch.int64), [torch.full((len(x),), eps).double()], Draws(0, (0,)))[0]


def changed(f: Classifier, x: Tensor, eps: float, norm: Norm = L2) -> Change:
    point = at_points(read_network(f, tuple(x.shape[1:]), CPU), x, torch.tensor([0]))
    return change(point, Reach(torch.tensor([eps]).double(), norm), trusted=True)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: type(curve).__name__)
def test_remainders_stay_below_the_constant_and_the_square_and_nearly_reach_them(curve: curves.Curve) -> None:
    z = torch.linspace(-4, 4, 41, dtype=torch.float64)[None]
    r = torch.rand(z.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3 + 0.05
    found, bend = remainder(curve, z, r), curves.largest_bend(curve, z, r)
    t = torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None] * r
    rem = curve.value(z + t) - curve.value(z) - curve.slope(z) * t
    for side, value in ((found.up, rem), (found.down, -rem)):
        for theta in (0.0, 0.1, 0.5, 1.0):
            beyond, excess = value - theta * side.rise * t.square() / 2, side.excess(theta)
            assert bool((beyond <= excess + 1e-14).all())
            assert bool((excess <= beyond.amax(dim=0).clamp_min(0) + 0.02 * bend * r.square()).all())
        steep = (2 * value / t.square())[(t / r).abs().amin(dim=1) > 0.02].amax(dim=0).clamp_min(0)
        assert bool((steep <= side.rise * (1 + 1e-6) + 1e-6).all() & (side.rise <= steep + 0.05 * bend).all())


@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
def test_every_range_holds_and_that_of_a_chain_of_single_neurons_is_exact(norm: Norm) -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.Linear(3, 1), nn.Linear(1, 1), nn.Linear(1, 2)

        def forward(self, x: Tensor) -> Tensor:
            softplus = nn.functional.softplus
            return self.third(softplus(self.second(softplus(self.first(x.flatten(1)), 4.0)), 4.0))

    torch.manual_seed(1)
    network = Chain().double()
    with torch.no_grad():
        network.second.weight.fill_(1.0)
    x = torch.rand(1, 1, 1, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = changed(Classifier(network), x, 0.3, norm)
    last = list(found.layers.values())[-1]
    row = network.first.weight[0].detach()
    far = 0.3 * (row / row.norm() if norm is L2 else row.sign())
    point = network.second(nn.functional.softplus(network.first(x.flatten(1)), 4.0))
    moved = network.second(nn.functional.softplus(network.first(x.flatten(1) + far), 4.0))
    assert float(last.each) == pytest.approx(float((moved - point).abs()), rel=1e-6)
    assert float(last.each) >= float((moved - point).abs())


def test_every_range_of_larger_networks_holds_at_the_points_that_move_it_most() -> None:
    x = torch.rand(1, 1, 3, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for kind, activation in product(("deep", "residual"), ("softplus", "tanh", "elu")):
        f = classifier(kind, activation, seed=4, gain=1.5)
        found = changed(f, x, 0.5)
        network = found.point.network
        for i, layer in found.layers.items():
            B = found.point.B[i].expand(1, -1, -1)[0]
            delta = 0.5 * torch.cat([B, -B]) / B.norm(dim=1).repeat(2)[:, None].clamp_min(1e-9)
            values = network.values(x + delta.view(-1, 1, 3, 3))[network.before(i)].flatten(1)
            reached = (values - found.point.z[i]).abs().amax(dim=0)
            assert bool((reached <= layer.each[0] * (1 + 1e-12)).all())


@pytest.mark.parametrize("norm", [L2, LINF], ids=str)
@pytest.mark.parametrize("name", ATTRIBUTIONS)
def test_no_climb_exceeds_the_joint_bound(name: str, norm: Norm) -> None:
    attribution, linf = ATTRIBUTIONS[name], norm is LINF
    x = torch.rand(1, 1, 3, 3, generator=torch.Generator().manual_seed(len(name)), dtype=torch.float64)
    f, eps = classifier("deep" if "grad" in name else "strided", "softplus", seed=7, gain=1.3), 0.2
    found, before = (bound(f, x, eps, norm, effort, attribution) for effort in (1, 0))
    reached = largest_change(attribution_map(f, 0, attribution), x[0], eps, linf=linf, starts=6, steps=20)
    assert 0 < reached <= float(found.upper) <= float(before.upper) * (1 + 1e-12)


def test_the_joint_bound_of_single_neurons_is_their_change_and_that_of_small_balls_the_hessian(images) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(9, 1), nn.Softplus(1.0), nn.Linear(1, 2)).double()
    x = images(1, 1, 3, 3)
    f = Classifier(network)
    found = changed(f, x, 0.1)
    whole = Whole((parts(found).form(frozenset()),), (1.0,), (1.0,), None, None)
    estimate = MultiplierSearch.started(whole, (parts(found),), found.reach).best.estimate
    row = network[1].weight[0].detach()
    g = gradient_of(f, 0)
    true = max(float((g(x + s * 0.1 * (row / row.norm()).view(1, 1, 3, 3)) - g(x)).norm()) for s in (1, -1))
    assert true * (1 - 1e-9) <= float(estimate) <= true * 1.03

    f = classifier("deep", "softplus", seed=2)
    gradient = gradient_of(f, 0)
    H = torch.autograd.functional.jacobian(lambda z: gradient(z).flatten(), x).reshape(9, 9)
    upper = bound(f, x, 1e-6, L2, 2).upper
    assert float(upper) == pytest.approx(1e-6 * float(torch.linalg.matrix_norm(H, 2)), rel=1e-4)


def test_what_comes_back_through_the_layers_is_below_what_is_proved_of_it(images) -> None:
    found = changed(classifier("residual", "softplus", seed=3, gain=1.5), images(1, 1, 3, 3), 0.4)
    layers = list(found.layers)
    part = parts(found)
    form = part.form(frozenset(layers[:-1]))
    search = MultiplierSearch.started(Whole((form,), (1.0,), (1.0,), None, None), (part,), found.reach)
    by = search.best.choice.by[0]
    for loop, above in zip(loops(form, by), loops(form.magnitude(), by), strict=True):
        R = dense(loop.apply, 1, loop.size, like=part.norms[0][layers[0]])
        assert torch.allclose(R, R.mT, atol=1e-12)
        true = float(torch.linalg.eigvalsh(R).amax())
        assert true <= float(loop.proved(above, part.unit)) <= true * 1.001


def test_the_form_exceeds_every_change_along_every_direction(images) -> None:
    """Pointwise: u D g <= (u, v) G (u, v) / 2, for the multipliers as they start, which weigh b and e by nothing else."""
    x, eps = images(1, 1, 3, 3), 0.4
    rng = torch.Generator().manual_seed(0)
    for kind in ("deep", "residual"):
        f = classifier(kind, "softplus", seed=6, gain=1.5)
        found, g = changed(f, x, eps), gradient_of(f, 0)
        part, layers = parts(found), list(found.layers)
        for many in range(len(layers)):
            whole = Whole((part.form(frozenset(layers[:many])),), (1.0,), (1.0,), None, None)
            best = MultiplierSearch.started(whole, (part,), found.reach).best
            if not bool(best.estimate.isfinite()):
                continue
            v = torch.randn(200, 9, generator=rng, dtype=torch.float64)
            v = v / v.norm(dim=1, keepdim=True)
            moved = (g(x + eps * v.view(-1, 1, 3, 3)) - g(x)).flatten(1)
            u = moved / moved.norm(dim=1, keepdim=True)
            pair = torch.cat([u, v], dim=1)[None]
            value = (pair * best.choice.apply(whole, pair)).sum(dim=2)[0] / 2
            assert bool((moved.norm(dim=1) <= value * (1 + 1e-9)).all())


@pytest.mark.parametrize("name", ["saliency", "integrated-gradients"])
def test_a_sample_is_bounded_alone_as_among_others_and_at_an_eps_as_beside_others(name: str) -> None:
    attribution = ATTRIBUTIONS[name]
    network = read_network(classifier("deep", "softplus", seed=7, gain=1.3), (1, 3, 3), CPU)
    x = torch.rand(2, 1, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    prover, classes = Prover(network, attribution, L2, 10**9, 4), torch.zeros(2, dtype=torch.int64)
    sizes = [torch.full((2,), eps, dtype=torch.float64) for eps in (0.05, 1.0)]
    together = prover(x, classes, sizes, Draws(0, (0, 1)))
    for i in range(2):
        for size, found in zip(sizes, together, strict=True):
            (alone,) = prover(x[i : i + 1], classes[:1], [size[:1]], Draws(0, (i,)))
            # a batch rounds otherwise, and the search, which compares what it measures, makes a few digits of that
            assert float(alone.upper) == pytest.approx(float(found.upper[i]), rel=1e-5)
            assert alone.method == (found.method[i],)


def test_sweeps_are_counted_as_they_are_made_so_that_the_bar_moves_inside_a_sample(images) -> None:
    before = TALLY.derivatives
    bound(classifier("deep", "softplus", seed=2), images(1, 1, 3, 3), 0.2, L2, 2)
    assert TALLY.derivatives > before + 100
