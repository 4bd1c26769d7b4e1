"""The streamed form: nothing beats it, it is the dense formula but for rounding, and what rounding takes is in it."""

import itertools
from dataclasses import replace

import mpmath
import pytest
import torch
from reference.climbing import largest_change
from reference.smooth_networks import ACTIVATIONS, KINDS, classifier, gradient_of
from reference.streamed import dense, form
from test_proved import ATTRIBUTIONS, attribution_map
from torch import Tensor, nn

from attrcert.attributions.gradient import Saliency
from attrcert.bounds.proved import streamed
from attrcert.bounds.proved.bound import ProvedBound, sample_bytes
from attrcert.bounds.proved.choosing import FittingProver
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.nodes import path
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.reading import read_network
from attrcert.bounds.proved.streamed_form import Fractions, Ranged, StreamedForm, matrices
from attrcert.bounds.proved.streamed_search import StreamedSum, searched
from attrcert.bounds.proved.streams import in_precision, streams
from attrcert.bounds.proved.sweeps import Sweeps, curvature
from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.vocabulary import Norm

CPU = torch.device("cpu")
L2, LINF = Norm.parse("l2"), Norm.parse("linf")
NORMS = pytest.mark.parametrize("norm", [L2, LINF], ids=str)
EXACT = torch.float64
TARGET = torch.tensor([0])


def read(f: Classifier, x: Tensor) -> Network:
    return read_network(f, tuple(x.shape[1:]), CPU)


def ball(eps: float, norm: Norm) -> Reach:
    return Reach(torch.tensor([eps]).double(), norm)


def bounds(
    f: Classifier, x: Tensor, eps: tuple[float, ...], norm: Norm, attribution=None, kind=None
) -> list[ProvedBound]:
    nodes = path(attribution or Saliency(), x)
    return streamed.streamed_bounds(read(f, x), nodes, TARGET, [ball(one, norm) for one in eps], 4, kind)


def at(f: Classifier, x: Tensor, eps: float, norm: Norm = L2, kind: torch.dtype = EXACT) -> streamed.At:
    return streamed._at(read(f, x), x, TARGET, [ball(eps, norm)], (1.0, 1.0), kind)


def image(seed: int) -> Tensor:
    return torch.rand(1, 1, 3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(120))
def test_no_climb_exceeds_the_streamed_bound_of_random_networks(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    activation = list(ACTIVATIONS)[seed // len(KINDS) % len(ACTIVATIONS)]
    size, gain = torch.rand(2, generator=rng, dtype=torch.float64).tolist()
    f = classifier(list(KINDS)[seed % len(KINDS)], activation, seed=seed, gain=0.3 + 2 * gain)
    eps, norm = 0.5 * 10 ** (-3 * size), LINF if seed % 3 == 0 else L2
    (found,) = bounds(f, image(seed), (eps,), norm, kind=torch.float32 if seed % 2 else EXACT)
    reached = largest_change(gradient_of(f, 0), image(seed)[0], eps, linf=norm is LINF, starts=4, steps=10)
    assert reached <= float(found.upper)
    assert found.method == ("streamed",)


@NORMS
@pytest.mark.parametrize("name", ATTRIBUTIONS)
def test_no_climb_exceeds_the_streamed_bound_of_an_attribution(name: str, norm: Norm) -> None:
    x, attribution = image(len(name)), ATTRIBUTIONS[name]
    for kind, eps in itertools.product(("residual", "strided"), (0.01, 0.1)):
        f = classifier(kind, "softplus", seed=3)
        (found,) = bounds(f, x, (eps,), norm, attribution)
        reached = largest_change(attribution_map(f, 0, attribution), x[0], eps, linf=norm is LINF, starts=8)
        assert 0 < reached <= float(found.upper) <= 3 * reached
        torch.testing.assert_close(found.value, attribution_map(f, 0, attribution)(x).flatten(1))


@NORMS
@pytest.mark.parametrize("kind", ["deep", "residual", "strided"])
def test_ranges_and_form_are_those_of_dense_jacobians(kind: str, norm: Norm) -> None:
    x, eps = image(5), 0.05
    f = classifier(kind, "tanh" if kind == "deep" else "softplus", seed=2, gain=1.3)
    found, slow = at(f, x, eps, norm), dense(read(f, x), x, TARGET, eps, norm.dual)
    close = {
        "rtol": 1e-7 if norm is LINF else 3e-4,
        "atol": 1e-12,
    }  # in l2 energies are proved, about 1e-4 above the eigenvalues
    for i, moved in found.moved.items():
        bent = found.bends.found[i]
        torch.testing.assert_close(moved.apart[:, 0], slow.apart[i], **close)
        torch.testing.assert_close(moved.each[:, 0], slow.each[i], **close)
        torch.testing.assert_close(bent.radius[:, 0], slow.radius[i], **close)
        torch.testing.assert_close(bent.loose[:, 0], slow.loose[i], **close)
        torch.testing.assert_close(bent.rows, torch.linalg.vector_norm(slow.U[i], norm.dual, dim=1), **close)
    torch.testing.assert_close(found.bends.each[:, 0], slow.change, **close)
    whole = StreamedSum((found.node(0),), None, None)
    choice = searched(whole, ball(eps, norm), 3)
    by = [{i: part[0] for i, part in one.items()} for one in vars(choice.by[0]).values()]
    G, constant = form(slow, (by[0], by[1], by[2]), choice.shape[0])
    top = float(torch.linalg.eigvalsh(G)[-1])
    assert constant == pytest.approx(found.form(0).weights(choice.by[0]).constant / 2, rel=2e-3)
    assert choice.estimate == pytest.approx(top + constant, rel=1e-6 if norm is LINF else 3e-4)
    (part,) = matrices(found.streams, found.curvature, [whole.nodes[0].form], choice.by)
    proved = streamed._proved([found], [part], choice, ball(eps, norm), whole)
    assert (top + constant) * (1 - 1e-9) <= proved <= (top + constant) * (1 + 3e-3)


@NORMS
def test_the_bound_of_small_balls_is_that_of_the_hessian(norm: Norm) -> None:
    x, eps = image(1), 1e-7
    f = classifier("residual", "softplus", seed=1)
    (found,) = bounds(f, x, (eps,), norm)
    H = torch.autograd.functional.jacobian(lambda z: gradient_of(f, 0)(z).flatten(), x.requires_grad_()).reshape(9, 9)
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 9)
    truth = float(torch.linalg.matrix_norm(H, 2) if norm is L2 else (signs @ H).norm(dim=1).max())
    assert eps * truth <= float(found.upper) <= eps * truth * (1.001 if norm is L2 else 1.2)


def test_a_single_neuron_is_as_its_curve_bends() -> None:
    x, eps = image(2), 0.3
    network = (
        nn.Sequential(nn.Flatten(), nn.Linear(9, 1), nn.Softplus(1.0), nn.Linear(1, 2)).double().requires_grad_(False)
    )
    network[1].bias.fill_(2.0 - float(network[1].weight @ x.flatten()))  # z = 2, where s'' falls
    (found,) = bounds(Classifier(network), x, (eps,), L2)
    row, F = network[1].weight[0], float(network[3].weight[0, 0].abs())
    t = eps * float(row.norm())
    slope = [float(torch.sigmoid(torch.tensor(z).double())) for z in (2 - t, 2.0)]
    exact = F * (slope[1] - slope[0]) * float(row.norm())  # the change towards the bend
    assert exact <= float(found.upper) <= exact * (1 + 2e-4)


def test_several_balls_at_once_are_as_each_alone_but_for_the_profile_of_the_largest() -> None:
    f, x = classifier("residual", "softplus", seed=6), image(6)
    together = bounds(f, x, (0.01, 0.1), L2, kind=EXACT)
    alone = [bounds(f, x, (eps,), L2, kind=EXACT)[0] for eps in (0.01, 0.1)]
    assert float(together[1].upper) == pytest.approx(float(alone[1].upper), rel=1e-9)
    for one, other in zip(together, alone, strict=True):
        # the weights of energies are those of the largest ball: any are valid
        assert float(one.upper) == pytest.approx(float(other.upper), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_float32_are_bounded_as_if_they_were_exact(kind: str) -> None:
    f, x = classifier(kind, "softplus", seed=8, gain=1.5), image(8)
    fast, slow = at(f, x, 0.05, kind=torch.float32), dense(read(f, x), x, TARGET, 0.05, 2.0)
    differ = 0
    for i, moved in fast.moved.items():
        bent, pairs = fast.bends.found[i], []
        pairs += [
            (moved.rows, slow.B[i].norm(dim=1)),
            (moved.apart[:, 0], slow.apart[i]),
            (moved.each[:, 0], slow.each[i]),
        ]
        pairs += [(bent.radius[:, 0], slow.radius[i]), (bent.rows, slow.U[i].norm(dim=1))]
        for mine, exact in pairs:
            assert bool((mine >= exact * (1 - 1e-13)).all())
            assert bool((mine <= exact * 1.01 + 1e-6).all())
            differ += int((mine > exact * (1 + 1e-9)).sum())
    assert differ > 0
    assert bool((fast.bends.each[:, 0] >= slow.change).all())


def cancelling() -> tuple[Classifier, Tensor]:
    """Three activations; before the second come two affine layers, and the large weights of the latter nearly cancel."""
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Flatten(), nn.Linear(4, 8), nn.Softplus(2.0), nn.Linear(8, 8), nn.Linear(8, 8), nn.Softplus(2.0)),
        *(nn.Linear(8, 6), nn.Softplus(2.0), nn.Linear(6, 2)),
    ).double()
    network.requires_grad_(False)
    first, second = network[3], network[4]
    first.weight[4:], first.bias[4:] = first.weight[:4] + 1e-6 * first.weight[4:], first.bias[:4]
    half = 1e5 * second.weight[:, :4]
    second.weight[:, :4], second.weight[:, 4:] = half, -half
    return Classifier(network), torch.rand(1, 1, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@NORMS
@pytest.mark.parametrize("eps", [1e-9, 1e-2])
def test_rows_that_cancel_in_float32_are_bounded_as_if_they_were_exact(norm: Norm, eps: float) -> None:
    f, x = cancelling()
    fast, slow = at(f, x, eps, norm, torch.float32), dense(read(f, x), x, TARGET, eps, norm.dual)
    wrong = 0
    for i, moved in fast.moved.items():
        unit, ready = torch.eye(len(moved.rows)), fast.streams
        N: dict[int, Tensor] = {}
        computed = ready.pulled(i, unit, N.__setitem__).double()
        off = torch.linalg.vector_norm(computed - slow.B[i], norm.dual, dim=1)
        assert bool((off <= moved.lost / ready.exact).all())
        assert bool((moved.rows >= torch.linalg.vector_norm(slow.B[i], norm.dual, dim=1)).all())
        assert bool((moved.apart[:, 0] >= slow.apart[i]).all())
        assert bool((fast.bends.found[i].rows >= torch.linalg.vector_norm(slow.U[i], norm.dual, dim=1)).all())
        wrong += int((off > 1e-4 * slow.B[i].norm(dim=1)).sum())
    assert wrong > 0
    assert bool((fast.bends.each[:, 0] >= slow.change).all())


def steep() -> tuple[Classifier, Tensor]:
    """Biases take back what large weights give: z and so the slopes lose digits, and the rows do not cancel."""
    f, x = cancelling()
    first, second = f.network[3], f.network[4]
    first.weight.copy_(torch.eye(8, dtype=torch.float64))
    second.weight.copy_(1e5 * torch.rand(8, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    second.bias.sub_(f.network[:5](x)[0])
    return f, x


@pytest.mark.parametrize("made", [cancelling, steep])
def test_what_float64_leaves_open_of_z_and_of_gradients_holds_in_many_digits(made) -> None:
    f, x = made()
    found = at(f, x, 1e-9)
    with mpmath.workdps(60):
        a, zs = mpmath.matrix(x.flatten().tolist()), []
        layers = list(f.network)[1:]
        for layer in layers:
            if isinstance(layer, nn.Linear):
                a = mpmath.matrix(layer.weight.tolist()) * a + mpmath.matrix(layer.bias.tolist())
            else:
                zs.append(a)
                a = a.apply(lambda t: mpmath.log1p(mpmath.exp(2 * t)) / 2)
        back, behind = mpmath.matrix([[1, 0]]), list(zs)
        for layer in reversed(layers):
            if isinstance(layer, nn.Linear):
                back = back * mpmath.matrix(layer.weight.tolist())
            else:
                z = behind.pop()
                back = mpmath.matrix([[back[0, k] / (1 + mpmath.exp(-2 * z[k])) for k in range(len(z))]])
        seen: list[float] = []
        for (i, moved), z in zip(found.moved.items(), zs, strict=True):
            off = [
                abs(float(mpmath.mpf(one) - other)) for one, other in zip(found.point.z[i][0].tolist(), z, strict=True)
            ]
            seen.append(max(off))
            assert all(one <= other for one, other in zip(off, moved.off.tolist(), strict=True))
        wrong = [abs(float(mpmath.mpf(one) - back[0, k])) for k, one in enumerate(found.point.gradient[0].tolist())]
    assert min(seen[1:]) > 1e-13  # the second layer's own, and what the third gets of it
    assert max(wrong) > 1e-14
    assert all(one <= other for one, other in zip(wrong, found.bends.off.tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_what_sweeps_lose_is_below_what_is_added(kind: str) -> None:
    """As float32 would have them, against the same weights in float64."""
    f, x, eps = classifier(kind, "softplus", seed=9, gain=1.5), image(9), 0.02
    found = at(f, x, eps)
    form = found.form(0)
    by = searched(StreamedSum((found.node(0),), None, None), ball(eps, L2), 1).by
    exact = matrices(found.streams, found.curvature, [form], by)[0]
    slope = {i: part.float() for i, part in found.point.slope.items()}
    single = streams(in_precision(found.streams.network, torch.float32), slope, torch.float32)
    assert single.exact == 1
    growth = torch.finfo(torch.float32).eps / torch.finfo(EXACT).eps
    layers = {}
    for i, layer in form.layers.items():
        lost = (replace(part, lost=part.lost * growth) for part in (layer.moved, layer.bent))
        layers[i] = Ranged(
            *(part.float() for part in (layer.apart, layer.radius, layer.loose, layer.unsure)), layer.beyond, *lost
        )
    c = {i: part.float() for i, part in form.c.items()}
    fewer = Fractions(*({i: part.float() for i, part in one.items()} for one in vars(by[0]).values()))
    rough = curvature(Sweeps(single.network, slope), c, 2.0)
    low = matrices(single, rough, [StreamedForm(c, layers)], [fewer])[0]
    for mine, true, off in (
        (low.P, exact.P, low.off[0]),
        (rough.M, found.curvature.M, low.off[1]),
        (low.Q, exact.Q, low.off[2]),
    ):
        lost = float(torch.linalg.matrix_norm(mine.double() - true, 2))
        assert lost <= off <= 1e-2 * float(torch.linalg.matrix_norm(true, 2)) + 1e-25
    assert all(one < 1e-6 * other + 1e-25 for one, other in zip(exact.off, low.off, strict=True))


def test_what_does_not_fit_is_streamed_and_gives_about_the_same() -> None:
    f, x, eps = (
        classifier("residual", "softplus", seed=4),
        torch.cat([image(4), image(5)]),
        [torch.tensor([0.01, 0.02]).double()] * 2,
    )
    network = read(f, x)
    classes = torch.tensor([0, 1])
    dense_bytes = sample_bytes(network, 2)
    usual, small = (
        FittingProver(network, Saliency(), L2, memory, 4)(x, classes, eps, Draws(0, (0, 1)))[1]
        for memory in (10**9, dense_bytes - 1)
    )
    assert small.method == ("streamed", "streamed")
    assert "streamed" not in usual.method
    assert small.upper.tolist() == pytest.approx(usual.upper.tolist(), rel=0.1)
    torch.testing.assert_close(small.value, usual.value)


def test_a_deep_network_whose_moduli_leave_no_digits_is_streamed() -> None:
    torch.manual_seed(0)
    width, many = 24, 40
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(9, width)]
    for _ in range(many):
        layers += [nn.Softplus(5.0), nn.Linear(width, width)]
    network = nn.Sequential(*layers).double().requires_grad_(False)
    for layer in layers[3::2]:
        layer.weight.copy_(1.5 * torch.linalg.qr(torch.randn(width, width, dtype=torch.float64))[0])
    f, x = Classifier(network), image(3)
    found = FittingProver(read(f, x), Saliency(), L2, 10**9, 4)(
        x, TARGET, [torch.tensor([1e-5]).double()], Draws(0, (0,))
    )[0]
    reached = largest_change(gradient_of(f, 0), x[0], 1e-5, linf=False, starts=4, steps=10)
    assert found.method == ("streamed",)
    assert reached <= float(found.upper) <= 2 * reached


@NORMS
def test_a_network_without_activations_moves_its_inputs_alone(norm: Norm) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(9, 2)).double()
    (still,), (times,) = (
        bounds(Classifier(network), image(0), (0.5,), norm, ATTRIBUTIONS[name]) for name in list(ATTRIBUTIONS)[:2]
    )
    g = network[1].weight[0].detach()
    exact = 0.5 * float(g.abs().max() if norm is L2 else g.norm())
    assert float(still.upper) == 0
    assert exact <= float(times.upper) <= exact * (1 + 1e-8)
