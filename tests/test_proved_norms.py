"""Norms, products and concatenations in the proved bound: read as they run, never exceeded, exact where the ball is small."""

from collections.abc import Callable
from itertools import product

import mpmath
import pytest
import torch
from reference.climbing import largest_change
from reference.smooth_networks import gradient_of
from torch import Tensor, nn
from torch.nn import functional as F

from attrcert.attributions.gradient import Saliency
from attrcert.bounds.proved import curves
from attrcert.bounds.proved.bound import Prover
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.point import at_points
from attrcert.bounds.proved.powers import Power, Square
from attrcert.bounds.proved.reach import Reach
from attrcert.bounds.proved.reading import read_network
from attrcert.bounds.proved.remainders import remainder
from attrcert.bounds.proved.secant import change
from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.vocabulary import Norm

CPU = torch.device("cpu")
L2, LINF = Norm.parse("l2"), Norm.parse("linf")
NORMS = pytest.mark.parametrize("norm", [L2, LINF], ids=str)
POWERS = [Square(), Square(-1.0), Power(-0.5, 1e-2), Power(-1.0, 0.3), Power(0.5, 0.1)]
EVERY_POWER = pytest.mark.parametrize("curve", POWERS, ids=repr)


class Written(nn.Module):
    """What a function makes of a convolution's channels."""

    def __init__(self, write: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.write = nn.Conv2d(1, 4, 2), nn.Conv2d(1, 4, 2), write

    def forward(self, x: Tensor) -> Tensor:
        return self.write(self.first(x), self.second(x))


def channels_first(x: Tensor) -> Tensor:
    """As torchvision and timm write the layer norm of ConvNeXt."""
    return F.layer_norm(x.permute(0, 2, 3, 1), (4,), eps=1e-6).permute(0, 3, 1, 2)


def by_hand(x: Tensor) -> Tensor:
    """As ConvNeXt's authors write it."""
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).pow(2).mean(1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5)


def excited(x: Tensor, y: Tensor) -> Tensor:
    """Squeeze and excite."""
    gate = torch.sigmoid(F.gelu(y.mean((2, 3), keepdim=True)))
    return x * gate


def written(x: Tensor, y: Tensor) -> Tensor:
    """In place."""
    x *= torch.tanh(y)
    return x


class Token(nn.Module):
    """A constant beside the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 2, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.token.expand(x.shape[0], -1, -1, -1), x], 1)[:, 1:5] * 0.7


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "layer norm": lambda: nn.Sequential(nn.Conv2d(1, 4, 2), nn.LayerNorm((4, 2, 2)), nn.GELU()),
    "layer norm of two": lambda: nn.Sequential(nn.Conv2d(1, 4, 2), nn.LayerNorm(2, eps=0.1, elementwise_affine=False)),
    "channels first": lambda: Written(lambda x, y: channels_first(x)),
    "by hand": lambda: Written(lambda x, y: by_hand(x)),
    "group norm": lambda: nn.Sequential(nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.SiLU()),
    "instance norm": lambda: nn.Sequential(nn.Conv2d(1, 4, 2), nn.InstanceNorm2d(4, affine=True)),
    "rms norm": lambda: nn.Sequential(nn.Conv2d(1, 4, 2), nn.RMSNorm((2, 2), eps=1e-3)),
    "two norms": lambda: nn.Sequential(nn.Conv2d(1, 4, 2), nn.GroupNorm(1, 4), nn.Tanh(), nn.LayerNorm((4, 2, 2))),
    "concatenation": lambda: Written(lambda x, y: torch.cat([x, F.gelu(y), x.tanh()], 1).mean(1, keepdim=True) + x),
    "last axis": lambda: Written(lambda x, y: torch.tanh(torch.cat((x, y), dim=-1)[..., 1:3])),
    "class token": lambda: nn.Sequential(nn.Conv2d(1, 4, 2), Token(), nn.Tanh()),
    "stack": lambda: Written(lambda x, y: torch.stack([x.tanh(), y], 2).flatten(1, 2).mean(1, True) + x),
    "gate": lambda: Written(lambda x, y: x * torch.sigmoid(y)),
    "excite": lambda: Written(excited),
    "square": lambda: Written(lambda x, y: x * x + 0.5 * y**2 - torch.square(x)),
    "quotient": lambda: Written(lambda x, y: x / (1 + y.square()).sqrt() + torch.rsqrt(y.pow(2) + 0.5)),
    "written": lambda: Written(written),
}


def classifier(name: str, *, seed: int = 0, gain: float = 1.0) -> Classifier:
    """A layer between convolutions and logits, of 3 x 3 images, in float64."""
    rng = torch.Generator().manual_seed(seed)
    network = nn.Sequential(LAYERS[name](), nn.Flatten(), nn.Linear(16, 3)).double().eval().requires_grad_(False)
    for part in network.state_dict().values():
        noise = torch.randn(part.shape, generator=rng, dtype=torch.float64)
        part.copy_(gain * noise / max(1, part[0].numel()) ** 0.5)
    return Classifier(network, mean=(0.3,), std=(0.5,))


def bound(f: Classifier, x: Tensor, eps: float, norm: Norm, *, effort: int = 0) -> Tensor:
    network = read_network(f, tuple(x.shape[1:]), CPU)
    prover = Prover(network, Saliency(), norm, 10**9, effort)
    sizes = torch.full((len(x),), eps, dtype=torch.float64)
    return prover(x, torch.zeros(len(x), dtype=torch.int64), [sizes], Draws(0, tuple(range(len(x)))))[0].upper


# curves


@EVERY_POWER
def test_derivatives_of_powers_are_the_derivatives_on_both_sides_of_the_least(curve: curves.Curve) -> None:
    z = (torch.linspace(-1, 2, 301, dtype=torch.float64) + 1e-4).requires_grad_()
    (slope,) = torch.autograd.grad(curve.value(z).sum(), z)
    torch.testing.assert_close(curve.slope(z.detach()), slope, rtol=1e-10, atol=1e-12)
    (bend,) = torch.autograd.grad(curve.slope(z).sum(), z)
    torch.testing.assert_close(curve.bend(z.detach()), bend, rtol=1e-10, atol=1e-12)


@EVERY_POWER
def test_ranges_of_powers_contain_those_of_a_fine_grid_and_no_more(curve: curves.Curve) -> None:
    rng = torch.Generator().manual_seed(0)
    z = 2 * torch.rand(1, 200, generator=rng, dtype=torch.float64)
    r = torch.rand(1, 200, generator=rng, dtype=torch.float64) + 0.01
    t = torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None, None] * r
    far = t.abs() > 1e-3 * r
    slope, safe = curve.slope(z + t), torch.where(far, t, 1.0)
    secant = torch.where(far, (curve.value(z + t) - curve.value(z)) / safe, curve.slope(z))
    bend = torch.where(far, (slope - curve.slope(z)) / safe, curve.bend(z))
    for found, seen in (
        (curves.slopes(curve, z, r), slope),
        (curves.secants(curve, z, r), secant),
        (curves.bends(curve, z, r), bend),
    ):
        low, high = seen.amin(dim=0), seen.amax(dim=0)
        slack = 1e-9 * (1 + high.abs() + low.abs())
        assert bool((found.low <= low + slack).all() & (high <= found.high + slack).all())
        near = slack + 1e-6 * (high.abs() + low.abs())
        assert bool((found.high - high <= near).all() & (low - found.low <= near).all())


@EVERY_POWER
def test_what_powers_have_beyond_their_tangent_stays_below_the_remainder(curve: curves.Curve) -> None:
    rng = torch.Generator().manual_seed(1)
    z = 2 * torch.rand(1, 50, generator=rng, dtype=torch.float64)
    r = torch.rand(1, 50, generator=rng, dtype=torch.float64) + 0.01
    found = remainder(curve, z, r)
    t = torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None, None] * r
    beyond = curve.value(z + t) - curve.value(z) - curve.slope(z) * t
    for sign, side in ((1, found.up), (-1, found.down)):
        for theta in (0.0, 0.3, 1.0):
            allowed = side.excess(theta) + theta * side.rise * t.square() / 2
            assert bool((sign * beyond <= allowed * (1 + 1e-9) + 1e-12).all())
    assert bool((found.up.largest + found.down.largest <= 1.1 * beyond.abs().amax(dim=0)).all())


def test_secants_of_an_inverse_root_are_those_of_forty_digits() -> None:
    curve = Power(-0.5, 1e-5)
    for z, r in ((2e-5, 9e-6), (1e-2, 1e-3), (0.3, 0.2), (2.0, 1e-5)):
        with mpmath.workdps(40):
            s = [mpmath.mpf(1) / mpmath.sqrt(mpmath.mpf(z) + t) for t in (-mpmath.mpf(r), 0, mpmath.mpf(r))]
            low, high = float((s[1] - s[0]) / r), float((s[2] - s[1]) / r)
        at, far = (torch.full((1, 1), part, dtype=torch.float64) for part in (z, r))
        found = curves.secants(curve, at, far)
        assert float(found.low) <= low * (1 - 1e-14)
        assert high * (1 + 1e-14) <= float(found.high)
        assert (float(found.low), float(found.high)) == pytest.approx((low, high), rel=1e-8)


# reading


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_read_as_it_runs(name: str, images) -> None:
    f, x = classifier(name), images(3, 1, 3, 3)
    torch.testing.assert_close(read_network(f, (1, 3, 3), CPU).values(x)[-1], f(x), rtol=1e-12, atol=1e-13)


def test_a_root_of_a_quotient_is_one_curve() -> None:
    f = classifier("by hand")
    powers = [curve for curve in _curves(read_network(f, (1, 3, 3), CPU)) if isinstance(curve, Power)]
    assert powers == [Power(-0.5, 1e-5)]


def _curves(network: Network) -> list[curves.Curve]:
    return [network.curve(i) for i in network.curves]


# soundness


@NORMS
@pytest.mark.parametrize("name", LAYERS)
def test_no_climb_exceeds_the_bound(name: str, norm: Norm, images) -> None:
    f, x = classifier(name, seed=len(name)), images(1, 1, 3, 3)
    for eps in (1e-3, 0.03, 0.4):
        reached = largest_change(gradient_of(f, 0), x[0], eps, linf=norm is LINF, starts=8, steps=25)
        assert reached <= float(bound(f, x, eps, norm)[0])


@NORMS
@pytest.mark.parametrize("name", ["layer norm"])
def test_no_climb_exceeds_what_the_joint_form_proves(name: str, norm: Norm, images) -> None:
    f, x, eps = classifier(name, seed=3), images(1, 1, 3, 3), 0.02
    reached = largest_change(gradient_of(f, 0), x[0], eps, linf=norm is LINF, starts=8, steps=25)
    upper, plain = (float(bound(f, x, eps, norm, effort=effort)[0]) for effort in (2, 0))
    assert reached <= upper < 0.99 * plain


def hessian(f: Classifier, x: Tensor) -> Tensor:
    return torch.autograd.functional.jacobian(lambda z: gradient_of(f, 0)(z).flatten(), x).reshape(9, 9)


@NORMS
@pytest.mark.parametrize("name", LAYERS)
def test_a_small_ball_gives_the_first_order_bound(name: str, norm: Norm, images) -> None:
    x, eps = images(1, 1, 3, 3), 1e-8
    f = classifier(name, seed=2)
    H = hessian(f, x)
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=9)), dtype=torch.float64)
    exact = float((signs @ H).norm(dim=1).max() if norm is LINF else torch.linalg.matrix_norm(H, 2))
    slack = 1e-5 if norm is L2 else 0.2533  # sqrt(pi/2) at most, by Nesterov
    assert exact * (1 - 1e-6) <= float(bound(f, x, eps, norm)[0]) / eps <= exact * (1 + slack)


@pytest.mark.parametrize("curve", [Square, Power])
def test_halving_a_bend_is_seen(curve: type, images, monkeypatch) -> None:
    x, eps = images(1, 1, 3, 3), 1e-8
    f = classifier("layer norm", seed=2)
    exact = float(torch.linalg.matrix_norm(hessian(f, x), 2))
    assert float(bound(f, x, eps, L2)[0]) / eps == pytest.approx(exact, rel=1e-5)
    whole = curve.bend
    monkeypatch.setattr(curve, "bend", lambda self, z: whole(self, z) / 2)
    assert float(bound(f, x, eps, L2)[0]) / eps != pytest.approx(exact, rel=1e-2)


@NORMS
@pytest.mark.parametrize("name", ["two norms", "by hand", "quotient", "excite"])
def test_every_enclosure_of_the_proof_holds_at_random_points(name: str, norm: Norm, images) -> None:
    eps, x = 0.05, images(1, 1, 3, 3)
    network = read_network(classifier(name, seed=5), (1, 3, 3), CPU)
    target = torch.tensor([2])
    point = at_points(network, x, target)
    found = change(point, Reach(torch.tensor([eps], dtype=torch.float64), norm))
    for seed in range(20):
        delta = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        delta = eps * (delta.sign() if norm is LINF else delta / delta.norm())
        moved = at_points(network, x + delta, target)
        for i, layer in found.layers.items():
            dz = moved.z[i] - point.z[i]
            curve = network.curve(i)
            sigma = (curve.value(moved.z[i]) - curve.value(point.z[i])) / dz
            q = (moved.slope[i] - point.slope[i]) / dz * moved.F[i]
            little = 1e-6 * (1 + sigma.abs() + q.abs())  # of differences over dz
            assert bool((dz.abs() <= layer.each * (1 + 1e-12)).all())
            assert bool((layer.sigma.low - little <= sigma).all() & (sigma <= layer.sigma.high + little).all())
            assert bool((found.q[i].low - little <= q).all() & (q <= found.q[i].high + little).all())
        assert bool(((moved.gradient - point.gradient).abs() <= found.each * (1 + 1e-12)).all())


# rounding


def test_many_norms_one_after_the_other_leave_the_bound_its_digits(images) -> None:
    """Moduli of paths grow tenfold in each, and the bound would not be a number that says anything."""
    layers = [part for _ in range(8) for part in (nn.Linear(9, 9), nn.LayerNorm(9), nn.GELU())]
    network = nn.Sequential(nn.Flatten(), *layers, nn.Linear(9, 2)).double().eval().requires_grad_(False)
    rng = torch.Generator().manual_seed(0)
    for part in network.parameters():
        part.data = torch.randn(part.shape, generator=rng, dtype=torch.float64) / 3 + (part.ndim == 1)
    f, x, eps = Classifier(network), images(1, 1, 3, 3), 1e-9
    exact = float(torch.linalg.matrix_norm(hessian(f, x), 2))
    assert exact * (1 - 1e-6) <= float(bound(f, x, eps, L2)[0]) / eps <= 1.01 * exact


def test_a_norm_of_large_numbers_that_cancel_is_not_taken_for_exact(images) -> None:
    """The gradient of layer norm where mean and entries are 1e7 times their differences, against fifty digits."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(9, 3), nn.LayerNorm(3), nn.Linear(3, 1)).double().eval()
    rng = torch.Generator().manual_seed(0)
    for part in network.parameters():
        part.data = torch.randn(part.shape, generator=rng, dtype=torch.float64)
    network[1].bias.data += 1e7
    f, x = Classifier(network.requires_grad_(False)), images(1, 1, 3, 3)
    read = read_network(f, (1, 3, 3), CPU)
    found = at_points(read, x, torch.tensor([0]))
    with mpmath.workdps(50):
        W, b = (mpmath.matrix(part.tolist()) for part in (network[1].weight, network[1].bias))
        c = W * mpmath.matrix(x.flatten().tolist()) + b
        c = c - mpmath.matrix([mpmath.fsum(c) / 3] * 3)
        v = mpmath.fsum(part**2 for part in c) / 3 + mpmath.mpf(network[2].eps)
        a = [mpmath.mpf(float(p * q)) for p, q in zip(network[3].weight[0], network[2].weight, strict=True)]
        centred = [part - mpmath.fsum(a) / 3 for part in a]
        along = mpmath.fsum(p * q for p, q in zip(a, c, strict=True)) / (3 * v)
        back = mpmath.matrix([[(p - along * q) / mpmath.sqrt(v) for p, q in zip(centred, c, strict=True)]])
        exact = [float(part) for part in back * W]
    off = (found.gradient[0] - torch.tensor(exact, dtype=torch.float64)).abs()
    assert float(off.max()) > 1e-12 * float(found.gradient.abs().max())  # digits are lost
    assert bool((off <= found.doubt.gradient[0]).all())
