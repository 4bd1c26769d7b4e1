"""Guided backpropagation, LRP and Grad-CAM on networks with batch norm, pooling and residual sums: as written out, as Captum has them."""

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace

import captum.attr
import numpy as np
import pytest
import torch
from reference.backward import Activation, Affine, Plus, Written
from reference.dense import jacobian
from reference.program import attrcert
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from attrcert import bound
from attrcert.attributions import ATTRIBUTIONS
from attrcert.attributions.differentiated import Differentiated
from attrcert.attributions.grad_cam import GradCam
from attrcert.attributions.gradient import Saliency
from attrcert.attributions.guided_backprop import GuidedBackprop
from attrcert.attributions.relevance import LayerwiseRelevance
from attrcert.attributions.smoothed import SmoothGrad
from attrcert.errors import AttributionError
from attrcert.linalg.row_sums import dense as formed
from attrcert.networks.classifier import Classifier
from attrcert.running.opening.memory import plan
from attrcert.types import Box

SHAPE, BETA = (2, 4, 4), 4.0
MEAN, STD = (0.4, 0.6), (0.3, 0.2)
MAPS = {
    "guided-backprop": GuidedBackprop(),
    **{rule: LayerwiseRelevance(rule) for rule in ("zb", "z-plus", "w-square")},
}
EXACT = 1e-11


def drawn(network: nn.Module) -> nn.Module:
    """With weights of its own."""
    rng = torch.Generator().manual_seed(3)
    network.double().eval().requires_grad_(False)
    for part in network.state_dict().values():
        if part.is_floating_point():
            part.copy_(torch.randn(part.shape, generator=rng) / part[0].numel() ** 0.5)
    return network


class Residual(nn.Module):
    """Every layer that has a rule of its own, written as torch's modules; `plain` writes the same with functions and in place."""

    def __init__(self, *, plain: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 4, 3, padding=1, bias=bias), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.relu1, self.relu2, self.relu3 = nn.ReLU(), nn.ReLU(), nn.ReLU()
        self.pool, self.fc1, self.fc2 = nn.AvgPool2d(2), nn.Linear(16, 6, bias=bias), nn.Linear(6, 3, bias=bias)
        self.plain = plain
        drawn(self)
        for bn in (self.bn1, self.bn2):
            bn.running_var.abs_().add_(0.5)
            if not bias:
                bn.running_mean.zero_(), bn.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if self.plain:
            a = F.relu(self.bn1(self.conv1(x)), inplace=True)
            b = F.batch_norm(F.conv2d(a, self.conv2.weight, None, 1, 1), *self.statistics)
            b += a
            c = F.avg_pool2d(torch.clamp(b, min=0), 2).reshape(len(x), -1)
            return F.linear(F.relu_(self.fc1(c)), self.fc2.weight, self.fc2.bias)
        a = self.relu1(self.bn1(self.conv1(x)))
        b = self.relu2(self.bn2(self.conv2(a)) + a)
        return self.fc2(self.relu3(self.fc1(self.pool(b).flatten(1))))

    @property
    def statistics(self) -> tuple[Tensor, ...]:
        return self.bn2.running_mean, self.bn2.running_var, self.bn2.weight, self.bn2.bias


def written(network: Residual, beta: float | None) -> Written:
    """The same as matrices, batch norm merged into them."""
    act = Activation(F.relu if beta is None else lambda t: torch.log1p(torch.exp(beta * t)) / beta)
    steps = (
        Affine.of(lambda x: network.bn1(network.conv1(x)), *SHAPE), act,
        Affine.of(lambda x: network.bn2(network.conv2(x)), 4, 4, 4), Plus(2), act,
        Affine.of(network.pool, 4, 4, 4), Affine.of(network.fc1, 16), act, Affine.of(network.fc2, 6),
    )  # fmt: skip
    mean, std = (torch.tensor(part, dtype=torch.float64).view(2, 1, 1) for part in (MEAN, STD))
    return Written(steps, beta, mean, std)


def of_image(reference: Written, name: str, y: int) -> Callable[[Tensor], Tensor]:
    return reference.guided(y) if name == "guided-backprop" else reference.relevance(y, name)


def classifier(network: nn.Module, beta: float | None = None) -> Classifier:
    return Classifier(network, MEAN, STD, beta=beta)


@pytest.fixture
def scene(images: Callable[..., Tensor]) -> SimpleNamespace:
    network = Residual()
    x = images(3, *SHAPE)
    return SimpleNamespace(network=network, x=x, y=torch.tensor([1, 0, 2]))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("beta", [None, BETA])
@pytest.mark.parametrize("name", MAPS)
def test_maps_and_jacobians_are_those_written_out_with_matrices(
    name: str, beta: float | None, plain: bool, scene: SimpleNamespace
) -> None:
    reference, f = written(scene.network, beta), classifier(Residual(plain=plain), beta)
    explained = MAPS[name].explain(f, scene.x, scene.y)
    for i, (image, y) in enumerate(zip(scene.x, scene.y.tolist(), strict=True)):
        expected = of_image(reference, name, y)(image).detach()
        assert float(expected.abs().max()) > 1e-3
        np.testing.assert_allclose(explained.value[i], expected, atol=EXACT)
        np.testing.assert_allclose(MAPS[name].value(f, scene.x, scene.y)[i], expected, atol=EXACT)
    J = jacobian(of_image(reference, name, 1), scene.x[0])
    assert (float(J.abs().max()) > 1e-3) == (beta is not None or name != "guided-backprop")
    np.testing.assert_allclose(formed(explained.jacobian.select(torch.tensor([0])))[0], J, atol=1e-10)


@pytest.mark.filterwarnings("ignore:Setting backward hooks")
def test_guided_backprop_and_grad_cam_are_captums(scene: SimpleNamespace) -> None:
    network, x, y = scene.network, scene.x, scene.y

    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network

        def forward(self, x: Tensor) -> Tensor:
            mean, std = (torch.tensor(part, dtype=torch.float64).view(2, 1, 1) for part in (MEAN, STD))
            return self.inner((x - mean) / std)

    whole, f = Normalised(), classifier(network)
    guided = captum.attr.GuidedBackprop(whole).attribute(x.clone().requires_grad_(), target=y)
    np.testing.assert_allclose(GuidedBackprop().value(f, x, y), guided.flatten(1), atol=1e-12)
    for layer in (None, "conv1", "relu2"):
        cam = captum.attr.LayerGradCam(whole, network.get_submodule(layer or "conv2")).attribute(x, target=y).detach()
        np.testing.assert_allclose(GradCam(layer).value(f, x, y), cam.flatten(1), atol=1e-12)
        assert GradCam(layer).map_shape(f, x) == (1, 4, 4)


def test_a_layer_that_is_written_into_has_the_grad_cam_of_what_it_gave(scene: SimpleNamespace) -> None:
    inplace = drawn(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, 3)))
    outside = nn.Sequential(*inplace)
    outside[1] = nn.ReLU()
    cams = [GradCam().value(classifier(f), scene.x, scene.y) for f in (inplace, outside)]
    assert float(cams[0].abs().max()) > 1e-3
    np.testing.assert_allclose(*cams, atol=1e-14)


def test_guided_backprop_scales_with_the_logits_and_tends_to_that_of_the_relu_network(scene: SimpleNamespace) -> None:
    """softplus of what is passed back would do neither where that is small."""
    larger = Residual()
    for part in (larger.fc2.weight, larger.fc2.bias):
        part.mul_(1e-3)
    whole, small = (GuidedBackprop().value(classifier(one, BETA), scene.x, scene.y) for one in (scene.network, larger))
    np.testing.assert_allclose(small, 1e-3 * whole, rtol=1e-9)
    exact = GuidedBackprop().value(classifier(scene.network), scene.x, scene.y)
    off = [
        float((GuidedBackprop().value(classifier(scene.network, beta), scene.x, scene.y) - exact).norm() / exact.norm())
        for beta in (10.0, 100.0, 1e3, 1e4)
    ]
    assert off[0] > off[1] > off[2] > off[3]
    assert off[3] < 1e-2


@pytest.mark.parametrize("beta", [None, BETA])
def test_relevance_is_conserved_where_no_layer_has_a_bias(beta: float | None, images: Callable[..., Tensor]) -> None:
    network, x = Residual(bias=False), images(4, *SHAPE)
    f = classifier(network, beta)
    logit, y = f(x).max(dim=1)
    assert float(logit.min()) > 1e-2
    for rule in ("zb", "z-plus", "w-square"):
        np.testing.assert_allclose(LayerwiseRelevance(rule).value(f, x, y).sum(dim=1), logit, rtol=1e-3)  # stabilisers
    biased = LayerwiseRelevance("zb").value(classifier(Residual(), beta), x, y).sum(dim=1)
    assert float((biased / classifier(Residual(), beta)(x).gather(1, y[:, None])[:, 0]).abs().max()) < 0.99


@pytest.mark.parametrize("stabiliser", [1e-6, 0.5])
def test_the_relevance_of_one_layer_is_its_share_of_the_distance_to_the_box(stabiliser: float) -> None:
    layer = nn.Sequential(nn.Flatten(), nn.Linear(3, 1, bias=False)).double().requires_grad_(False)
    layer[1].weight.copy_(torch.tensor([[2.0, -1.0, 0.5]]))
    x, y = torch.tensor([[[[0.25, 0.5, 1.0]]]], dtype=torch.float64), torch.tensor([0])
    f = Classifier(layer, beta=None, within=Box.of(-1.0, 2.0))
    away = torch.tensor([2 * 1.25, 1 * 1.5, 0.5 * 2.0], dtype=torch.float64)  # w+ (x - l) and w- (x - h)
    found = LayerwiseRelevance("zb", stabiliser).value(f, x, y)[0]
    np.testing.assert_allclose(found, float(f(x)) * away / (away.sum() + stabiliser), rtol=1e-12)


@pytest.mark.parametrize("rule", ["zb", "w-square"])
def test_averages_of_pixels_are_pixels_to_the_rule_of_the_input(rule: str, images: Callable[..., Tensor]) -> None:
    """A pixel gets its share of the distance to the low end, which is 0 in pixels; by w^2 all of a window have the same."""
    rest = drawn(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)))
    x, y = images(2, 2, 8, 8), torch.tensor([2, 0])
    small = F.avg_pool2d(x, 2)
    coarse = LayerwiseRelevance(rule).value(classifier(rest), small, y).view_as(small)
    shares = x / (4 * small.repeat_interleave(2, 2).repeat_interleave(2, 3)) if rule == "zb" else 0.25
    expected = coarse.repeat_interleave(2, 2).repeat_interleave(2, 3) * shares
    found = LayerwiseRelevance(rule).value(classifier(nn.Sequential(nn.AvgPool2d(2), rest)), x, y)
    assert float(found.abs().max()) > 1e-3
    np.testing.assert_allclose(found, expected.flatten(1), atol=1e-4 * float(found.abs().max()))  # stabilisers


def test_pixels_side_by_side_are_pixels_to_the_rule_of_the_input(images: Callable[..., Tensor]) -> None:
    x, y = images(2, *SHAPE), torch.tensor([2, 0])
    once = drawn(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)))

    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            wide = torch.cat([once[0].weight / 2, once[0].weight / 2], 1)
            return once[1:](F.conv2d(torch.cat([x, x], 1), wide, once[0].bias))

    ours, theirs = (LayerwiseRelevance("zb").value(classifier(one), x, y) for one in (once, Twice()))
    np.testing.assert_allclose(theirs, ours, atol=EXACT)


def test_noise_beyond_the_box_counts_as_its_border(scene: SimpleNamespace) -> None:
    x = scene.x.clone()
    x[:, :, 0], x[:, :, 1] = -0.7, 1.9
    f = classifier(scene.network)
    logit = f(x).gather(1, scene.y[:, None])
    assert bool((LayerwiseRelevance("zb").value(f, x, scene.y) * logit.sign() >= 0).all())  # every share is one
    linear = drawn(nn.Sequential(nn.Flatten(), nn.Linear(32, 3, bias=False)))
    beyond, border = (
        LayerwiseRelevance("zb").value(classifier(linear), z, scene.y)
        / classifier(linear)(z).gather(1, scene.y[:, None])
        for z in (x, x.clamp(0, 1))
    )
    np.testing.assert_allclose(beyond, border, rtol=1e-9)


class Made(nn.Module):
    """A network of a function of two convolutions' results."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Conv2d(2, 4, 3), nn.Conv2d(2, 4, 3), nn.LazyLinear(3)
        self.function = function
        self(torch.zeros(1, *SHAPE))
        drawn(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.function(self.one(x), self.two(x)).flatten(1))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        with torch._C.DisableTorchFunction():
            return 2 * a

    @staticmethod
    def backward(ctx, u):
        return 2 * u


def in_a_view(a: Tensor, b: Tensor) -> Tensor:
    c = a.relu()
    c.view(len(c), -1).mul_(2.0)
    return c + b


def without_graph(a: Tensor, b: Tensor) -> Tensor:
    with torch.no_grad():
        return a * 2.0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda a, b: a * b, "mul of two results in the model"),
        (lambda a, b: a - b, "sub of two results"),
        (lambda a, b: F.layer_norm(a, a.shape[1:]), "layer_norm in"),
        (lambda a, b: a.softmax(1) + b, "softmax in"),
        (lambda a, b: a + b.detach(), "detach in"),
        (lambda a, b: torch.add(a, b, alpha=2.0), "add with alpha"),
        (lambda a, b: F.batch_norm(a, None, None, training=True), "statistics of the batch"),
        (lambda a, b: a + b.mean((2, 3), keepdim=True), "a sum of results of different shapes"),
        (lambda a, b: 1.0 / a, "rtruediv in"),
        (lambda a, b: Doubled.apply(a) + b, "an operation that is none of torch's"),
        (in_a_view, "writing into a view"),
        (without_graph, "an operation without a gradient"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(function, said, scene: SimpleNamespace) -> None:
    with pytest.raises(AttributionError, match=f"lrp has no rule for .*{said}"):
        LayerwiseRelevance().value(classifier(Made(function)), scene.x, scene.y)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: torch.cat([a.relu(), F.max_pool2d(F.pad(b.relu(), (0, 1, 0, 1)), 2, 1)], 1),
        lambda a, b: F.dropout(2 * a.relu() / 4, 0.5, False) + b.relu().permute(0, 1, 3, 2)[:, :, ::1],
        lambda a, b: torch.cat([part.mean((2, 3)) for part in (a.relu() + b.relu()).chunk(2, 1)], 1),
        lambda a, b: a.sigmoid().clone().unsqueeze(1).squeeze(1) + F.relu6(b, True),
    ],
)
@pytest.mark.parametrize("beta", [None, BETA])
def test_other_functions_pass_on_what_they_get(beta: float | None, function, scene: SimpleNamespace) -> None:
    network = Made(function)
    for part in (network.one, network.two, network.head):
        part.bias.zero_()
    network.head.weight.abs_()
    f = classifier(network, beta)
    logit, y = f(scene.x).max(dim=1)
    assert float(logit.min()) > 1e-2
    np.testing.assert_allclose(LayerwiseRelevance("zb").value(f, scene.x, y).sum(dim=1), logit, rtol=1e-3)


ZERO = torch.zeros((), dtype=torch.float64)
SAID_OTHERWISE = [
    (lambda a: a.relu(), lambda a: torch.relu(input=a)),
    (lambda a: a.relu(), lambda a: torch.clamp(input=a, min=0)),
    (lambda a: a.relu(), lambda a: torch.max(a, ZERO)),
    (lambda a: a.relu(), lambda a: torch.fmax(a, ZERO)),
    (lambda a: (a.relu() - 0.3).relu(), lambda a: torch.subtract(a.relu(), 0.3).relu()),
    (lambda a: (a.relu() + 0.3).relu(), lambda a: torch.subtract(a.relu(), -0.3).relu()),
    (lambda a: -(a.relu() / 2.0), lambda a: torch.negative(torch.true_divide(a.relu(), 2.0))),
]


@pytest.mark.parametrize("beta", [None, BETA])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(("usual", "other"), SAID_OTHERWISE)
def test_a_function_has_its_rule_under_each_of_its_names(
    usual, other, name: str, beta: float | None, scene: SimpleNamespace
) -> None:
    networks = Made(lambda a, b: usual(a) + b.relu()), Made(lambda a, b: other(a) + b.relu())
    ours, theirs = (MAPS[name].value(classifier(one, beta), scene.x, scene.y) for one in networks)
    assert float(ours.abs().max()) > 1e-3
    np.testing.assert_allclose(theirs, ours, atol=EXACT)


def test_zero_may_stand_first_in_a_gate(scene: SimpleNamespace) -> None:
    networks = Made(lambda a, b: a.relu() + b), Made(lambda a, b: torch.maximum(ZERO, a) + b)
    usual, other = (GuidedBackprop().value(classifier(one), scene.x, scene.y) for one in networks)
    plain = Saliency().value(classifier(Made(lambda a, b: a.relu() + b)), scene.x, scene.y)
    assert float((usual - plain).abs().max()) > 1e-3
    np.testing.assert_allclose(other, usual, atol=EXACT)


def test_a_box_that_does_not_end_is_refused(scene: SimpleNamespace) -> None:
    f = Classifier(scene.network, beta=None, within=Box.of(-np.inf, np.inf))
    with pytest.raises(AttributionError, match="lie in a box"):
        LayerwiseRelevance("zb").value(f, scene.x, scene.y)
    assert LayerwiseRelevance("w-square").value(f, scene.x, scene.y).isfinite().all()


@pytest.mark.parametrize("name", ["guided-backprop", "lrp"])
def test_products_cost_at_most_twice_those_of_saliency(name: str) -> None:
    """Counted in multiplications of layers, which take most of the time."""
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4)
    )  # fmt: skip
    f, x, y = Classifier(network.eval().requires_grad_(False)), torch.rand(2, 3, 8, 8), torch.tensor([0, 1])

    def cost(attribution: Differentiated | Saliency, transposed: bool) -> int:
        J = attribution.explain(f, x, y).jacobian
        product, v = (J.rmatvec if transposed else J.matvec), torch.rand(2, 192)
        product(v)  # builds its graph
        with FlopCounterMode(display=False) as counted:
            product(v)
        return counted.get_total_flops()

    for transposed in (False, True):
        assert 0 < cost(ATTRIBUTIONS.make(name), transposed) <= 1.6 * cost(Saliency(), transposed)


def test_graphs_that_are_not_kept_give_the_same_products(scene: SimpleNamespace) -> None:
    f, v = classifier(scene.network, BETA), torch.rand(3, 32, dtype=torch.float64)
    kept, rebuilt = (LayerwiseRelevance(chunk=1, held=held).explain(f, scene.x, scene.y).jacobian for held in (None, 1))
    for _ in range(2):
        np.testing.assert_allclose(rebuilt.matvec(v), kept.matvec(v), atol=1e-14)
        np.testing.assert_allclose(rebuilt.rmatvec(v), kept.rmatvec(v), atol=1e-14)
    assert list(rebuilt._graphs) == list(rebuilt._pulled) == [0]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", MAPS)
def test_a_graph_goes_with_its_map_and_does_not_wait_for_the_collector(
    name: str, plain: bool, scene: SimpleNamespace
) -> None:
    gc.collect()
    gc.disable()
    try:
        leaf, g = MAPS[name].maps(classifier(Residual(plain=plain), BETA), scene.x, scene.y, twice=True)
        alive = weakref.ref(leaf)
        del leaf, g
        assert alive() is None
    finally:
        gc.enable()


def test_what_an_average_of_relevance_needs_is_what_relevance_needs(scene: SimpleNamespace) -> None:
    f, x, y = classifier(scene.network, BETA), scene.x[:1], scene.y[:1]
    of_gradients, of_relevance = (
        plan(SmoothGrad(0.1, 8, base), f, x, y, memory=10**7, vectors=1).least
        for base in (Saliency(), LayerwiseRelevance())
    )
    assert of_relevance > 1.5 * of_gradients


# From the command line and Python

NAMES = "gbp,lrp,cam,loss-gradient"
LABELS = ["guided-backprop", "lrp(rule=zb, stabiliser=1e-06)", "grad-cam", "loss-gradient"]
FEW = ("--limit", 1, "--quiet", "--format", "csv")


@pytest.mark.parametrize(
    ("words", "column"),
    [
        (("bound", "--ball"), "T_e_ball"),
        (("attack", "--steps", 2, "--restarts", 0, "--random-draws", 2, "--transfer", "lrp"), "T_hat_e"),
        (("max-eps", "--max-angle", 20), "eps_max"),
        (("bound", "--smooth", "gaussian", "--samples", 60, "--eps", 0.01), "C_lower"),
    ],
)
def test_every_command_takes_all_of_them_in_one_run(words, column) -> None:
    done = attrcert(*words, "--attribution", NAMES, *FEW)
    assert done.code == 0, done.err
    assert [row["attribution"].removesuffix(", unit") for row in done.rows] == LABELS
    assert all(float(row[column]) > 0 for row in done.rows)


def test_what_they_are_is_part_of_their_name_and_what_they_do_not_have_is_refused() -> None:
    named = attrcert(
        "bound", "--attribution", "lrp,cam", "--lrp-rule", "z-plus", "--lrp-stabiliser", "0.01", "--layer", "0", *FEW
    )
    assert [row["attribution"] for row in named.rows] == ["lrp(rule=z-plus, stabiliser=0.01)", "grad-cam(layer=0)"]
    assert "--lrp-rule has no effect here: it is for lrp" in attrcert("bound", "--lrp-rule", "z-plus", *FEW).said
    assert "--layer must be one of 0, 1, 2" in attrcert("bound", "--attribution", "cam", "--layer", "9", *FEW).said
    flat = attrcert("bound", "--attribution", "cam", "--layer", "6", *FEW)
    assert "needs a layer that gives (batch, channels, ...), 6 gives" in flat.said
    for name in NAMES.split(","):
        refused = attrcert("bound", "--proved", "--attribution", name, *FEW)
        assert refused.code == 2
        assert f"not for {ATTRIBUTIONS.name(name)}" in refused.said
    assert "of the layer 2, the last convolution" in attrcert("bound", "--attribution", "lrp,cam", "--limit", 1).shown


def test_inputs_without_a_range_have_rules_without_a_box() -> None:
    refused = attrcert("bound", "wine", "--attribution", "lrp", *FEW)
    assert "--lrp-rule w-square" in refused.said
    assert attrcert("bound", "wine", "--attribution", "lrp", "--lrp-rule", "w-square", *FEW).code == 0
    boxed = attrcert("bound", "wine", "--attribution", "lrp", "--input-range", "data", *FEW)
    assert boxed.code == 0, boxed.err  # also where the box ends, but for rounding


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_guided_map_of_relus_left_as_they_are_has_no_bound_and_relevance_has(scene: SimpleNamespace) -> None:
    settings = {"mean": MEAN, "std": STD, "softplus_beta": None, "dtype": "float64", "eps": (0.01,)}
    data = (scene.x.float(), None)
    with pytest.raises(AttributionError, match=r"its Jacobian is zero.*--softplus-beta"):
        bound(scene.network, data, attribution="gbp", **settings)
    (row, *_) = bound(scene.network, data, attribution="lrp", **settings)
    assert row["T_e"] > 0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_gradient_of_the_loss_has_its_closed_form_where_that_is_asked_for(scene: SimpleNamespace) -> None:
    settings = {"mean": MEAN, "std": STD, "dtype": "float64", "eps": (0.01,)}
    data = (scene.x.float(), None)
    closed, named, smooth = (
        bound(scene.network, data, **more, **settings)
        for more in (
            {"loss_hessian": True},
            {"loss_hessian": True, "attribution": "loss-gradient"},
            {"attribution": "loss-gradient", "softplus_beta": 1e5},
        )
    )
    assert closed[0]["T_e"] == named[0]["T_e"]
    assert {row["attribution"] for rows in (closed, named, smooth) for row in rows} == {"loss-gradient"}
    assert smooth[0]["xi_upper"] == pytest.approx(closed[0]["xi_upper"], rel=0.02)  # but for kinks that are near
