"""What the proved bound is made of: activations and their ranges, operations and their adjoints, networks as read, norms as proved."""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import pytest
import torch
from reference.smooth_networks import ACTIVATIONS, KINDS, classifier
from reference.zoo import ZOO
from torch import Tensor, nn
from torch.nn import functional as F

from attrcert.bounds.proved import curves
from attrcert.bounds.proved.building import Building
from attrcert.bounds.proved.curves import Curve, Elu, Gelu, Range, Sigmoid, Silu, Softplus, Tanh
from attrcert.bounds.proved.operations import (
    broadcasting,
    convolution,
    joining,
    linear,
    moving,
    normalising,
    pooling,
    products,
    scaling,
)
from attrcert.bounds.proved.reading import read_network
from attrcert.draws import Draws
from attrcert.errors import ModelError
from attrcert.linalg import proofs
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.linalg.proofs import gram_norm, proved_eigenvalue
from attrcert.networks.classifier import Classifier

CPU = torch.device("cpu")
CURVES: list[Curve] = [Softplus(1.0), Softplus(20.0), Sigmoid(), Tanh(), Gelu(), Silu(), Elu()]
EVERY_CURVE = pytest.mark.parametrize("curve", CURVES, ids=repr)


# activations


@EVERY_CURVE
def test_slope_and_bend_are_the_derivatives(curve: Curve) -> None:
    z = torch.linspace(-6, 6, 401, dtype=torch.float64).requires_grad_()  # not at 0, where the bend of ELU jumps
    z.data += 1e-3
    (slope,) = torch.autograd.grad(curve.value(z).sum(), z)
    torch.testing.assert_close(curve.slope(z.detach()), slope, rtol=1e-10, atol=1e-12)
    (bend,) = torch.autograd.grad(curve.slope(z).sum(), z)
    torch.testing.assert_close(curve.bend(z.detach()), bend, rtol=1e-10, atol=1e-12)


GOLDEN = {
    # s'' over the whole line, and s' where it leaves [0, 1] (DERIVATIONS H)
    repr(Softplus(20.0)): (0.0, 5.0, 0.0, 1.0),
    repr(Sigmoid()): (-0.0962250449, 0.0962250449, 0.0, 0.25),
    repr(Tanh()): (-0.7698003589, 0.7698003589, 0.0, 1.0),
    repr(Gelu()): (-0.1079819330, 0.7978845608, -0.1289041452, 1.1289041452),
    repr(Silu()): (-0.0369143732, 0.5, -0.0998393201, 1.0998393201),
}


@pytest.mark.parametrize("curve", [curve for curve in CURVES if repr(curve) in GOLDEN], ids=repr)
def test_ranges_over_the_whole_line_are_the_golden_ones(curve: Curve) -> None:
    z, r = torch.zeros(1, 1, dtype=torch.float64), torch.full((1, 1), 60.0, dtype=torch.float64)
    bend = curves.extent(curve.bend, curve.flexes, z - r, z + r)
    slope = curves.slopes(curve, z, r)
    found = [float(part) for part in (bend.low, bend.high, slope.low, slope.high)]
    assert found == pytest.approx(GOLDEN[repr(curve)], abs=2e-10)


def brute(function: Any, z: Tensor, r: Tensor) -> Range:
    """The secants of a function from z over a fine grid."""
    t = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    t = t[t.abs() > 1e-3][:, None, None] * r
    values = (function(z + t) - function(z)) / t
    return Range(values.amin(dim=0), values.amax(dim=0))


@EVERY_CURVE
def test_secants_and_bends_contain_those_of_a_fine_grid_and_are_near_them_where_monotone(curve: Curve) -> None:
    rng = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(1, 400, generator=rng, dtype=torch.float64)
    r = 2 * torch.rand(1, 400, generator=rng, dtype=torch.float64) + 0.01
    for enclose, function, critical in (
        (curves.secants, curve.value, curve.turns),
        (curves.bends, curve.slope, curve.flexes),
    ):
        found, seen = enclose(curve, z, r), brute(function, z, r)
        slack = 1e-9 + 1e-9 * seen.high.abs()
        assert bool((found.low <= seen.low + slack).all() & (seen.high <= found.high + slack).all())
        monotone = torch.ones_like(z, dtype=torch.bool)
        for point in critical:
            monotone &= (z - point).abs() > r
        assert bool(monotone.any())
        near = 1e-7 + 1e-6 * seen.high.abs()
        assert bool(((found.high - seen.high)[monotone] <= near[monotone]).all())
        assert bool(((seen.low - found.low)[monotone] <= near[monotone]).all())


@EVERY_CURVE
def test_slopes_contain_those_of_a_fine_grid_and_no_more(curve: Curve) -> None:
    rng = torch.Generator().manual_seed(1)
    z, r = 3 * torch.randn(1, 300, generator=rng, dtype=torch.float64), 1.5
    grid = curve.slope(z + torch.linspace(-r, r, 4001, dtype=torch.float64)[:, None, None])
    found = curves.slopes(curve, z, torch.full_like(z, r))
    rounding = 1e-14  # of numbers near 1, computed one by one or many at a time
    assert bool((found.low <= grid.amin(dim=0) + rounding).all() & (grid.amax(dim=0) <= found.high + rounding).all())
    torch.testing.assert_close(found.high, grid.amax(dim=0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.low, grid.amin(dim=0), rtol=1e-3, atol=1e-5)


@EVERY_CURVE
@pytest.mark.parametrize("r", [0.0, 1e-300, 1e-12, 1e-6])
def test_tiny_intervals_have_ranges_around_the_derivatives(curve: Curve, r: float) -> None:
    z = torch.linspace(-4, 4, 33, dtype=torch.float64)[None] + 1e-3
    sigma, kappa = curves.secants(curve, z, torch.full_like(z, r)), curves.bends(curve, z, torch.full_like(z, r))
    for found, exact in ((sigma, curve.slope(z)), (kappa, curve.bend(z))):
        assert bool((found.low <= exact).all() & (exact <= found.high).all())
        assert float((found.high - found.low).max()) <= 200 * r + 1e-12  # third derivatives stay below 100


def test_secants_of_softplus_are_those_of_forty_digits() -> None:
    curve = Softplus(20.0)
    for z, r in ((-3.0, 1e-3), (-0.2, 0.1), (0.3, 0.2), (2.0, 1e-5)):
        with mpmath.workdps(40):
            s = [mpmath.log1p(mpmath.exp(20 * (mpmath.mpf(z) + t))) / 20 for t in (-mpmath.mpf(r), 0, mpmath.mpf(r))]
            low, high = (s[1] - s[0]) / r, (s[2] - s[1]) / r
        at, far = (torch.full((1, 1), part, dtype=torch.float64) for part in (z, r))
        found = curves.secants(curve, at, far)
        assert float(found.low) <= float(low) + 1e-18
        assert float(high) - 1e-18 <= float(found.high)
        assert float(found.high) == pytest.approx(float(high), rel=1e-9, abs=1e-10)


def test_every_curve_of_the_module_is_tested() -> None:
    def made(member: type) -> bool:
        return hasattr(member, "bend") and member is not Curve

    there = {member for _, member in inspect.getmembers(curves, inspect.isclass) if made(member)}
    assert there == {type(curve) for curve in CURVES}


# operations


def samples() -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shapes and operations as the rules build them."""
    rng = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    return {
        "linear": ((5,), lambda b, x: linear.linear(b, x, normal(3, 5), normal(3))),
        "convolution": ((2, 5, 4), lambda b, x: convolution.convolution(b, x, normal(4, 2, 3, 2), normal(4), 2, 1)),
        "grouped": ((4, 5, 5), lambda b, x: convolution.convolution(b, x, normal(6, 2, 2, 2), None, 1, 0, 2, 2)),
        "scaling": ((2, 3), lambda b, x: scaling.scaled(b, x, normal(2, 1), normal(1, 2, 3))),
        "division": ((4,), lambda b, x: products.divided(b, x, normal(4))),
        "negation": ((4,), scaling.negated),
        "average pool": ((2, 4, 6), lambda b, x: pooling.average_pool(b, x, 2, padding=1)),
        "adaptive pool": ((2, 5, 5), lambda b, x: pooling.adaptive_average_pool(b, x, 2)),
        "mean": ((2, 3, 3), lambda b, x: pooling.mean(b, x, (2, 3))),
        "flatten": ((2, 3, 3), lambda b, x: moving.flatten(b, x, 1)),
        "view": ((2, 6), lambda b, x: moving.view(b, x, 1, 3, -1)),
        "permute": ((2, 3, 4), lambda b, x: moving.permuted(b, x, 0, 3, 1, 2)),
        "transpose": ((2, 3), lambda b, x: moving.transposed(b, x, 1, 2)),
        "slice": ((2, 5, 5), lambda b, x: moving.item(b, x, (slice(None), slice(None), slice(None, None, 2), 1))),
        "pad": ((2, 3, 3), lambda b, x: moving.padded(b, x, (1, 0, 2, -1))),
        "squeeze": ((1, 3), lambda b, x: moving.squeezed(b, x, 1)),
        "unsqueeze": ((3,), lambda b, x: moving.unsqueezed(b, x, 1)),
        "placed": ((2, 3), lambda b, x: b.add(joining.Inset(2, 1, 5), x)),
        "repeated": ((2, 1, 3), lambda b, x: broadcasting.repeated(b, x, (2, 4, 3))),
        "centred": ((4, 2, 3), lambda b, x: b.add(normalising.Centred((-2, -1), 6), x)),
        "centred pair": ((4, 2), lambda b, x: b.add(normalising.Centred((-1,), 2), x)),
    }


@pytest.mark.parametrize("name", samples())
def test_an_operation_is_affine_and_its_adjoint_and_modulus_are_those_of_its_matrix(name: str) -> None:
    shape, rule = samples()[name]
    building = Building(shape, CPU)
    step = building.steps[rule(building, building.input).step]
    operation, n = step.operation, int(torch.tensor(shape).prod())
    assert operation is not None
    origin = operation.apply(torch.zeros(1, *shape, dtype=torch.float64)).flatten(1)
    W = (operation.apply(torch.eye(n, dtype=torch.float64).view(n, *shape)).flatten(1) - origin).T
    x = torch.randn(3, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(operation.apply(x.view(3, *shape)).flatten(1), x @ W.T + origin)
    u = torch.randn(4, W.shape[0], generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close(operation.adjoint(u.view(4, *step.shape), shape).flatten(1), u @ W)
    torch.testing.assert_close(step.magnitude.adjoint(u.view(4, *step.shape), shape).flatten(1), u @ W.abs())


# reading


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_network_is_read_as_it_runs(kind: str, activation: str, images) -> None:
    f, x = classifier(kind, activation), images(3, 1, 3, 3)
    # torch's softplus is linear far to the right: 2e-9 / beta
    torch.testing.assert_close(read_network(f, (1, 3, 3), CPU).values(x)[-1], f(x), rtol=0, atol=2e-9)


class Functional(nn.Module):
    """Spellings that users have: methods, operators, in place, sizes read from the tensor, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 2, 2), nn.Linear(8, 3)
        self.register_buffer("shift", torch.ones(1, 2, 1, 1))

    def forward(self, x: Tensor) -> dict[str, Any]:
        h = 2 * F.relu(self.conv(x), inplace=True) - self.shift
        kept = F.dropout(h, training=self.training)
        kept += torch.tanh(h) / 4
        flat = kept.view(x.size(0), -1)
        return {"logits": self.fc(flat.relu()), "flat": (flat, -flat)}


def test_spellings_of_users_are_read_as_they_run(images) -> None:
    network = Functional().double().eval().requires_grad_(False)
    f, x = Classifier(network, output="logits", beta=3.0), images(2, 1, 3, 3)
    torch.testing.assert_close(read_network(f, (1, 3, 3), CPU).values(x)[-1], f(x), rtol=0, atol=1e-9)


class Written(nn.Module):
    """Writes into a tensor that it reads again, in a way of its own."""

    def __init__(self, write: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.fc, self.write = nn.Linear(9, 3), write

    def forward(self, x: Tensor) -> Tensor:
        z = self.fc(x.flatten(1))
        return 3 * self.write(z) + z


def twice(z: Tensor) -> Tensor:
    """In place, and in place again."""
    return F.relu(F.silu(z, inplace=True), inplace=True)


def increased(z: Tensor) -> Tensor:
    other = z
    other += torch.tanh(z)
    return other


WRITTEN: dict[str, Callable[[Tensor], Any]] = {
    "relu": lambda z: F.relu(z, inplace=True),
    "twice": twice,
    "a copy": lambda z: z.clone().relu_(),
    "increased": increased,
    "dropout": lambda z: F.dropout(z, training=False).relu_(),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_was_written_in_place_is_read_as_written(name: str, images) -> None:
    f = Classifier(Written(WRITTEN[name]).double().eval().requires_grad_(False), beta=2.0)
    x = images(2, 1, 3, 3) - 0.5
    torch.testing.assert_close(read_network(f, (1, 3, 3), CPU).values(x)[-1], f(x), rtol=0, atol=1e-9)


def hooked(kind: str) -> nn.Module:
    """A network with a hook on one of its layers, or on itself."""
    network = behind(nn.Linear(3, 3), nn.Tanh())
    if kind == "backward":
        network[0].register_full_backward_hook(lambda *_: None)
    else:
        (network if kind == "root" else network[1]).register_forward_hook(lambda *_: None)
    return network


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) if x.sum() > 0 else -x.flatten(1)


def behind(*modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(*modules, nn.Flatten())


def mixing(move: Callable[[Tensor], Tensor]) -> nn.Module:
    """A network that moves entries in a way of its own."""

    class Mixing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return move(x.flatten(1))

    return Mixing()


REFUSED: dict[str, tuple[nn.Module, float | None, str]] = {
    "max-pool": (behind(nn.MaxPool2d(2)), 5.0, "max_pool2d in 0.*average pooling instead"),
    "relu": (behind(nn.ReLU()), None, "relu in 0.*softplus"),
    "layer norm without eps": (behind(nn.LayerNorm(3, eps=0.0)), 5.0, "a norm with eps 0.0 in 0.*use eps > 0"),
    "layer norm of pixels": (behind(nn.LayerNorm((1, 1))), 5.0, r"a norm over \(1, 1\) of samples of shape"),
    "norm of one": (behind(nn.Flatten(), nn.Linear(9, 1), nn.LayerNorm(1)), 5.0, "a norm over single entries in 2"),
    "instance norm": (
        behind(nn.InstanceNorm2d(1, track_running_stats=True)),
        5.0,
        "an instance norm with running statistics in 0",
    ),
    "softmax": (behind(nn.Softmax(dim=1)), 5.0, "softmax in 0"),
    "hardswish": (behind(nn.Hardswish()), 5.0, "hardswish in 0"),
    "elu": (behind(nn.ELU(alpha=2.0)), 5.0, "ELU with alpha 2"),
    "gelu": (behind(nn.GELU(approximate="tanh")), 5.0, "GELU approximated by tanh"),
    "softplus": (behind(nn.Softplus(threshold=5)), 5.0, "softplus with threshold 5"),
    "same padding": (behind(nn.Conv2d(1, 1, 2, padding="same")), 5.0, "padding 'same'"),
    "circular padding": (behind(nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")), 5.0, "padding by circular"),
    "batch norm": (behind(nn.BatchNorm2d(1, track_running_stats=False)), 5.0, "without running statistics"),
    "hook": (hooked("forward"), 5.0, "does not follow hooks, and 1 has one"),
    "root hook": (hooked("root"), 5.0, "does not follow hooks, and the network has one"),
    "backward hook": (hooked("backward"), 5.0, "does not follow hooks, and 0 has one"),
    "view": (Written(lambda z: z.view(-1, 3).relu_()), 5.0, "in place on a view"),
    "slice": (Written(lambda z: F.relu(z[:, :2], inplace=True).mean(1, True)), 5.0, "in place on a view"),
    "concatenation": (mixing(lambda x: torch.cat([x, x])), 5.0, "a concatenation of samples"),
    "negative axis": (mixing(lambda x: torch.cat([x, x], -2)), 5.0, "a concatenation of samples"),
    "stack": (mixing(lambda x: torch.stack([x, x])), 5.0, "a stack of samples"),
    "class tokens": (mixing(lambda x: torch.cat([torch.ones(2, 1), x], 1)), 5.0, "a concatenation of samples"),
    "unequal sizes": (mixing(lambda x: torch.cat([x[..., None], x[:, None]], 1)), 5.0, "concatenation of shapes"),
    "other axes": (mixing(lambda x: x * x[:, :, None]), 5.0, "arithmetic of shapes .* as many axes"),
    "unequal product": (mixing(lambda x: x[:, 1:] * x), 5.0, "arithmetic of shapes .* do not fit"),
    "matrix product": (mixing(lambda x: x @ x.T), 5.0, "no rule for|cannot read"),
    "matmul": (mixing(lambda x: torch.matmul(x[:, None], x[:, :, None]).flatten(1)), 5.0, "matmul"),
    "root of what may be 0": (mixing(lambda x: torch.sqrt(x.pow(2))), 5.0, "a root or a quotient of what may be 0"),
    "root of a difference": (
        mixing(lambda x: torch.rsqrt(1 - x.square())),
        5.0,
        "a root or a quotient of what may be 0",
    ),
    "quotient": (mixing(lambda x: x / (x + 10)), 5.0, "a root or a quotient of what may be 0"),
    "cube": (mixing(lambda x: x**3), 5.0, "the power 3"),
    "exponential": (mixing(lambda x: 2.0**x), 5.0, "pow|the power"),
    "expanded batch": (mixing(lambda x: x.expand(4, 9)), 5.0, "an expansion to"),
    "write beside an expansion": (
        Written(lambda z: z[:, :1].expand(-1, 3) + F.silu(z, inplace=True)),
        5.0,
        "in place on a view",
    ),
    "transposition": (mixing(lambda x: x.transpose(-2, -1)), 5.0, "moves the batch"),
    "padded batch": (mixing(lambda x: F.pad(x, (0, 0, 1, -1))), 5.0, "mixes samples"),
    "first sample": (mixing(lambda x: x[..., 0:1, :]), 5.0, "mixes samples"),
    "divisor": (behind(nn.AvgPool2d(2, divisor_override=-3)), 5.0, "a divisor of its own"),
    "rounded division": (mixing(lambda x: torch.div(x, 2, rounding_mode="floor")), 5.0, "div, called so"),
    "named axes": (mixing(lambda x: x[:, None].squeeze(dim=1)), 5.0, "squeeze, called so"),
    "branch": (Branching(), 5.0, r"cannot read the forward of the network \(Branching\), after gt: it needs"),
    "attention": (
        nn.Sequential(nn.Flatten(1, 2), nn.TransformerEncoderLayer(3, 1)),
        5.0,
        "cannot read the forward|no rule for",
    ),
    "no logits": (nn.Sequential(nn.Conv2d(1, 1, 2)), 5.0, "logits of shape"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused_by_name(name: str) -> None:
    network, beta, said = REFUSED[name]
    with pytest.raises(ModelError) as error:
        read_network(Classifier(network.double().eval(), beta=beta), (1, 3, 3), CPU)
    assert re.search(said, str(error.value))


# norms


@pytest.mark.parametrize("name", ZOO)
def test_norms_are_never_below_the_true_ones(name: str) -> None:
    A = ZOO[name]()[0].double()[None]
    exact = float(torch.linalg.matrix_norm(A[0], 2))
    ones = torch.ones(1, A.shape[1], dtype=torch.float64)
    modulus = float(torch.linalg.matrix_norm(A[0].abs(), 2))
    assert exact * (1 - 1e-12) <= float(gram_norm(A, ones))
    assert float(gram_norm(A, ones)) <= modulus * 1.5 + 1e-300
    proved = float(proved_eigenvalue(A.mT @ A, Draws(0, (0,)))) ** 0.5
    assert exact * (1 - 1e-12) <= proved <= exact * (1 + 2e-6) + 1e-150


def test_the_weighted_norm_is_that_of_the_weighted_matrix_for_one_or_many_samples() -> None:
    rng = torch.Generator().manual_seed(0)
    A = torch.rand(1, 6, 5, generator=rng, dtype=torch.float64)  # positive: the test is exact at its fixed point
    weights, scale = torch.rand(3, 6, generator=rng).double(), torch.randn(3, 5, generator=rng).double()
    exact = torch.linalg.matrix_norm(weights.sqrt()[:, :, None] * A * scale[:, None], 2)
    for same in (A, A.expand(3, -1, -1)):
        found = gram_norm(same, weights, scale)
        assert bool((exact * (1 - 1e-12) <= found).all())
        torch.testing.assert_close(found, exact, rtol=1e-3, atol=0)


def test_an_eigenvalue_that_lanczos_proposes_too_small_is_not_believed(monkeypatch) -> None:
    G = torch.diag_embed(torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64))
    honest = TopSingularValue.top_eigenvalue

    def low(self: TopSingularValue, *args: Any, **options: Any) -> Any:
        found = honest(self, *args, **options)
        return replace(found, upper=0.5 * found.upper)

    monkeypatch.setattr(TopSingularValue, "top_eigenvalue", low)
    monkeypatch.setattr(proofs, "PROPOSAL", TopSingularValue(slack=1e-6))
    assert float(proved_eigenvalue(G, Draws(0, (0,)))) >= 3.0


@pytest.mark.parametrize("n", [784, 3072])
@pytest.mark.parametrize("m", [1, 5])
def test_rounding_in_float32_leaves_no_norm_too_small(m: int, n: int) -> None:
    A = torch.full((1, m, n), 3e-4, dtype=torch.float64)
    A[:, :, 0] = 1.0
    exact = float(torch.linalg.matrix_norm(A[0], 2))
    found = float(gram_norm(A, torch.ones(1, m, dtype=torch.float64)))
    assert exact <= found <= exact * 1.01


def test_a_norm_that_is_not_a_number_is_infinite() -> None:
    A, broken = torch.ones(2, 3, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    broken[0, 0] = torch.nan
    assert gram_norm(A, broken).tolist()[0] == torch.inf
    G = A.clone()
    G[0, 0, 0] = torch.inf
    found = proved_eigenvalue(G, Draws(0, (0, 1))).tolist()
    assert found[0] == torch.inf
    assert found[1] == pytest.approx(3.0, rel=1e-5)


def test_the_tail_of_gelu_is_that_of_forty_digits() -> None:
    z = torch.tensor([-20.0, -9.0, -8.184, -6.5, -3.0], dtype=torch.float64)
    with mpmath.workdps(40):
        exact = [float(mpmath.mpf(t) * mpmath.ncdf(mpmath.mpf(t))) for t in z.tolist()]
    assert Gelu().value(z).tolist() == pytest.approx(exact, rel=1e-12)
