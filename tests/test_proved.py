"""The proved bound: no perturbation exceeds it, single neurons attain it, and lowering any part of it by a hundredth is seen."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from reference.climbing import largest_change
from reference.smooth_networks import ACTIVATIONS, KINDS, chain, classifier, gradient_of
from torch import Tensor, nn

from attrcert.attributions.baselines import Blurred, Constant
from attrcert.attributions.gradient import Saliency
from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.attributions.smoothed import UniformSmooth
from attrcert.bounds.proved import reach as reaching
from attrcert.bounds.proved import secant
from attrcert.bounds.proved.bound import ProvedBound, Prover
from attrcert.bounds.proved.curves import Range
from attrcert.bounds.proved.point import at_points
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.reading import read_network
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.networks.classifier import Classifier
from attrcert.types import Attribution
from attrcert.vocabulary import Norm

CPU = torch.device("cpu")
L2, LINF = Norm.parse("l2"), Norm.parse("linf")
NORMS = pytest.mark.parametrize("norm", [L2, LINF], ids=str)
MEMORY = 10**9
ATTRIBUTIONS: dict[str, Attribution] = {
    "saliency": Saliency(),
    "input-x-gradient": InputTimesGradient(),
    "integrated-gradients": IntegratedGradients(steps=3),
    "ig from grey": IntegratedGradients(steps=2, quadrature="riemann-right", baseline=Constant((0.5,))),
}


def bound(
    f: Classifier,
    x: Tensor,
    eps: float | Tensor,
    norm: Norm,
    *,
    target: int = 0,
    attribution: Attribution | None = None,
) -> ProvedBound:
    network = read_network(f, tuple(x.shape[1:]), CPU)
    sizes = torch.as_tensor(eps, dtype=torch.float64).expand(len(x))
    prover = Prover(network, attribution or Saliency(), norm, MEMORY)
    return prover(x, torch.full((len(x),), target), [sizes], Draws(0, tuple(range(len(x)))))[0]


def attribution_map(f: Classifier, target: int, attribution: Attribution) -> Callable[[Tensor], Tensor]:
    """The attribution written out again, differentiable."""
    gradient = gradient_of(f, target)
    if isinstance(attribution, Saliency):
        return gradient
    if isinstance(attribution, InputTimesGradient):
        return lambda z: z * gradient(z)
    assert isinstance(attribution, IntegratedGradients)
    nodes, weights = (part.tolist() for part in attribution.rule(torch.zeros(1, dtype=torch.float64)))
    base = attribution.baseline(torch.zeros(1, 1, 3, 3, dtype=torch.float64))
    return lambda z: (z - base) * sum(w * gradient(base + a * (z - base)) for a, w in zip(nodes, weights, strict=True))


# soundness


@NORMS
@pytest.mark.parametrize(
    ("kind", "activation"), [*product(KINDS, ["softplus", "tanh"]), *product(["deep"], ACTIVATIONS)]
)
def test_no_climb_exceeds_the_bound(kind: str, activation: str, norm: Norm, images) -> None:
    f, x = classifier(kind, activation, seed=len(activation)), images(2, 1, 3, 3)
    for eps in (1e-3, 0.05, 0.4):
        upper = bound(f, x, eps, norm, target=1).upper
        for i in range(len(x)):
            reached = largest_change(gradient_of(f, 1), x[i], eps, linf=norm is LINF)
            assert reached <= float(upper[i])


@pytest.mark.parametrize("name", ATTRIBUTIONS)
@NORMS
def test_no_climb_exceeds_the_bound_of_an_attribution(name: str, norm: Norm, images) -> None:
    attribution, x = ATTRIBUTIONS[name], images(2, 1, 3, 3)
    for kind, eps in product(("convolutional", "residual"), (0.02, 0.3)):
        f = classifier(kind, "softplus", seed=3)
        upper = bound(f, x, eps, norm, attribution=attribution).upper
        for i in range(len(x)):
            reached = largest_change(attribution_map(f, 0, attribution), x[i], eps, linf=norm is LINF, starts=8)
            assert 0 < reached <= float(upper[i])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    seed=st.integers(0, 10**6),
    gain=st.floats(0.2, 4.0),
    beta=st.floats(0.5, 30.0),
    eps=st.floats(1e-6, 3.0),
    linf=st.booleans(),
)
def test_ten_thousand_perturbations_stay_below_the_bound(
    kind: str, activation: str, seed: int, gain: float, beta: float, eps: float, linf: bool
) -> None:
    f = classifier(kind, activation, seed=seed, gain=gain, beta=beta)
    x = torch.rand(1, 1, 3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    upper = float(bound(f, x, eps, LINF if linf else L2).upper)
    rng = torch.Generator().manual_seed(seed + 1)
    delta = torch.randn(10_000, 1, 3, 3, generator=rng, dtype=torch.float64)
    delta = eps * (delta.sign() if linf else delta / delta.flatten(1).norm(dim=1).view(-1, 1, 1, 1))
    delta *= torch.rand(10_000, 1, 1, 1, generator=rng, dtype=torch.float64).sqrt()
    gradient = gradient_of(f, 0)
    far = (gradient(x + delta) - gradient(x)).flatten(1).norm(dim=1)
    assert float(far.max()) <= upper
    assert largest_change(gradient, x[0], eps, linf=linf, starts=6, steps=15) <= upper


@NORMS
def test_every_enclosure_of_the_proof_holds_at_random_points(norm: Norm, images) -> None:
    eps, x = 0.5, images(1, 1, 3, 3)
    for kind in KINDS:
        network = read_network(classifier(kind, "softplus", seed=5), (1, 3, 3), CPU)
        point = at_points(network, x, torch.tensor([2]))
        found = secant.change(point, Reach(torch.tensor([eps], dtype=torch.float64), norm))
        for seed in range(40):
            delta = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            delta = eps * (delta.sign() if norm is LINF else delta / delta.norm())
            moved = at_points(network, x + delta, torch.tensor([2]))
            total = torch.zeros_like(point.gradient)
            for i, layer in found.layers.items():
                dz = moved.z[i] - point.z[i]
                curve = network.curve(i)
                sigma = (curve.value(moved.z[i]) - curve.value(point.z[i])) / dz
                q = (moved.slope[i] - point.slope[i]) / dz * moved.F[i]
                assert bool((dz.abs() <= layer.each * (1 + 1e-12)).all())
                off = dz - torch.einsum("cnd,bd->bn", layer.C, delta.flatten(1))
                assert bool((off.abs() <= layer.error + 1e-12).all())
                assert bool((layer.sigma.low - 1e-9 <= sigma).all() & (sigma <= layer.sigma.high + 1e-9).all())
                assert bool((found.q[i].low - 1e-7 <= q).all() & (q <= found.q[i].high + 1e-7).all())
                assert float((layer.sigma.radius * dz.square()).sum().sqrt()) <= float(layer.together) * (1 + 1e-12)
                total += torch.einsum("cnd,bn->bd", point.B[i], q * dz)
            change = moved.gradient - point.gradient
            torch.testing.assert_close(total, change, rtol=1e-6, atol=1e-9)  # the identity (1) of the proof
            assert bool((change.abs() <= found.each * (1 + 1e-12)).all())


# exact cases


@NORMS
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("eps", [1e-4, 0.3])
def test_a_chain_of_single_neurons_attains_the_bound(depth: int, eps: float, norm: Norm) -> None:
    f, x = chain(depth), torch.full((1, 1, 1, 1), 0.4, dtype=torch.float64)
    gradient = gradient_of(f, 0)
    change = float((gradient(x + eps) - gradient(x)).abs())
    # the allowance is 1e-9; the small change is a difference of numbers 1e4 times larger
    assert change * (1 - 1e-10) <= float(bound(f, x, eps, norm).upper) <= change * (1 + 2e-9 + 1e-11 / eps)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus", "gelu", "silu"])
@pytest.mark.parametrize("eps", [1e-6, 1e-8, 1e-10, 1e-12])
def test_rounding_makes_no_small_ball_too_easy(activation: str, eps: float) -> None:
    linear = nn.Linear(1, 1).double()
    linear.weight.data.fill_(1.0)
    linear.bias.data.fill_(0.3)
    f = Classifier(nn.Sequential(nn.Flatten(), linear, ACTIVATIONS[activation]()).eval().requires_grad_(False))
    x = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    bend = float(torch.autograd.functional.hessian(lambda z: f(z).sum(), x).flatten())
    # to first order the change is |s''| eps; |s''' / s''| / 2 is below 5 for all of these
    assert float(bound(f, x, eps, L2).upper) >= abs(bend) * eps * (1 - 5 * eps)


def test_tiny_attributions_are_bounded_too() -> None:
    f, x = chain(1, beta=97.0), torch.full((1, 1, 1, 1), -1.0, dtype=torch.float64)
    gradient = gradient_of(f, 0)
    change = float((gradient(x + 0.003) - gradient(x)).abs())
    assert 0 < change < 1e-150
    assert float(bound(f, x, 0.003, L2).upper) >= change


def shrunk_range(function: Callable[..., Range]) -> Callable[..., Range]:
    """The range a hundredth narrower, at its upper end."""

    def narrower(*args: Any) -> Range:
        full = function(*args)
        return Range(full.low, full.high - 0.01 * (full.high - full.low))

    return narrower


LOWERED: dict[str, tuple[Any, str]] = {
    "secants": (secant, "secants"),
    "bends": (secant, "bends"),
    "rows": (Reach, "each_row"),
    "weighted rows": (Reach, "weighted"),
    "the matrix": (Reach, "whole"),
    "norms": (secant, "gram_norm"),
    "eigenvalues": (reaching, "proved_eigenvalue"),
    "entries": (Reach, "entries"),
}


@pytest.mark.parametrize("part", LOWERED)
def test_lowering_a_part_of_the_bound_by_a_hundredth_is_seen(part: str, monkeypatch) -> None:
    f, x, eps = chain(2), torch.full((1, 1, 1, 1), 0.4, dtype=torch.float64), 0.3
    attribution = InputTimesGradient()  # a chain attains its bound too, with the term of second order
    g = attribution_map(f, 0, attribution)
    change = float((g(x + eps) - g(x)).abs())
    assert change <= float(bound(f, x, eps, L2, attribution=attribution).upper) <= change * (1 + 2e-9)
    home, name = LOWERED[part]
    whole = getattr(home, name)
    lowered = (
        shrunk_range(whole) if part in ("secants", "bends") else lambda *args, **options: 0.99 * whole(*args, **options)
    )
    monkeypatch.setattr(home, name, lowered)
    assert float(bound(f, x, eps, L2, attribution=attribution).upper) < change


@NORMS
def test_a_small_ball_gives_the_first_order_bound(norm: Norm, images) -> None:
    x, eps = images(1, 1, 3, 3), 1e-8
    for kind in KINDS:
        f = classifier(kind, "tanh", seed=2)
        H = torch.autograd.functional.jacobian(lambda z, f=f: gradient_of(f, 0)(z).flatten(), x).reshape(9, 9)
        signs = torch.tensor(list(product((-1.0, 1.0), repeat=9)), dtype=torch.float64)
        exact = float((signs @ H).norm(dim=1).max() if norm is LINF else torch.linalg.matrix_norm(H, 2))
        slack = 1e-6 if norm is L2 else 0.2533  # sqrt(pi/2) at most, by Nesterov
        assert exact * (1 - 1e-6) <= float(bound(f, x, eps, norm).upper) / eps <= exact * (1 + slack)


@NORMS
def test_a_network_without_activations_does_not_move(norm: Norm, images) -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2, 3)).double().eval()
    assert bound(Classifier(network), images(2, 1, 3, 3), 0.5, norm).upper.tolist() == [0.0, 0.0]


def test_the_networks_of_the_derivations_have_smaller_bounds_than_eps_times_their_largest_curvature() -> None:
    first, second = nn.Linear(2, 3).double(), nn.Linear(3, 2).double()
    first.weight.data = torch.tensor([[1, -1], [0.5, 2], [0, 1]], dtype=torch.float64)
    first.bias.data = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)
    second.weight.data = torch.tensor([[1, 0.5, -1], [-0.3, 0.8, 0.2]], dtype=torch.float64)
    second.bias.data = torch.tensor([0, 0.1], dtype=torch.float64)
    x = torch.tensor([[0.7, 0.2]], dtype=torch.float64)

    def with_output(*weights: float) -> nn.Linear:
        last = nn.Linear(len(weights), 1).double()
        last.weight.data = torch.tensor([weights], dtype=torch.float64)
        return last

    shallow = nn.Sequential(first, nn.Softplus(2.0), with_output(1, -1, 0.5))
    deep = nn.Sequential(first, nn.Softplus(2.0), second, nn.Softplus(2.0), with_output(1, -0.7))
    # K(.5) = 2.125 of the shallow one, K(.1) = 1.7407043559 of the deep one
    for network, eps, golden in ((shallow, 0.5, 0.5 * 2.125), (deep, 0.1, 0.1 * 1.7407043559)):
        f = Classifier(network.eval().requires_grad_(False))
        upper = float(bound(f, x, eps, L2).upper)
        assert largest_change(gradient_of(f, 0), x[0], eps, linf=False) <= upper <= golden


def test_one_node_of_integrated_gradients_from_black_is_input_times_gradient(images) -> None:
    f, x = classifier("deep", "softplus"), images(2, 1, 3, 3)
    one = IntegratedGradients(steps=1, quadrature="riemann-right")
    for norm in (L2, LINF):
        parts = [bound(f, x, 0.2, norm, attribution=attribution) for attribution in (one, InputTimesGradient())]
        torch.testing.assert_close(parts[0].upper, parts[1].upper, rtol=1e-12, atol=0)
        torch.testing.assert_close(parts[0].length, parts[1].length, rtol=1e-12, atol=0)


# invariances


def test_the_bound_scales_with_the_logits_and_leaves_the_angle_alone(images) -> None:
    f, x = classifier("deep", "softplus"), images(1, 1, 3, 3)
    before = bound(f, x, 0.1, L2)
    last = f.network[-1]
    last.weight.data *= 7.0
    last.bias.data *= 7.0
    after = bound(f, x, 0.1, L2)
    torch.testing.assert_close(after.upper, 7 * before.upper, rtol=1e-9, atol=0)
    torch.testing.assert_close(after.upper / after.length, before.upper / before.length, rtol=1e-9, atol=0)


@NORMS
def test_samples_of_a_batch_have_the_bounds_that_they_have_alone(norm: Norm, images) -> None:
    f, x = classifier("residual", "softplus"), images(5, 1, 3, 3)
    eps = torch.tensor([0.01, 0.1, 0.2, 0.3, 0.6], dtype=torch.float64)
    together = bound(f, x, eps, norm).upper
    alone = torch.cat([bound(f, x[i : i + 1], float(eps[i]), norm).upper for i in range(5)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=0)  # linf: the search for D has its own draws
    network = read_network(f, (1, 3, 3), CPU)
    few = Prover(network, Saliency(), norm, 1)(x, torch.zeros(5, dtype=torch.int64), [eps], Draws(0, tuple(range(5))))
    torch.testing.assert_close(few[0].upper, together, rtol=1e-5, atol=0)


@NORMS
def test_several_balls_at_once_have_the_bounds_of_each_alone(norm: Norm, images) -> None:
    f, x = classifier("convolutional", "softplus"), images(2, 1, 3, 3)
    sizes = [torch.full((2,), eps, dtype=torch.float64) for eps in (0.01, 0.3)]
    prover = Prover(read_network(f, (1, 3, 3), CPU), IntegratedGradients(steps=2), norm, MEMORY)
    y, draws = torch.zeros(2, dtype=torch.int64), Draws(0, (0, 1))
    for one, together in zip(sizes, prover(x, y, sizes, draws), strict=True):
        torch.testing.assert_close(prover(x, y, [one], draws)[0].upper, together.upper, rtol=1e-12, atol=0)


def test_a_larger_ball_has_a_larger_bound(images) -> None:
    x = images(1, 1, 3, 3)
    for kind in KINDS:
        f = classifier(kind, "softplus", seed=1)
        sizes = torch.tensor([0.01 * 1.5**k for k in range(14)], dtype=x.dtype)
        bounds = bound(f, x.expand(14, -1, -1, -1), sizes, L2).upper.tolist()
        assert bounds == sorted(bounds)


@pytest.mark.parametrize("attribution", [UniformSmooth(), IntegratedGradients(baseline=Blurred())], ids=["us", "blur"])
def test_attributions_without_a_proof_are_refused(attribution: Attribution, images) -> None:
    with pytest.raises(
        UsageError, match=r"proved bounds (are for saliency|of integrated-gradients need a constant baseline)"
    ):
        bound(classifier("deep", "tanh"), images(1, 1, 3, 3), 0.1, L2, attribution=attribution)


def test_the_smaller_of_two_bounds_is_kept_with_its_method() -> None:
    value, exact = torch.ones(2, 3, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    one = ProvedBound(torch.tensor([1.0, 4.0], dtype=torch.float64), value, ("secant", "secant"), exact, exact)
    other = ProvedBound(torch.tensor([2.0, 3.0], dtype=torch.float64), value, ("interval", "interval"), exact, exact)
    kept = one.at_most(other)
    assert (kept.upper.tolist(), kept.method) == ([1.0, 3.0], ("secant", "interval"))


def cancelling(activation: nn.Module, scale: float, seed: int) -> tuple[Classifier, torch.Tensor]:
    """One hidden unit of 16 inputs, whose large weights cancel to a z of order one."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.rand(1, 1, 4, 4, generator=rng, dtype=torch.float64)
    w = scale * torch.randn(16, generator=rng, dtype=torch.float64)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 1), activation, nn.Linear(1, 2)).double()
    network[1].weight.data, network[1].bias.data = w[None], 0.3 - x.flatten(1) @ w
    network[3].weight.data = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    return Classifier(network.requires_grad_(False)), x


@NORMS
@pytest.mark.parametrize("name", ["tanh", "softplus"])
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e8, 1e12])
def test_weights_that_cancel_leave_no_bound_too_small(scale: float, name: str, norm: Norm) -> None:
    """Against the change of the gradient along the weights, both ways, in forty digits; while digits are left, the bound is close."""
    activation, slope = {
        "tanh": (nn.Tanh(), lambda z: mp.sech(z) ** 2),
        "softplus": (nn.Softplus(), lambda z: 1 / (1 + mp.exp(-z))),
    }[name]
    for seed in range(10):
        f, x = cancelling(activation, scale, seed)
        w, bias = f.network[1].weight[0], f.network[1].bias[0]
        dual = w.norm() if norm is L2 else w.abs().sum()
        moves = (1e-6, 1e-2, 0.3)  # of z
        sizes = [float(move / dual) for move in moves]
        uppers = bound(f, x.expand(3, -1, -1, -1), torch.tensor(sizes, dtype=x.dtype), norm).upper.tolist()
        for move, eps, upper in zip(moves, sizes, uppers, strict=True):
            with mp.workdps(40):
                z = mp.fdot(w.tolist(), x.flatten().tolist()) + mp.mpf(float(bias))
                row = mp.sqrt(mp.fsum(mp.mpf(part) ** 2 for part in w.tolist()))
                way = row if norm is L2 else mp.fsum(abs(mp.mpf(part)) for part in w.tolist())
                reached = row * max(abs(slope(z + s * eps * way) - slope(z)) for s in (-1, 1))
            assert upper >= reached
            if scale * 1e-15 <= 1e-7 * move:
                assert upper <= 1.001 * reached


def test_a_kink_right_beside_z_is_seen() -> None:
    """ELU a hair above 0, where z + t forgets z: along -1 everywhere a hundred units bend at once."""
    d = 100
    network = nn.Sequential(nn.Flatten(), nn.Linear(d, d), nn.ELU(), nn.Linear(d, 2)).double().requires_grad_(False)
    network[1].weight.data, network[1].bias.data = torch.eye(d).double(), torch.full((d,), 1e-33).double()
    network[3].weight.data, network[3].bias.data = torch.ones(2, d).double(), torch.zeros(2).double()
    f, x = Classifier(network), torch.zeros(1, 1, 10, 10, dtype=torch.float64)
    gradient = gradient_of(f, 0)
    moved = float((gradient(x - 1) - gradient(x)).norm())
    assert moved <= float(bound(f, x, 10.0, L2).upper[0])


class Cancelling(nn.Module):
    """A linear part of size c that is the difference of two of size s, beside a tanh of size k."""

    def __init__(self, s: float, c: float, k: float) -> None:
        super().__init__()
        self.first, self.second, self.k = nn.Linear(1, 3, bias=False), nn.Linear(3, 1, bias=False), k
        self.first.weight.data = torch.tensor([[s], [c], [s]])
        self.second.weight.data = torch.tensor([[1.0, 1.0, -1.0]])

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.second(self.first(flat)) + self.k * torch.tanh(flat + 0.3)


@pytest.mark.parametrize(("s", "c", "k"), [(2.0**54, 1.0, 1e-3), (1e12, 4e-5, 1e-6), (1e8, 4e-9, 1e-9)])
def test_a_gradient_that_cancelled_is_not_taken_for_exact(s: float, c: float, k: float) -> None:
    """Input x gradient moves by c eps at least, however much of c rounding has taken; and no angle follows from a length it made up."""
    f = Classifier(Cancelling(s, c, k).double().requires_grad_(False))
    x = torch.full((1, 1, 1, 1), 0.5, dtype=torch.float64)
    found = bound(f, x, 0.1, L2, attribution=InputTimesGradient())
    assert float(found.upper[0]) >= 0.1 * float(torch.tensor(c))
    assert float(found.length[0]) <= 0.5 * (c + k)


class Shared(nn.Module):
    """A unit that goes into a sum a thousand times between two large terms that cancel."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(x.flatten(1))
        y = h * 2.0**55
        for _ in range(1000):
            y = y + h * 1.9
        return y - h * 2.0**55


def test_sums_of_many_successors_are_counted() -> None:
    f, x = Classifier(Shared()), torch.full((1, 1, 1, 1), 0.4, dtype=torch.float64)
    with mp.workdps(40):
        slope = [1900 * mp.sech(mp.mpf(0.4) + mp.mpf(d)) ** 2 for d in (0.0, 0.1)]
        moved = abs(slope[1] - slope[0])
    assert float(bound(f, x, 0.1, L2).upper[0]) >= moved


def test_a_batch_norm_whose_shift_cancels_is_not_taken_for_exact() -> None:
    network = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(1), nn.Tanh(), nn.Linear(1, 1, bias=False)).double().eval()
    norm = network[1]
    norm.running_mean.fill_(1.0)
    norm.running_var.fill_(1.0)
    norm.weight.data.fill_(1e13)
    norm.bias.data.fill_(0.3 + 1e13 * float((norm.running_var + norm.eps).rsqrt()))
    network[3].weight.data.fill_(1.0)
    f, x = Classifier(network.requires_grad_(False)), torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    with mp.workdps(50):
        scale = mp.mpf(1e13) / mp.sqrt(mp.mpf(1.0) + mp.mpf(norm.eps))
        z = [mp.mpf(float(norm.bias)) - scale + scale * mp.mpf(d) for d in (0.0, 1e-14, -1e-14)]
        slopes = [scale * mp.sech(one) ** 2 for one in z]
    assert float(bound(f, x, 1e-14, L2).upper[0]) >= max(abs(slopes[1] - slopes[0]), abs(slopes[2] - slopes[0]))
