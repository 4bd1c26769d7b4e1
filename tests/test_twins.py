"""Under `Twins` every ReLU is its softplus, however it is written; outside, and elsewhere, nothing changes."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attrcert.networks import frozen
from attrcert.networks.twins import Twins

BETA = 7.0


def grid() -> Tensor:
    """Both sides of every kink in the zoo (-1, 0, 1, 6) and the kinks themselves, as a batch of two rows."""
    return torch.linspace(-9, 9, 73, dtype=torch.float64).repeat(2, 1)


def smooth(t: Tensor, beta: float = BETA) -> Tensor:
    """Softplus written another way than the package does."""
    return torch.logaddexp(beta * t, torch.zeros_like(t)) / beta


def as_statement(x: Tensor) -> Tensor:
    y = x * 1.0
    F.relu(y, inplace=True)
    return y


def relu_statement(x: Tensor) -> Tensor:
    y = x * 1.0
    y.relu_()
    return y


def channel_prelu() -> nn.Module:
    prelu = nn.PReLU(73).double()
    prelu.weight.data = torch.linspace(-0.5, 0.5, 73, dtype=torch.float64)
    return prelu


ZERO = torch.zeros((), dtype=torch.float64)
SLOPES = torch.linspace(-0.5, 0.5, 73, dtype=torch.float64)
RELUS: dict[str, Callable[[Tensor], Tensor]] = {
    "nn.ReLU": nn.ReLU(),
    "nn.ReLU in place": lambda x: nn.ReLU(inplace=True)(x * 1.0),
    "F.relu": F.relu,
    "F.relu in place, as a statement": as_statement,
    "F.relu_": lambda x: F.relu_(x * 1.0),
    "torch.relu": torch.relu,
    "torch.relu_": lambda x: torch.relu_(x * 1.0),
    "Tensor.relu": lambda x: x.relu(),
    "Tensor.relu_ as a statement": relu_statement,
    "torch.clamp": lambda x: torch.clamp(x, min=0),
    "torch.clamp positional": lambda x: torch.clamp(x, 0.0),
    "torch.clamp_min": lambda x: torch.clamp_min(x, 0),
    "Tensor.clamp": lambda x: x.clamp(min=0.0),
    "Tensor.clamp_min": lambda x: x.clamp_min(0),
    "Tensor.clamp_": lambda x: (x * 1.0).clamp_(min=0),
    "Tensor.clamp_min_": lambda x: (x * 1.0).clamp_min_(0),
    "torch.clip": lambda x: torch.clip(x, min=0),
    "Tensor.clip": lambda x: x.clip(min=0),
    "torch.maximum": lambda x: torch.maximum(x, ZERO),
    "torch.maximum of 0 first": lambda x: torch.maximum(ZERO, x),
    "Tensor.max": lambda x: x.max(ZERO),
    "torch.fmax": lambda x: torch.fmax(x, other=ZERO),
}
# name: the activation, its smooth twin by formula, the factor of ln2/beta that they may differ by
OTHERS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, float], Tensor], float]] = {
    "nn.ReLU6": (nn.ReLU6(), lambda t, b: smooth(t, b) - smooth(t - 6, b), 1),
    "nn.ReLU6 in place": (lambda x: nn.ReLU6(inplace=True)(x * 1.0), lambda t, b: smooth(t, b) - smooth(t - 6, b), 1),
    "F.relu6": (F.relu6, lambda t, b: smooth(t, b) - smooth(t - 6, b), 1),
    "nn.Hardtanh": (nn.Hardtanh(), lambda t, b: -1 + smooth(t + 1, b) - smooth(t - 1, b), 1),
    "F.hardtanh": (lambda x: F.hardtanh(x, -2, 3), lambda t, b: -2 + smooth(t + 2, b) - smooth(t - 3, b), 1),
    "nn.LeakyReLU": (nn.LeakyReLU(0.2), lambda t, b: 0.2 * t + 0.8 * smooth(t, b), 0.8),
    "nn.LeakyReLU in place": (
        lambda x: nn.LeakyReLU(0.2, inplace=True)(x * 1.0),
        lambda t, b: 0.2 * t + 0.8 * smooth(t, b),
        0.8,
    ),
    "F.leaky_relu_": (lambda x: F.leaky_relu_(x * 1.0, 0.3), lambda t, b: 0.3 * t + 0.7 * smooth(t, b), 0.7),
    "nn.PReLU": (nn.PReLU(init=0.1).double(), lambda t, b: 0.1 * t + 0.9 * smooth(t, b), 0.9),
    "nn.PReLU per channel": (channel_prelu(), lambda t, b: SLOPES * t + (1 - SLOPES) * smooth(t, b), 1.5),
}
ZOO = {name: (activation, smooth, 1.0) for name, activation in RELUS.items()} | OTHERS
ALL = [pytest.param(*member, id=name) for name, member in ZOO.items()]


@pytest.mark.parametrize(("activation", "formula", "factor"), ALL)
def test_every_spelling_runs_as_its_softplus_formula(activation, formula, factor):
    with torch.no_grad(), Twins(BETA) as twins:
        got = activation(grid())
    # PReLU keeps its slope in float32 before it is made float64
    torch.testing.assert_close(got, formula(grid(), BETA), rtol=1e-7, atol=1e-12)
    assert sum(twins.replaced.values()) == 1


@pytest.mark.parametrize(("activation", "formula", "factor"), ALL)
@pytest.mark.parametrize("beta", [1.0, 10.0, 1000.0])
def test_the_twin_is_within_ln2_over_beta_of_the_original(activation, formula, factor, beta):
    with torch.no_grad():
        original = activation(grid())
        with Twins(beta):
            gap = (activation(grid()) - original).abs().max().item()
    assert gap <= factor * math.log(2) / beta + 1e-12
    assert gap > 0.1 * factor * math.log(2) / beta  # and it is a twin, not the original


@pytest.mark.parametrize(("activation", "formula", "factor"), ALL)
def test_the_twins_second_derivative_is_that_of_its_formula(activation, formula, factor):
    def curvature(f: Callable[[Tensor], Tensor]) -> Tensor:
        x = grid().requires_grad_()
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    with Twins(BETA):
        got = curvature(activation)
    torch.testing.assert_close(got, curvature(lambda t: formula(t, BETA)), rtol=1e-6, atol=1e-9)
    assert got.abs().max() > 0.1


@pytest.mark.parametrize(("activation", "formula", "factor"), ALL)
def test_nothing_is_left_of_the_twin_after_use(activation, formula, factor):
    with torch.no_grad():
        before = activation(grid())
        with Twins(BETA):
            activation(grid())
        torch.testing.assert_close(activation(grid()), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    "clamp",
    [
        lambda x: x.clamp(0, 1),
        lambda x: x.clamp(min=0, max=2),
        lambda x: x.clamp(min=0.5),
        lambda x: x.clamp(max=0),
        lambda x: torch.clamp(x, -1, 1),
        lambda x: x.clamp_min(-2),
        lambda x: x.clamp(min=torch.full_like(x, 0.25)),
        lambda x: torch.maximum(x, ZERO + 0.5),
        lambda x: x.max(),
        lambda x: x.max(dim=0).values,
        lambda x: torch.max(x, 0, True).values,
    ],
    ids=[
        "0 to 1",
        "0 to 2",
        "from 0.5",
        "to 0",
        "-1 to 1",
        "from -2",
        "from a tensor",
        "of 0.5",
        "of all",
        "over an axis",
        "kept",
    ],
)
def test_a_clamp_or_maximum_that_is_no_relu_is_left_alone(clamp):
    with Twins(BETA) as twins:
        got = clamp(grid())
    assert torch.equal(got, clamp(grid()))
    assert not twins.replaced


def test_smooth_activations_are_left_alone():
    network = nn.Sequential(nn.Softplus(), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.ELU())
    with Twins(BETA) as twins:
        got = network(grid())
    assert torch.equal(got, network(grid()))
    assert not twins.replaced


def test_without_beta_relus_stay_relus():
    with Twins(None) as twins:
        assert torch.equal(F.relu(grid()), grid().clamp(min=0))
    assert not twins.replaced


def test_twins_count_what_they_replaced_by_kind():
    network = nn.Sequential(nn.ReLU(), nn.ReLU(inplace=True), nn.LeakyReLU(), nn.ReLU6())
    with torch.no_grad(), Twins(BETA) as twins:
        network(grid() * 1.0)
    assert twins.replaced["relu"] == 2
    assert twins.replaced["leaky_relu"] == 1
    assert sum(twins.replaced.values()) == 4


def test_the_module_and_its_flags_are_untouched():
    relu = nn.ReLU(inplace=True)
    with Twins(BETA):
        relu(grid() * 1.0)
    assert relu.inplace
    assert "forward" not in vars(relu)
    x = grid()
    relu(x)
    assert torch.equal(x, grid().clamp(min=0))


def test_an_in_place_twin_writes_its_input_as_the_original_does():
    x = grid()
    with torch.no_grad(), Twins(BETA):
        out = F.relu(x, inplace=True)
    torch.testing.assert_close(x, smooth(grid()))
    assert out.data_ptr() == x.data_ptr()


def test_an_in_place_twin_in_a_residual_block_keeps_the_hessian_right():
    """The sum reads what the in-place ReLU wrote, as in torchvision's residual blocks."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.Linear(4, 4, dtype=torch.float64) for _ in range(2))
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            kept = self.relu(self.first(x))
            return self.relu(self.second(kept) + kept).sum()

    torch.manual_seed(0)
    block, x = Block(), torch.randn(4, dtype=torch.float64)

    def written_out(t: Tensor) -> Tensor:
        kept = smooth(block.first(t))
        return smooth(block.second(kept) + kept).sum()

    with Twins(BETA):
        hessian = torch.autograd.functional.hessian(block, x)
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(written_out, x), rtol=1e-9, atol=1e-12)
    assert hessian.abs().max() > 1e-3


def test_a_relu_network_has_curvature_only_under_its_twins():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).double()
    x = torch.randn(5, dtype=torch.float64)
    assert torch.autograd.functional.hessian(lambda t: network(t).sum(), x).abs().max() == 0
    with Twins(BETA):
        assert torch.autograd.functional.hessian(lambda t: network(t).sum(), x).abs().max() > 1e-3


def test_the_twins_hessian_is_the_finite_difference_of_its_gradient():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(27, 6), nn.LeakyReLU(),
        nn.Linear(6, 6), nn.ReLU6(), nn.Linear(6, 1),
    ).double().eval()  # fmt: skip
    network[1].running_mean.uniform_(-0.5, 0.5)
    network[1].running_var.uniform_(0.5, 2)
    x, v = torch.randn(2, 1, 1, 5, 5, dtype=torch.float64)

    def gradient(t: Tensor) -> Tensor:
        t = t.detach().requires_grad_()
        return torch.autograd.grad(network(t).sum(), t, create_graph=True)[0]

    with Twins(BETA):
        step = 1e-5
        difference = (gradient(x + step * v) - gradient(x - step * v)) / (2 * step)
        t = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(network(t).sum(), t, create_graph=True)
        (product,) = torch.autograd.grad(first, t, v)
    # a central difference errs by step^2 beta^2, about 1e-8 relative here
    torch.testing.assert_close(product, difference.detach(), rtol=1e-5, atol=1e-8)
    assert product.abs().max() > 1e-3


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.BatchNorm2d(3), (4, 3, 5, 5)),
        (nn.BatchNorm2d(3, affine=False), (4, 3, 5, 5)),
        (nn.BatchNorm2d(3, eps=0.1), (4, 3, 5, 5)),
        (nn.BatchNorm1d(3), (4, 3)),
        (nn.BatchNorm1d(3), (4, 3, 6)),
        (nn.BatchNorm3d(3), (2, 3, 2, 2, 2)),
    ],
    ids=["2d", "2d not affine", "2d large eps", "1d", "1d sequence", "3d"],
)
def test_batch_norm_in_eval_mode_and_its_gradient_are_pytorchs(norm, shape):
    torch.manual_seed(0)
    norm = norm.double().eval()
    norm.running_mean.uniform_(-1, 1)
    norm.running_var.uniform_(0.5, 2)
    if norm.affine:
        norm.weight.data.uniform_(-2, 2)
        norm.bias.data.uniform_(-1, 1)

    def value_and_gradient(x: Tensor) -> tuple[Tensor, Tensor]:
        x.requires_grad_()
        out = norm(x)
        return out, torch.autograd.grad((out * weights).sum(), x)[0]

    x, weights = torch.randn(2, *shape, dtype=torch.float64)
    theirs = value_and_gradient(x.clone())
    with Twins(None):
        ours = value_and_gradient(x.clone())
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(3).train(), nn.BatchNorm2d(3, track_running_stats=False).eval()])
def test_batch_norm_that_uses_batch_statistics_still_does(norm):
    x = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0)) * 3 + 2
    with Twins(BETA):
        out = norm(x)
    # normalised over the batch up to batch norm's eps of 1e-5
    torch.testing.assert_close(out.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.var((0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0)


CONVOLUTIONS = {
    "plain": (nn.Conv2d(2, 3, 3), (2, 2, 7, 6)),
    "strided and padded": (nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(1, 0)), (2, 2, 7, 6)),
    "dilated": (nn.Conv2d(2, 3, 3, dilation=2, bias=False), (2, 2, 7, 6)),
    "grouped": (nn.Conv2d(4, 8, 3, groups=4), (2, 4, 7, 6)),
    "a stride that leaves pixels over": (nn.Conv2d(2, 3, 2, stride=3), (2, 2, 7, 6)),
    "padded by a word": (nn.Conv2d(2, 3, 3, padding="same"), (2, 2, 7, 6)),
    "padded in a circle": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 2, 7, 6)),
    "one image without a batch": (nn.Conv2d(2, 3, 3), (2, 7, 6)),
    "1d": (nn.Conv1d(2, 3, 3, stride=2), (2, 2, 9)),
    "3d": (nn.Conv3d(1, 2, 2), (2, 1, 3, 4, 5)),
    "transposed": (nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 2, 4, 4)),
}


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(("convolution", "shape"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_a_convolution_and_its_first_two_derivatives_are_pytorchs(convolution, shape, frozen):
    convolution = convolution.double().requires_grad_(not frozen)
    rng = torch.Generator().manual_seed(0)
    x, v = (torch.randn(shape, generator=rng, dtype=torch.float64) for _ in range(2))

    def derivatives() -> tuple[Tensor, Tensor, Tensor]:
        leaf = x.clone().requires_grad_()
        out = convolution(leaf)
        (first,) = torch.autograd.grad(out.sin().sum(), leaf, create_graph=True)  # a sine, so that there is a second
        (second,) = torch.autograd.grad(first, leaf, v)
        return out.detach(), first.detach(), second

    theirs = derivatives()
    with Twins(BETA):
        ours = derivatives()
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    assert ours[2].abs().max() > 1e-3


def test_weights_that_are_trained_keep_their_gradient_under_twins():
    convolution = nn.Conv2d(1, 2, 3)
    with Twins(BETA):
        convolution(torch.ones(1, 1, 4, 4)).sum().backward()
    assert convolution.weight.grad.abs().min() > 0


def test_softplus_bends_in_float32_as_far_up_as_it_does_in_float64():
    t = torch.linspace(-30, 30, 61)

    def bend(dtype):
        leaf = t.to(dtype).requires_grad_()
        with Twins(1.0):
            value = F.softplus(leaf).sum()
        (slope,) = torch.autograd.grad(value, leaf, create_graph=True)
        return torch.autograd.grad(slope.sum(), leaf)[0]

    # two sigmoids and two products in float32: a few roundings of 6e-8 each
    torch.testing.assert_close(bend(torch.float32).double(), bend(torch.float64), rtol=1e-6, atol=0)


@pytest.mark.parametrize("beta", [None, 5.0])
def test_softplus_of_the_networks_own_has_no_jump_of_its_slope(beta: float | None) -> None:
    """torch's own jumps by 2.06e-9 where beta t passes 20."""
    t = torch.tensor([4 - 1e-12, 4 + 1e-12], dtype=torch.float64, requires_grad=True)
    with Twins(beta):
        (slope,) = torch.autograd.grad(nn.Softplus(5.0)(t).sum(), t)
    (stock,) = torch.autograd.grad(nn.Softplus(5.0)(t).sum(), t)
    assert float(stock[1] - stock[0]) == pytest.approx(2.06e-9, rel=1e-2)
    assert float((slope[1] - slope[0]).abs()) <= 1e-15


def test_a_softplus_that_asks_for_an_early_continuation_keeps_it() -> None:
    t = torch.tensor([3.0], dtype=torch.float64)
    with Twins(None):
        assert float(F.softplus(t, threshold=2.0)) == 3.0


def test_the_second_derivative_is_there_whichever_derivative_was_asked_for_before():
    t = torch.linspace(-1, 1, 9, dtype=torch.float64, requires_grad=True)
    with Twins(20.0):
        total = torch.relu(t).sum()
    torch.autograd.grad(total, t, retain_graph=True)  # without a graph, as a value alone is computed
    (slope,) = torch.autograd.grad(total, t, create_graph=True)
    s = torch.sigmoid(20 * t.detach())
    for _ in range(2):  # products share one graph
        (bend,) = torch.autograd.grad(slope.sum(), t, retain_graph=True)
        torch.testing.assert_close(bend, 20 * s * (1 - s), rtol=1e-12, atol=1e-14)


def test_a_third_derivative_is_that_of_softplus():
    t = torch.linspace(-1, 1, 9, dtype=torch.float64, requires_grad=True)
    with Twins(2.0):
        (slope,) = torch.autograd.grad(torch.relu(t).sum(), t, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), t, create_graph=True)
    s = torch.sigmoid(2 * t.detach())
    torch.testing.assert_close(
        torch.autograd.grad(bend.sum(), t)[0], 4 * s * (1 - s) * (1 - 2 * s), rtol=1e-12, atol=1e-14
    )


def test_a_gradient_computes_no_second_derivative_and_a_graph_computes_it_once_for_all_products(monkeypatch):
    computed = []
    bend = frozen._bend

    def counted(*arguments):
        computed.append(1)
        return bend(*arguments)

    monkeypatch.setattr(frozen, "_bend", counted)
    t = torch.linspace(-1, 1, 9, requires_grad=True)
    with Twins(20.0):
        total = torch.relu(t).sum()
    torch.autograd.grad(total, t, retain_graph=True)
    assert computed == []
    (slope,) = torch.autograd.grad(total, t, create_graph=True)
    for _ in range(3):
        torch.autograd.grad(slope.sum(), t, retain_graph=True)
    assert computed == [1]
