"""Attributions against Captum, and their Jacobian products against dense autograd Jacobians."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import captum.attr
import numpy as np
import pytest
import torch
from reference import dense
from reference.backward import chain
from torch import Tensor, nn

from attrcert.attributions import ATTRIBUTIONS
from attrcert.attributions.baselines import Baseline, Blurred, Constant
from attrcert.attributions.grad_cam import GradCam
from attrcert.attributions.gradient import TALLY, Saliency, logit_gradients
from attrcert.attributions.guided_backprop import GuidedBackprop
from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.attributions.loss_gradient import LossGradient, PiecewiseLossGradient
from attrcert.attributions.relevance import LayerwiseRelevance
from attrcert.attributions.smoothed import SmoothGrad, UniformSmooth
from attrcert.attributions.unit import Direction
from attrcert.draws import Draws
from attrcert.errors import UsageError
from attrcert.linalg.row_sums import dense as formed
from attrcert.networks.classifier import Classifier
from attrcert.types import Attribution
from attrcert.vocabulary import LRP_RULES

# sums over at most 48 pixels and 25 nodes of numbers of order one in float64
EXACT = 1e-11
SHAPE = (2, 4, 4)
PIXELS = 32


@dataclass(frozen=True)
class Case:
    """An attribution, and the same written out for one image, given its place in the batch."""

    attribution: Attribution
    written: Callable[[dense.Network, int, int], dense.SampleMap]


def plain(written: Callable[[dense.Network, int], dense.SampleMap]) -> Callable[..., dense.SampleMap]:
    """For attributions that do not ask which sample it is."""
    return lambda f, y, place: written(f, y)


def rule(quadrature: str, steps: int) -> tuple[list[float], list[float]]:
    """Nodes and weights on [0, 1], from the definition of either quadrature."""
    if quadrature == "riemann-right":
        return [(k + 1) / steps for k in range(steps)], [1 / steps] * steps
    # Golub & Welsch: the nodes are eigenvalues, the weights squared first components
    off = [k / (4 * k * k - 1) ** 0.5 for k in range(1, steps)]
    nodes, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    return list((nodes + 1) / 2), list(vectors[0] ** 2)


def per_channel(values: tuple[float, ...]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.stack([torch.full_like(x[c].detach(), value) for c, value in enumerate(values)])


def integrated(steps: int, quadrature: str, baseline: Baseline, written: Callable[[Tensor], Tensor]) -> Case:
    nodes, weights = rule(quadrature, steps)
    return Case(
        IntegratedGradients(steps, quadrature, baseline),
        plain(lambda f, y: dense.integrated_gradients(f, y, written, nodes, weights)),
    )


def averaged(attribution: SmoothGrad | UniformSmooth, noise: Callable[[Draws], Tensor]) -> Case:
    """The mean of the gradient over noise from the sample's own stream, one draw after the other."""

    def written(f: dense.Network, y: int, place: int) -> dense.SampleMap:
        drawn = noise(Draws(0, (place,)))[0]
        return lambda x: sum(dense.saliency(f, y)(x + n.view(SHAPE)) for n in drawn) / len(drawn)

    return Case(attribution, written)


def stream(draws: Draws, purpose: str, *shape: int) -> Tensor:
    return draws.normal(purpose, *shape, like=torch.empty(0, dtype=torch.float64))


def in_ball(draws: Draws) -> Tensor:
    """Four points of the ball of radius 1/2: directions of normal vectors, lengths U^(1/n) / 2, U by the normal's own law."""
    z, t = stream(draws, "uniform-noise", 4, PIXELS), stream(draws, "uniform-length", 4, 1)
    uniform = 2 * torch.special.ndtr(t.abs()) - 1
    return 0.5 * uniform ** (1 / PIXELS) * z / z.norm(dim=2, keepdim=True)


BASELINES: dict[str, tuple[Baseline, Callable[[Tensor], Tensor]]] = {
    "black": (Constant((0.0,)), per_channel((0.0, 0.0))),
    "grey": (Constant((0.5,)), per_channel((0.5, 0.5))),
    "per-channel": (Constant((0.2, 0.7)), per_channel((0.2, 0.7))),
    "blur": (Blurred(1.3), lambda x: dense.blur(x, 1.3)),
}
CASES: dict[str, Case] = {
    "saliency": Case(Saliency(), plain(dense.saliency)),
    "input-x-gradient": Case(InputTimesGradient(), plain(dense.input_times_gradient)),
    "guided-backprop": Case(GuidedBackprop(), plain(lambda f, y: chain(f, *SHAPE).guided(y))),
    **{
        f"lrp-{rule}": Case(
            LayerwiseRelevance(rule), plain(partial(lambda rule, f, y: chain(f, *SHAPE).relevance(y, rule), rule))
        )
        for rule in LRP_RULES
    },
    "grad-cam": Case(GradCam("0"), plain(lambda f, y: dense.grad_cam(f, y, 0))),
    "loss-gradient": Case(LossGradient(), plain(dense.loss_gradient)),
    "smooth-grad": averaged(SmoothGrad(0.2, 4), lambda draws: 0.2 * stream(draws, "gaussian-noise", 4, PIXELS)),
    "uniform-smooth": averaged(UniformSmooth(0.5, 4), in_ball),
    **{
        f"integrated-gradients-{quadrature}-{name}": integrated(5, quadrature, *pair)
        for quadrature in ("gauss-legendre", "riemann-right")
        for name, pair in BASELINES.items()
    },
}


@pytest.fixture(scope="module")
def f(smooth_cnn: Callable[..., nn.Sequential]) -> nn.Sequential:
    return smooth_cnn(channels=SHAPE[0], side=SHAPE[1])


@pytest.fixture(scope="module")
def x(images: Callable[..., Tensor]) -> Tensor:
    return images(3, *SHAPE)


Y = torch.tensor([2, 0, 3])


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense_jacobians(case: Case, f: dense.Network, x: Tensor, y: Tensor) -> Tensor:
    places = enumerate(zip(x, y, strict=True))
    return torch.stack([dense.jacobian(case.written(f, int(k), place), image) for place, (image, k) in places])


@pytest.mark.parametrize("name", CASES)
def test_value_is_the_written_out_attribution_of_each_image(name: str, f: nn.Module, x: Tensor) -> None:
    case = CASES[name]
    places = enumerate(zip(x, Y, strict=True))
    expected = torch.stack([case.written(f, int(k), place)(image).detach() for place, (image, k) in places])
    assert float(expected.abs().max()) > 1e-3
    np.testing.assert_allclose(case.attribution.value(f, x, Y), expected, atol=EXACT)
    np.testing.assert_allclose(case.attribution.explain(f, x, Y).value, expected, atol=EXACT)


@pytest.mark.parametrize("name", CASES)
def test_a_map_takes_as_many_gradients_as_the_attribution_says(name: str, f: nn.Module, x: Tensor) -> None:
    for attribution in (CASES[name].attribution, Direction(CASES[name].attribution)):
        before = TALLY.derivatives
        attribution.value(f, x, Y)
        assert TALLY.derivatives - before == len(x) * attribution.points


@pytest.mark.parametrize("b", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_the_dense_autograd_jacobian(name: str, b: int, f: nn.Module, x: Tensor) -> None:
    case, x, y = CASES[name], x[:b], Y[:b]
    J = case.attribution.explain(f, x, y).jacobian
    expected = dense_jacobians(case, f, x, y)
    v, u = normal(1, b, J.shape[2]), normal(2, b, J.shape[1])
    assert J.shape == tuple(expected.shape)
    assert float(expected.abs().max()) > 1e-2  # there is curvature to be wrong about
    np.testing.assert_allclose(J.matvec(v), torch.einsum("bmn,bn->bm", expected, v), atol=1e-8)
    np.testing.assert_allclose(J.rmatvec(u), torch.einsum("bmn,bm->bn", expected, u), atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_jacobian_says_symmetric_exactly_where_it_is(name: str, f: nn.Module, x: Tensor) -> None:
    case = CASES[name]
    J = case.attribution.explain(f, x, Y).jacobian
    expected = dense_jacobians(case, f, x, Y)
    square = expected.shape[1] == expected.shape[2]
    asymmetry = float((expected - expected.mT).abs().max() / expected.abs().max()) if square else 1.0
    assert J.symmetric == (asymmetry < 1e-10)  # rounding; the others are far from symmetric


@pytest.mark.parametrize("name", CASES)
def test_matvec_and_rmatvec_are_adjoint(name: str, f: nn.Module, x: Tensor) -> None:
    J = CASES[name].attribution.explain(f, x, Y).jacobian
    for seed in range(3):
        v, u = normal(10 + seed, 3, J.shape[2]), normal(20 + seed, 3, J.shape[1])
        left, right = (u * J.matvec(v)).sum(1), (J.rmatvec(u) * v).sum(1)
        assert float(left.abs().max()) > 1e-2
        np.testing.assert_allclose(left, right, atol=EXACT)


@pytest.mark.parametrize("name", CASES)
def test_perturbing_one_image_leaves_the_other_rows_unchanged(name: str, f: nn.Module, x: Tensor) -> None:
    attribution = CASES[name].attribution
    moved = x.clone()
    moved[0] = 1 - moved[0]
    v, u = normal(3, 3, x[0].numel()), normal(4, 3, attribution.explain(f, x, Y).jacobian.shape[1])
    before, after = (attribution.explain(f, images, Y) for images in (x, moved))
    for old, new in (
        (before.value, after.value),
        (attribution.value(f, x, Y), attribution.value(f, moved, Y)),
        (before.jacobian.matvec(v), after.jacobian.matvec(v)),
        (before.jacobian.rmatvec(u), after.jacobian.rmatvec(u)),
    ):
        assert float((old[0] - new[0]).abs().max()) > 1e-4
        np.testing.assert_allclose(old[1:], new[1:], atol=1e-13)  # same batch size, same order of sums


@pytest.mark.parametrize("name", CASES)
def test_selected_samples_keep_their_products(name: str, f: nn.Module, x: Tensor) -> None:
    J = CASES[name].attribution.explain(f, x, Y).jacobian
    keep = torch.tensor([2, 0])
    some, v, u = J.select(keep), normal(5, 3, J.shape[2]), normal(6, 3, J.shape[1])
    assert some.shape == (2, *J.shape[1:])
    np.testing.assert_allclose(some.matvec(v[keep]), J.matvec(v)[keep], atol=EXACT)
    np.testing.assert_allclose(some.rmatvec(u[keep]), J.rmatvec(u)[keep], atol=EXACT)
    again = some.select(torch.tensor([1]))
    np.testing.assert_allclose(again.matvec(v[:1]), J.matvec(v)[:1], atol=EXACT)


@pytest.mark.parametrize("name", CASES)
def test_forming_the_map_column_by_column_gives_the_dense_jacobian(name: str, f: nn.Module, x: Tensor) -> None:
    case = CASES[name]
    J = case.attribution.explain(f, x[:1], Y[:1]).jacobian
    np.testing.assert_allclose(formed(J), dense_jacobians(case, f, x[:1], Y[:1]), atol=1e-8)


CAPTUM: dict[str, tuple[Attribution, Callable[[nn.Module, Tensor], Tensor]]] = {
    "saliency": (Saliency(), lambda f, x: captum.attr.Saliency(f).attribute(x, target=Y, abs=False)),
    "input-x-gradient": (
        InputTimesGradient(),
        lambda f, x: captum.attr.InputXGradient(f).attribute(x, target=Y),
    ),
    "integrated-gradients-gauss-legendre": (
        IntegratedGradients(20, "gauss-legendre", Constant((0.3,))),
        lambda f, x: captum.attr.IntegratedGradients(f).attribute(
            x, baselines=0.3, target=Y, n_steps=20, method="gausslegendre"
        ),
    ),
    "integrated-gradients-riemann-right": (
        IntegratedGradients(20, "riemann-right", Constant((0.3,))),
        lambda f, x: captum.attr.IntegratedGradients(f).attribute(
            x, baselines=0.3, target=Y, n_steps=20, method="riemann_right"
        ),
    ),
    "integrated-gradients-defaults": (
        IntegratedGradients(steps=50),
        lambda f, x: captum.attr.IntegratedGradients(f).attribute(x, target=Y),
    ),
}


@pytest.mark.parametrize("name", CAPTUM)
def test_value_is_captums(name: str, f: nn.Module, x: Tensor) -> None:
    attribution, theirs = CAPTUM[name]
    expected = theirs(f, x.clone().requires_grad_()).detach().flatten(1)
    # Captum holds its quadrature in float32: seven digits of values of order one
    np.testing.assert_allclose(attribution.value(f, x, Y), expected, atol=1e-5)
    assert float(expected.abs().max()) > 0.05


@pytest.mark.parametrize("name", CAPTUM)
def test_value_is_captums_for_a_normalised_classifier_with_softplus_twins(
    name: str, relu_mlp: Callable[..., nn.Sequential], images: Callable[..., Tensor]
) -> None:
    """Against Captum on a network with the normalisation and the softplus as layers."""
    attribution, theirs = CAPTUM[name]
    network, z = relu_mlp(inputs=18), images(3, 2, 3, 3)
    classifier = Classifier(network, (0.4, 0.6), (0.3, 0.2), beta=8.0)

    def written_out(x: Tensor) -> Tensor:
        h = (x - torch.tensor([0.4, 0.6]).view(2, 1, 1).double()) / torch.tensor([0.3, 0.2]).view(2, 1, 1).double()
        for layer in network:
            h = nn.functional.softplus(h, beta=8.0) if isinstance(layer, nn.ReLU) else layer(h)
        return h

    expected = theirs(written_out, z.clone().requires_grad_()).detach().flatten(1)
    # mean and std of the classifier and of the reference are floats; Captum's quadrature is float32, times slopes of 10
    np.testing.assert_allclose(attribution.value(classifier, z, Y), expected, atol=1e-5)


def test_integrated_gradients_with_one_right_step_is_input_times_gradient(f: nn.Module, x: Tensor) -> None:
    one = IntegratedGradients(1, "riemann-right").explain(f, x, Y)
    product = InputTimesGradient().explain(f, x, Y)
    v, u = normal(7, 3, x[0].numel()), normal(8, 3, x[0].numel())
    np.testing.assert_allclose(one.value, product.value, atol=EXACT)
    np.testing.assert_allclose(one.jacobian.matvec(v), product.jacobian.matvec(v), atol=EXACT)
    np.testing.assert_allclose(one.jacobian.rmatvec(u), product.jacobian.rmatvec(u), atol=EXACT)


@pytest.mark.parametrize("chunk", [1, 2, 7, 15, 64])
def test_chunk_size_does_not_matter(chunk: int, f: nn.Module, x: Tensor) -> None:
    whole = IntegratedGradients(5, baseline=Blurred(1.3), chunk=1000)
    parts = replace(whole, chunk=chunk)
    v, u = normal(9, 3, x[0].numel()), normal(10, 3, x[0].numel())
    expected, found = whole.explain(f, x, Y), parts.explain(f, x, Y)
    np.testing.assert_allclose(parts.value(f, x, Y), expected.value, atol=EXACT)
    np.testing.assert_allclose(found.value, expected.value, atol=EXACT)
    np.testing.assert_allclose(found.jacobian.matvec(v), expected.jacobian.matvec(v), atol=EXACT)
    np.testing.assert_allclose(found.jacobian.rmatvec(u), expected.jacobian.rmatvec(u), atol=EXACT)
    keep = torch.tensor([1, 2])
    np.testing.assert_allclose(
        found.jacobian.select(keep).matvec(v[keep]), expected.jacobian.matvec(v)[keep], atol=EXACT
    )


def test_no_more_points_than_a_chunk_are_differentiated_at_once(f: nn.Module, x: Tensor) -> None:
    sizes: list[int] = []

    def counted(z: Tensor) -> Tensor:
        sizes.append(len(z))
        return f(z)

    IntegratedGradients(5, chunk=4).value(counted, x, Y)
    assert max(sizes) == 4
    assert sum(sizes) == 15


@pytest.mark.parametrize("quadrature", ["gauss-legendre", "riemann-right"])
@pytest.mark.parametrize("name", BASELINES)
def test_completeness_gap_is_what_the_sum_of_the_attribution_misses(
    name: str, quadrature: str, f: nn.Module, x: Tensor
) -> None:
    baseline, written = BASELINES[name]
    found = IntegratedGradients(3, quadrature, baseline).explain(f, x, Y)
    start = torch.stack([written(image) for image in x])
    rise = (f(x) - f(start)).gather(1, Y[:, None])[:, 0]
    assert found.gap is not None
    np.testing.assert_allclose(found.gap, (found.value.sum(1) - rise).abs(), atol=EXACT)


def test_completeness_gap_shrinks_with_steps(f: nn.Module, x: Tensor) -> None:
    gaps = [float(IntegratedGradients(n, "riemann-right").explain(f, x, Y).gap.max()) for n in (4, 16, 64)]
    # a right Riemann sum is of first order: four times the steps, about a quarter of the gap
    assert gaps[1] < gaps[0] / 3
    assert gaps[2] < gaps[1] / 3
    gauss = [float(IntegratedGradients(n).explain(f, x, Y).gap.max()) for n in (1, 3, 20)]
    assert gauss[0] > 10 * gauss[1] > 1e3 * gauss[2]
    assert gauss[2] < 1e-10  # an analytic integrand: twenty Gauss nodes reach rounding


def test_attributions_without_a_promise_of_completeness_report_no_gap(f: nn.Module, x: Tensor) -> None:
    assert Saliency().explain(f, x, Y).gap is None
    assert InputTimesGradient().explain(f, x, Y).gap is None


def test_column_sums_of_the_path_jacobian_are_the_gradient_of_the_class(f: nn.Module, x: Tensor) -> None:
    """Completeness differentiated: J^T 1 = grad f_y, for a baseline that stays put."""
    J = IntegratedGradients(20).explain(f, x, Y).jacobian
    ones = torch.ones(3, J.shape[1], dtype=torch.float64)
    np.testing.assert_allclose(J.rmatvec(ones), Saliency().value(f, x, Y), atol=1e-9)  # the quadrature's error
    assert float((J.matvec(ones) - Saliency().value(f, x, Y)).abs().max()) > 1e-2  # and J 1 is not


def test_affine_class_has_a_zero_hessian_product_instead_of_an_error() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).double()
    x, y = normal(0, 2, 1, 2, 2), torch.tensor([0, 2])
    for attribution in (Saliency(), IntegratedGradients(3)):
        J = attribution.explain(network, x, y).jacobian
        product = J.matvec(torch.ones(2, 4, dtype=torch.float64))
        slope = network[1].weight.detach()[y]
        expected = torch.zeros_like(slope) if isinstance(attribution, Saliency) else slope
        np.testing.assert_allclose(product, expected, atol=1e-14)


def test_finite_differences_of_value_approach_the_product(f: nn.Module, x: Tensor) -> None:
    """`value` is what an attack evaluates; its derivative has to be the product that the bound is made of."""
    v = normal(11, 3, x[0].numel())
    h = 1e-5
    for case in CASES.values():
        g = case.attribution
        step = h * v.view_as(x)
        slope = (g.value(f, x + step, Y) - g.value(f, x - step, Y)) / (2 * h)
        # central differences: h^2 times third derivatives of order 10, and rounding / h
        np.testing.assert_allclose(slope, g.explain(f, x, Y).jacobian.matvec(v), atol=1e-7)


@pytest.mark.parametrize("name", list(ATTRIBUTIONS))
def test_every_attribution_of_the_catalogue_is_among_the_cases(name: str) -> None:
    assert name in {next(n for n in ATTRIBUTIONS if case.startswith(n)) for case in CASES}
    assert isinstance(
        ATTRIBUTIONS.make(name), type(next(c.attribution for k, c in CASES.items() if k.startswith(name)))
    )


def test_unknown_quadrature_and_no_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="quadrature must be one of"):
        IntegratedGradients(quadrature="simpson")
    with pytest.raises(UsageError, match="at least 1, got 0"):
        IntegratedGradients(steps=0)


def test_blurred_baseline_keeps_a_constant_image_and_has_the_adjoint_it_says(x: Tensor) -> None:
    blurred = Blurred(1.3)
    np.testing.assert_allclose(blurred(torch.full_like(x, 0.7)), torch.full_like(x, 0.7), atol=1e-14)
    u = normal(12, *x.shape)
    left, right = (u * blurred.linear(x)).sum(), (blurred.adjoint(u) * x).sum()
    assert float(left) == pytest.approx(float(right), rel=1e-12)
    assert float((blurred(x) - x).abs().max()) > 0.1


# The loss


def test_loss_gradient_is_autograds(relu_mlp: Callable[..., nn.Sequential], images: Callable[..., Tensor]) -> None:
    network, x, y = relu_mlp(), images(3, 1, 3, 3), Y
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(nn.functional.cross_entropy(network(leaf), y, reduction="sum"), leaf)
    for found in (LossGradient().value(network, x, y), PiecewiseLossGradient().explain(network, x, y).value):
        np.testing.assert_allclose(found, expected.flatten(1), atol=1e-13)


def test_loss_hessian_is_autograds_inside_a_relu_region(
    relu_mlp: Callable[..., nn.Sequential], images: Callable[..., Tensor]
) -> None:
    network, x = relu_mlp(), images(3, 1, 3, 3)
    J = PiecewiseLossGradient().explain(network, x, Y).jacobian
    expected = torch.stack([dense.loss_hessian(network, image, int(k)) for image, k in zip(x, Y, strict=True)])
    assert float(expected.abs().max()) > 1e-2
    np.testing.assert_allclose(formed(J), expected, atol=1e-13)
    assert J.symmetric


def test_logit_gradients_are_autograds(f: nn.Module, x: Tensor) -> None:
    logits, W = logit_gradients(f, x)
    expected = torch.stack([torch.autograd.functional.jacobian(lambda z: f(z[None])[0], image) for image in x])
    np.testing.assert_allclose(logits, f(x), atol=1e-14)
    np.testing.assert_allclose(W, expected.flatten(2), atol=1e-13)


def test_loss_hessian_of_the_golden_logits_has_the_golden_eigenvalues() -> None:
    W = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]], dtype=torch.float64)  # d x k
    logits = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    def f(x: Tensor) -> Tensor:
        return x @ W + logits

    found = PiecewiseLossGradient().explain(f, torch.zeros(1, 2, dtype=torch.float64), torch.tensor([0]))
    # golden values
    np.testing.assert_allclose(
        torch.linalg.eigvalsh(formed(found.jacobian)[0]), [0.0797314868850951, 0.7353322592041089], rtol=1e-13
    )
