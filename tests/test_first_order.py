"""First-order bounds against dense algebra, all sign vectors, optimisers and golden values."""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from reference import dense, signs
from reference.label import constrained_optimum, sampled_optimum
from reference.zoo import ZOO, rotated
from scipy.optimize import minimize
from torch import Tensor, nn

from attrcert.attributions.gradient import Saliency
from attrcert.attributions.input_times_gradient import InputTimesGradient
from attrcert.attributions.integrated_gradients import IntegratedGradients
from attrcert.attributions.loss_gradient import PiecewiseLossGradient
from attrcert.bounds.first_order.ce_hessian import CrossEntropyHessian
from attrcert.bounds.first_order.enclosed import FirstOrder, best_of
from attrcert.bounds.first_order.l2_spectral import L2Spectral
from attrcert.bounds.first_order.label_dual import LabelDual
from attrcert.bounds.first_order.label_margin import Margins, label_kept, margins
from attrcert.bounds.first_order.linf_corollary import LinfCorollary
from attrcert.bounds.first_order.linf_row_sums import LinfRowSums
from attrcert.bounds.first_order.linf_scaled import LinfScaled
from attrcert.bounds.first_order.taylor_correction import linearise
from attrcert.draws import Draws
from attrcert.geometry.angles import largest_angle
from attrcert.linalg.enclosure import ROUNDING, TopSingularValue
from attrcert.linalg.maps import Dense
from attrcert.linalg.row_sums import root_of_absolute_gram
from attrcert.linalg.signs import sign_ascent
from attrcert.types import Attribution, LinearMap
from attrcert.vocabulary import Norm, SolverStatus

L2, LINF = Norm.parse("l2"), Norm.parse("linf")
SLACK = TopSingularValue().slack
# the solver's default stopping rule for the lower end, with a factor of five for a wrong estimate of the rise
SETTLED = 1e-4
TIGHT = TopSingularValue(slack=1e-8, settled=1e-12)
F64 = ROUNDING[torch.float64]


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def draws(b: int, seed: int = 0) -> Draws:
    return Draws(seed, tuple(range(b)))


def one(matrix: object, symmetric: bool = False) -> Dense:
    return Dense(torch.as_tensor(matrix, dtype=torch.float64)[None], symmetric)


def linf_bounds(J: Dense) -> tuple[FirstOrder, FirstOrder, FirstOrder]:
    """Scaled, row sums, corollary."""
    b = J.shape[0]
    return LinfScaled()(J, draws(b)), LinfRowSums()(J, draws(b)), LinfCorollary()(J, draws(b))


# A quadratic model: g is linear, so first order is all there is


@dataclasses.dataclass(frozen=True)
class Quadratic:
    """Logits (x^T A x / 2 + q . x, 0)."""

    A: Tensor
    q: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        score = 0.5 * torch.einsum("bi,ij,bj->b", flat, self.A, flat) + flat @ self.q
        return torch.stack([score, torch.zeros_like(score)], dim=1)


N = 12
QUADRATIC = Quadratic((normal(0, N, N) + normal(0, N, N).T) / 2, normal(1, N))
X, Y = torch.rand(2, N, generator=torch.Generator().manual_seed(2), dtype=torch.float64), torch.tensor([0, 0])


def change_of(g: Attribution, f: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    start = g.value(f, x, y)
    return lambda delta: g.value(f, x + delta.view_as(x), y) - start


def test_quadratic_model_has_its_matrix_as_jacobian_and_xi_max_as_bound() -> None:
    J = Saliency().explain(QUADRATIC, X, Y).jacobian
    found = L2Spectral(L2)(J, draws(2))
    xi = dense.top_singular_value(QUADRATIC.A)
    v = normal(3, 2, N)
    np.testing.assert_allclose(J.matvec(v), v @ QUADRATIC.A, atol=1e-13)
    assert bool((found.lower <= xi).all())
    assert bool((xi <= found.upper).all())
    assert bool((found.upper <= xi * (1 + SLACK)).all())


@pytest.mark.parametrize("eps", [1e-3, 0.5, 20.0])
def test_quadratic_model_attains_its_bound_at_eps_v_and_needs_no_correction(eps: float) -> None:
    J = Saliency().explain(QUADRATIC, X, Y).jacobian
    worst = L2Spectral(L2, TIGHT)(J, draws(2))
    change = change_of(Saliency(), QUADRATIC, X, Y)
    found = linearise(change, J, worst, norm=L2, draws=draws(2), random=3)(eps)
    moved = change(eps * worst.direction).norm(dim=1)
    xi = dense.top_singular_value(QUADRATIC.A)
    # the solver's slack, and differences of values of order ten in float64 divided by eps
    rounding = 1e-7 + 1e-14 / eps
    np.testing.assert_allclose(moved, eps * xi, rtol=rounding)
    np.testing.assert_allclose(eps * worst.upper, moved, rtol=rounding)
    np.testing.assert_allclose(found.c, 1.0, rtol=rounding)
    assert float(found.eta.max()) < 1e-12 * (1 + eps)
    assert found.eta_random is not None
    assert float(found.eta_random.max()) < 1e-12 * (1 + eps)


@pytest.mark.parametrize("eps", [0.5, 20.0])
def test_quadratic_model_needs_no_correction_in_linf_either(eps: float) -> None:
    J = Saliency().explain(QUADRATIC, X, Y).jacobian
    worst = LinfScaled()(J, draws(2))
    found = linearise(change_of(Saliency(), QUADRATIC, X, Y), J, worst, norm=LINF, draws=draws(2), random=2)(eps)
    np.testing.assert_allclose(found.c, 1.0, rtol=10 * F64)  # lower is attained by the signs, less the allowance


# The correction and the linearisation error of a network


SIDE = 4  # 16 pixels: all 2^15 pairs of sign vectors can be tried


def network_case(smooth_cnn: Callable[..., nn.Sequential], images: Callable[..., Tensor]) -> tuple[nn.Module, Tensor]:
    return smooth_cnn(side=SIDE), images(3, 1, SIDE, SIDE)


def formed(J: LinearMap, i: int) -> np.ndarray:
    """The matrix of one sample of a map."""
    b, _, n = J.shape
    return torch.stack([J.matvec(e.expand(b, -1))[i] for e in torch.eye(n, dtype=torch.float64)], dim=1).numpy()


TARGETS = torch.tensor([1, 3, 0])
ATTRIBUTIONS: dict[str, Attribution] = {
    "saliency": Saliency(),
    "input-x-gradient": InputTimesGradient(),
    "integrated-gradients": IntegratedGradients(6),
}


@pytest.mark.parametrize("norm", [L2, LINF, Norm.parse("lp", 4)], ids=str)
@pytest.mark.parametrize("name", ATTRIBUTIONS)
def test_correction_and_eta_are_what_direct_evaluation_gives(
    name: str, norm: Norm, smooth_cnn: Callable[..., nn.Sequential], images: Callable[..., Tensor]
) -> None:
    g, (f, x), eps = ATTRIBUTIONS[name], network_case(smooth_cnn, images), 0.7
    explained = g.explain(f, x, TARGETS)
    J = explained.jacobian
    worst = LinfScaled()(J, draws(3)) if norm is LINF else L2Spectral(norm)(J, draws(3))
    found = linearise(change_of(g, f, x, TARGETS), J, worst, norm=norm, draws=draws(3), random=4)(eps)

    def moved(delta: Tensor) -> Tensor:
        return g.value(f, x + delta.view_as(x), TARGETS) - explained.value

    plus, minus = eps * worst.direction, -eps * worst.direction
    quotients = torch.stack([moved(delta).norm(dim=1) / J.matvec(delta).norm(dim=1) for delta in (plus, minus)])
    errors = torch.stack([(moved(delta) - J.matvec(delta)).norm(dim=1) for delta in (plus, minus)])
    assert float((quotients - 1).abs().max()) > 1e-3  # curvature of higher order is there to be seen
    np.testing.assert_allclose(found.c, quotients.amax(0).clamp_min(1), rtol=1e-10)
    np.testing.assert_allclose(found.eta, errors.amax(0), rtol=1e-10, atol=1e-13)
    # T' = c T covers what was measured at either sign
    assert bool((found.c * worst.upper * eps >= quotients.amax(0) * worst.lower * eps * (1 - 1e-12)).all())
    # which directions the mean is over has a test of its own below
    assert found.eta_random is not None
    assert bool((found.eta_random > 0).all())


def test_correction_takes_the_worse_of_the_two_signs() -> None:
    """g = (x1, x2/2 + 40 x2^2) is linear along the worst direction e1; along e2 the two signs differ."""
    directions = {1: torch.tensor([[1.0, 0.0]]).double(), 2: torch.tensor([[0.0, 1.0]]).double()}
    J = one([[1.0, 0.0], [0.0, 0.5]])

    def change(delta: Tensor) -> Tensor:
        return torch.stack([delta[:, 0], 0.5 * delta[:, 1] + 40 * delta[:, 1] ** 2], dim=1)

    for axis, lower, sign_plus in ((1, 1.0, 1.0), (2, 0.5, (0.05 + 0.4) / 0.05)):
        worst = FirstOrder(torch.tensor([1.0]).double(), torch.tensor([lower]).double(), directions[axis], 0.0, "given")
        for direction in (1, -1):  # the answer must not depend on which of v and -v the solver returned
            turned = dataclasses.replace(worst, direction=direction * worst.direction)
            found = linearise(change, J, turned, norm=L2, draws=draws(1), random=0)(0.1)
            assert float(found.c) == pytest.approx(sign_plus, rel=1e-12)
            assert found.eta_random is None


def test_correction_is_infinite_where_the_linear_part_vanishes_but_the_attribution_moves() -> None:
    J = one(torch.zeros(2, 2), True)
    worst = L2Spectral(L2)(J, draws(1))
    moving = linearise(lambda delta: delta**2, J, worst, norm=L2, draws=draws(1), random=1)(0.5)
    still = linearise(torch.zeros_like, J, worst, norm=L2, draws=draws(1), random=1)(0.5)
    assert float(moving.c) == math.inf
    assert float(still.c) == 1.0


def test_random_eta_is_the_mean_over_directions_on_the_unit_sphere_of_the_norm() -> None:
    """A g that jumps to (1, ..., 1) records where it was asked, after the two signs of the worst direction."""
    for norm in (L2, LINF, Norm.parse("lp", 4)):
        seen: list[Tensor] = []

        def change(delta: Tensor, seen: list[Tensor] = seen) -> Tensor:
            seen.append(delta)
            return torch.ones_like(delta)

        J = one(torch.eye(6))
        worst = L2Spectral(norm)(J, draws(1))
        found = linearise(change, J, worst, norm=norm, draws=draws(1), random=5)(0.25)
        random = torch.cat(seen[2:])
        assert len(random) == 5
        np.testing.assert_allclose(random.norm(p=norm.p, dim=1), 0.25, rtol=1e-12)
        expected = (torch.ones_like(random) - random).norm(dim=1).mean()
        assert found.eta_random is not None
        assert float(found.eta_random) == pytest.approx(float(expected), rel=1e-12)


# l2 and lp


@pytest.mark.parametrize(
    ("d", "p", "golden"), [(784, math.inf, 28.0), (784, 4.0, 5.291502622129181), (3072, 3.0, 3.812737171987747)]
)
def test_l2_factor_of_a_norm_is_the_golden_one(d: int, p: float, golden: float) -> None:
    norm = LINF if math.isinf(p) else Norm.parse("lp", p)
    assert norm.l2_factor(d) == pytest.approx(golden, rel=1e-13)
    assert Norm.parse("lp", 1.5).l2_factor(d) == 1.0
    assert L2.l2_factor(d) == 1.0


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, 30.0])
def test_lp_bound_holds_for_random_and_optimised_perturbations_and_its_direction_attains_lower(p: float) -> None:
    norm, J = Norm.parse("lp", p), normal(5, 4, 9, 9)
    found = L2Spectral(norm)(Dense(J), draws(4))
    rng = np.random.default_rng(0)
    for i in range(4):
        A = J[i].numpy()
        reached = signs.random_reach(A, p, 2000, rng)
        # for p = 1 the maximum is at a vertex: the largest column
        best = np.linalg.norm(A, axis=0).max() if p == 1 else signs.ascent(A, p, 20, 100, rng)
        assert max(reached, best) <= float(found.upper[i])
        assert float(found.lower[i]) <= best * (1 + SETTLED)
        direction = found.direction[i].numpy()
        assert np.linalg.norm(direction, ord=p) == pytest.approx(1, rel=1e-12)
        assert np.linalg.norm(A @ direction) >= float(found.lower[i])
        if p <= 2:
            assert float(found.upper[i]) == pytest.approx(dense.top_singular_value(J[i]), rel=SLACK)


def test_lp_factor_cannot_be_left_out() -> None:
    """J = (1, ..., 1)/sqrt(d) in every row reaches d^(1/2-1/p) xi at the flat perturbation."""
    d, norm = 16, Norm.parse("lp", 4)
    J = torch.full((1, d, d), 1.0, dtype=torch.float64)
    found = L2Spectral(norm)(Dense(J), draws(1))
    flat = torch.full((d,), d ** (-1 / 4), dtype=torch.float64)
    reached = float((J[0] @ flat).norm())
    assert reached > 1.5 * dense.top_singular_value(J[0])
    assert reached <= float(found.upper) <= reached * (1 + SLACK)
    assert float(found.lower) == pytest.approx(reached, rel=1e-8)


# linf


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9, 12])
def test_linf_bounds_enclose_the_maximum_over_all_signs(n: int) -> None:
    rng = np.random.default_rng(n)
    batch = np.stack(
        [rng.standard_normal((n, n)) * 10 ** rng.uniform(-k, k, n) for k in (0, 0, 0, 1, 2)]
        + [rng.standard_cauchy((n, n)) for _ in range(5)]
        + [np.diag(rng.standard_normal(n)), np.ones((n, n)), np.outer(rng.standard_normal(n), rng.standard_normal(n))]
        + [rng.integers(-1, 2, (n, n)).astype(float) for _ in range(7)]
    )
    exact = np.array([signs.largest_over_signs(J) for J in batch])
    for found in linf_bounds(Dense(torch.from_numpy(batch))):
        assert (found.lower.numpy() <= exact * (1 + 1e-14)).all()
        assert (exact <= found.upper.numpy() * (1 + 1e-14)).all()  # equal where the bound is exact, to rounding
        assert found.direction.abs().eq(1).all()
        reached = torch.einsum("bmn,bn->bm", torch.from_numpy(batch), found.direction).norm(dim=1)
        assert bool((reached >= found.lower).all())


@pytest.mark.parametrize("n", [4, 8, 12])
def test_linf_enclosure_of_gaussian_maps_is_tight(n: int) -> None:
    batch = normal(n, 20, n, n)
    exact = np.array([signs.largest_over_signs(J.numpy()) for J in batch])
    found = LinfScaled()(Dense(batch), draws(20))
    # Nesterov: pi/2 in the square at the best D; measured at most 1.1 on such maps
    assert (found.upper.numpy() <= 1.15 * exact).all()
    # three starts of the sign iteration
    assert np.median(found.lower.numpy() / exact) > 0.999
    assert (found.lower.numpy() >= 0.9 * exact).all()


GOLDEN = [[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [3.0, 0.0, 1.0]]


def test_linf_bounds_of_the_golden_matrix_are_the_golden_ones() -> None:
    scaled, rows, corollary = linf_bounds(one(GOLDEN))
    # golden values: Theorem 2, sqrt(3) xi, and 5 both as the optimum and as the best scaling's bound
    assert float(rows.upper) == pytest.approx(5.385164807134504, rel=2 * F64)
    assert math.sqrt(3) * 3.377202853972958 <= float(corollary.upper) * (1 + 1e-15)
    assert float(corollary.upper) == pytest.approx(math.sqrt(3) * 3.377202853972958, rel=SLACK)
    assert 5.0 <= float(scaled.upper) <= 5.0 * (1 + SLACK)
    assert float(scaled.lower) == pytest.approx(5.0, rel=2 * F64)
    assert signs.largest_over_signs(np.array(GOLDEN)) == pytest.approx(5.0, rel=1e-14)
    assert (rows.failure, scaled.failure) == (0.0, 1e-3)


def test_scaling_of_the_golden_matrix_is_the_golden_one() -> None:
    D = LinfScaled()(one(GOLDEN), draws(1)).scaling
    assert D is not None
    # golden value; the search stops on a small gain of the objective, which is flat at the optimum
    np.testing.assert_allclose(D[0] / D.sum(), [0.6, 0.24, 0.16], atol=0.05)


def test_frustrated_gram_matrix_has_the_golden_row_sums_optimum_and_scaling() -> None:
    P = np.array([[2.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, -1.0, 2.0]])
    values, vectors = np.linalg.eigh(P)
    J = vectors * np.sqrt(values.clip(0)) @ vectors.T
    scaled, rows, corollary = linf_bounds(one(J, symmetric=True))
    assert float(rows.upper) == pytest.approx(3.4641016151377544, rel=1e-8)  # eigh's rounding in J
    assert float(scaled.lower) == pytest.approx(2.8284271247461903, rel=1e-8)
    for bound in (scaled, corollary):  # D = I is the best scaling here
        assert 3.0 * (1 - 1e-8) <= float(bound.upper) <= 3.0 * (1 + SLACK)


def test_transposed_gram_matrix_would_be_unsound_for_input_times_gradient() -> None:
    """f = x1 (1 + x2) at (1/2, 0): J J^T gives 1.414 where 1.581 is reached."""

    def f(x: Tensor) -> Tensor:
        return (x[:, 0] * (1 + x[:, 1]))[:, None]

    x, y = torch.tensor([[0.5, 0.0]], dtype=torch.float64), torch.tensor([0])
    J = InputTimesGradient().explain(f, x, y).jacobian
    matrix = np.array([[1.0, 0.5], [0.0, 0.5]])
    exact, wrong = signs.largest_over_signs(matrix), float(np.sqrt(np.abs(matrix @ matrix.T).sum()))
    # golden values
    assert exact == pytest.approx(1.5811388301, rel=1e-9)
    assert wrong == pytest.approx(1.4142135624, rel=1e-9)
    rows, scaled = LinfRowSums()(J, draws(1)), LinfScaled()(J, draws(1))
    assert float(rows.upper) == pytest.approx(1.5811388301, rel=1e-8)
    assert 1.5811388300 <= float(scaled.upper) <= 1.5811388301 * (1 + SLACK)
    assert float(scaled.lower) == pytest.approx(1.5811388301, rel=1e-8)


ROWS_ZOO = [name for name, member in ZOO.items() if member()[0].shape[1] <= 300]


def spread_with_noise(seed: int) -> Tensor:
    """Coordinates over six decades with a weak coupling between all of them."""
    return torch.diag(10 ** (6 * torch.rand(80, generator=torch.Generator().manual_seed(seed)).double() - 3)) + (
        0.01 * normal(seed, 80, 80)
    )


@pytest.mark.parametrize("name", ROWS_ZOO)
def test_scaled_bound_of_the_zoo_is_at_most_the_row_sums_and_at_least_the_lower_bound(name: str) -> None:
    matrix, symmetric = ZOO[name]()
    J = matrix.double()
    scaled, rows = LinfScaled()(one(J, symmetric), draws(1)), signs.row_sums(J.numpy())
    assert float(scaled.upper) <= (1 + SLACK) * rows
    assert float(scaled.lower) <= float(scaled.upper)
    assert signs.ascent(J.numpy(), math.inf, 3, 30, np.random.default_rng(0)) <= float(scaled.upper) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_scaled_bound_is_at_most_the_row_sums_where_coordinates_span_decades(seed: int) -> None:
    J = spread_with_noise(seed)
    scaled = LinfScaled()(one(J), draws(1))
    assert float(scaled.upper) <= (1 + SLACK) * signs.row_sums(J.numpy())


@pytest.mark.parametrize("name", ATTRIBUTIONS)
def test_scaled_bound_of_a_network_is_between_the_lower_bound_and_the_row_sums(
    name: str, smooth_cnn: Callable[..., nn.Sequential], images: Callable[..., Tensor]
) -> None:
    f, x = network_case(smooth_cnn, images)
    J = ATTRIBUTIONS[name].explain(f, x, TARGETS).jacobian
    scaled, rows, corollary = LinfScaled()(J, draws(3)), LinfRowSums()(J, draws(3)), LinfCorollary()(J, draws(3))
    for i in range(3):
        A = formed(J, i)
        assert float(rows.upper[i]) == pytest.approx(signs.row_sums(A), rel=2 * F64)
        assert float(scaled.upper[i]) <= (1 + SLACK) * signs.row_sums(A)
        xi = dense.top_singular_value(torch.from_numpy(A))
        assert float(corollary.upper[i]) == pytest.approx(SIDE * xi, rel=SLACK)
        exact = signs.largest_over_signs(A)
        assert float(scaled.lower[i]) <= exact * (1 + 1e-14)
        assert exact <= float(scaled.upper[i]) <= 1.1 * exact  # measured 1.002 to 1.033 on larger networks


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-8, 1e8, 1e12])
@pytest.mark.parametrize("certify", [LinfScaled(), LinfRowSums(), LinfCorollary()], ids=lambda c: type(c).__name__)
def test_linf_bounds_scale_with_the_map_in_float32(certify: Callable[..., FirstOrder], scale: float) -> None:
    J = normal(0, 1, 30, 30).float()
    plain, scaled = certify(Dense(J), draws(1)), certify(Dense(scale * J), draws(1))
    exact = signs.ascent(J[0].double().numpy(), math.inf, 30, 30, np.random.default_rng(0))
    assert float(scaled.upper) >= scale * exact * (1 - 1e-6)  # float32 rounding of scale * J
    # rounding may give the search for D a round more or less, which is worth its stopping rule of a percent or less
    assert float(scaled.upper) <= scale * float(plain.upper) * 1.03


def test_row_sums_bound_does_not_depend_on_how_much_is_held_at_once() -> None:
    J = normal(7, 5, 20, 700)  # wider than a block of columns
    expected = [np.abs(A.T @ A).sum() for A in J.numpy()]
    for memory in (1, 20 * 700 * 8 * 2, 1 << 30):
        np.testing.assert_allclose(root_of_absolute_gram(Dense(J), memory=memory), np.sqrt(expected), rtol=1e-12)


def test_sign_iteration_ends_at_signs_that_no_further_round_improves() -> None:
    J = normal(8, 6, 15, 15)
    starts = normal(9, 3, 6, 15)
    reached, found = sign_ascent(Dense(J), starts)
    np.testing.assert_allclose(torch.einsum("bmn,bn->bm", J, found).norm(dim=1), reached, rtol=1e-14)
    following = torch.einsum("bmn,bm->bn", J, torch.einsum("bmn,bn->bm", J, found)).sign()
    assert torch.equal(following, found)
    for start in starts:
        assert bool((torch.einsum("bmn,bn->bm", J, start.sign()).norm(dim=1) <= reached * (1 + 1e-14)).all())


def test_best_of_takes_the_smallest_upper_and_the_largest_lower_and_adds_failures() -> None:
    batch = torch.stack([torch.tensor(GOLDEN).double(), torch.eye(3).double(), normal(1, 3, 3)])
    found = linf_bounds(Dense(batch))
    best = best_of(found)
    uppers, lowers = (torch.stack([getattr(f, name) for f in found]) for name in ("upper", "lower"))
    assert torch.equal(best.upper, uppers.amin(0))
    assert torch.equal(best.lower, lowers.amax(0))
    assert best.failure == pytest.approx(2e-3, rel=1e-12)  # scaled and corollary; row sums are deterministic
    reached = torch.einsum("bmn,bn->bm", batch, best.direction).norm(dim=1)
    assert bool((reached >= best.lower).all())


# Soundness over all attributions


def black(x: Tensor) -> Tensor:
    return torch.zeros_like(x)


WRITTEN_OUT: dict[str, Callable[[dense.Network, int], dense.SampleMap]] = {
    "saliency": dense.saliency,
    "input-x-gradient": dense.input_times_gradient,
    "integrated-gradients": lambda f, y: dense.integrated_gradients(
        f, y, black, *((np.polynomial.legendre.leggauss(6) + np.array([[1.0], [0.0]])) / 2).tolist()
    ),
}


@pytest.mark.parametrize("norm", [L2, LINF, Norm.parse("lp", 4)], ids=str)
@pytest.mark.parametrize("name", ATTRIBUTIONS)
def test_no_perturbation_moves_the_linearised_attribution_further_than_the_bound(
    name: str, norm: Norm, smooth_cnn: Callable[..., nn.Sequential], images: Callable[..., Tensor]
) -> None:
    f, x = network_case(smooth_cnn, images)
    J = ATTRIBUTIONS[name].explain(f, x, TARGETS).jacobian
    found = LinfScaled()(J, draws(3)) if norm is LINF else L2Spectral(norm)(J, draws(3))
    rng = np.random.default_rng(1)
    for i, image in enumerate(x):
        A = dense.jacobian(WRITTEN_OUT[name](f, int(TARGETS[i])), image).numpy()
        optimised = signs.ascent(A, norm.p, 10, 200, rng)
        assert signs.random_reach(A, norm.p, 3000, rng) <= float(found.upper[i])
        assert optimised <= float(found.upper[i])
        # and the bound is not a large number that would hold of anything: l2 is exact to its slack
        if norm is L2:
            assert float(found.upper[i]) <= optimised * (1 + SLACK) * (1 + SETTLED)


@pytest.mark.parametrize("name", ["linf", "l2"])
def test_first_order_result_of_a_sample_does_not_depend_on_its_batch(name: str) -> None:
    J = torch.stack([normal(20 + i, 24, 24) * 10.0 ** (i - 3) for i in range(7)])
    certify = LinfScaled() if name == "linf" else L2Spectral(L2)
    order = [4, 0, 6, 2, 5, 1, 3]
    whole = certify(Dense(J), Draws(0, tuple(range(7))))
    permuted = certify(Dense(J[order]), Draws(0, tuple(order)))
    for i in range(7):
        alone = certify(Dense(J[i : i + 1]), Draws(0, (i,)))
        for other, j in ((permuted, order.index(i)), (alone, 0)):
            # sums in another order, magnified by thirty rounds of a contraction
            assert float(other.upper[j]) == pytest.approx(float(whole.upper[i]), rel=1e-8)
            assert float(other.lower[j]) == pytest.approx(float(whole.lower[i]), rel=1e-8)


# Cross-entropy Hessian


@pytest.mark.parametrize("norm", [L2, LINF, Norm.parse("lp", 4)], ids=str)
def test_cross_entropy_bound_is_the_top_eigenvalue_of_the_dense_hessian(
    norm: Norm, relu_mlp: Callable[..., nn.Sequential], images: Callable[..., Tensor]
) -> None:
    f, x = relu_mlp(), images(3, 1, 3, 3)
    explained = PiecewiseLossGradient().explain(f, x, TARGETS)
    found = CrossEntropyHessian(norm)(explained.jacobian, draws(3))
    H = torch.stack([dense.loss_hessian(f, image, int(k)) for image, k in zip(x, TARGETS, strict=True)])
    top = torch.tensor([dense.top_singular_value(h) for h in H], dtype=torch.float64)
    np.testing.assert_allclose(found.upper, top * norm.l2_factor(9), rtol=2 * F64)
    assert bool((found.upper >= top * norm.l2_factor(9)).all())
    np.testing.assert_allclose(found.direction.norm(p=norm.p, dim=1), 1, rtol=1e-12)
    reached = torch.einsum("bmn,bn->bm", H, found.direction).norm(dim=1)
    np.testing.assert_allclose(reached, found.lower, rtol=1e-7)  # the eigenvector's error, squared, and the allowance
    assert bool((reached >= found.lower).all())
    assert found.failure == 0.0
    assert found.solution is not None
    assert found.solution.status == (SolverStatus.EXHAUSTED,) * 3


def test_cross_entropy_bound_of_the_golden_logits_is_the_golden_eigenvalue() -> None:
    W = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]], dtype=torch.float64)

    def f(x: Tensor) -> Tensor:
        return x @ W + torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)

    J = PiecewiseLossGradient().explain(f, torch.zeros(1, 2, dtype=torch.float64), torch.tensor([2])).jacobian
    found = CrossEntropyHessian(L2)(J, draws(1))
    assert float(found.upper) == pytest.approx(0.7353322592041089, rel=2 * F64)  # golden value
    spectral = L2Spectral(L2)(J, draws(1))
    assert float(spectral.lower) <= 0.7353322592041089 <= float(spectral.upper)


def test_cross_entropy_bound_of_a_saturated_class_is_zero_and_finite() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.stack([x.sum(1) + 1000, x[:, 0]], dim=1)

    J = PiecewiseLossGradient().explain(f, torch.zeros(1, 3, dtype=torch.float64), torch.tensor([0])).jacobian
    found = CrossEntropyHessian(L2)(J, draws(1))
    assert float(found.upper) == 0.0
    assert bool(torch.isfinite(found.direction).all())


# Angles


@pytest.mark.parametrize(
    ("ratio", "degrees"), [(0.1, 5.739170477266787), (0.5, 30.000000000000004), (0.9, 64.15806723683288)]
)
def test_angle_of_a_deviation_is_the_golden_one(ratio: float, degrees: float) -> None:
    found = largest_angle(3.47 * ratio, 3.47)
    assert found == pytest.approx(degrees, rel=1e-13)  # golden values; three roundings
    assert 1 - math.cos(math.radians(found)) == pytest.approx(1 - math.sqrt(1 - ratio**2), rel=1e-12)


def test_angle_at_half_a_unit_of_the_golden_example() -> None:
    assert largest_angle(1.0, 3.47) == pytest.approx(16.7492921538693, rel=1e-13)  # golden value


def test_angle_is_sharp_and_never_exceeded() -> None:
    g, T = np.array([3.0, 4.0]), 2.0
    bound = largest_angle(T, 5.0)
    turn = np.linspace(0, 2 * np.pi, 200_001)
    moved = g + T * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    angles = np.degrees(np.arccos(np.clip(moved @ g / np.linalg.norm(moved, axis=1) / 5.0, -1, 1)))
    assert bound is not None
    assert angles.max() <= bound * (1 + 1e-12)  # arccos in float64 at 23 degrees
    assert angles.max() == pytest.approx(bound, rel=1e-8)  # the grid's step, squared


@pytest.mark.parametrize("deviation", [1.0, 1.5, math.inf])
def test_deviation_that_reaches_the_attributions_length_gives_no_angle(deviation: float) -> None:
    assert largest_angle(deviation, 1.0) is None
    assert largest_angle(0.0, 0.0) is None
    assert largest_angle(0.0, 1.0) == 0.0


@pytest.mark.parametrize("factor", [1e-6, 3.7, 1e5])
def test_scaling_the_network_by_a_constant_leaves_the_angle_unchanged(
    factor: float, smooth_cnn: Callable[..., nn.Sequential], images: Callable[..., Tensor]
) -> None:
    f, x = network_case(smooth_cnn, images)
    angles = []
    for network in (f, lambda z: factor * f(z)):
        explained = Saliency().explain(network, x, TARGETS)
        found = L2Spectral(L2)(explained.jacobian, draws(3))
        lengths = explained.value.norm(dim=1)
        angles.append([largest_angle(0.05 * float(u), float(g)) for u, g in zip(found.upper, lengths, strict=True)])
    assert all(angle is not None and 0.1 < angle < 89 for angle in angles[0])
    np.testing.assert_allclose(angles[0], angles[1], rtol=1e-9)  # rounding through a dozen Lanczos steps


# Label margins


def linear_classifier(seed: int, d: int = 4, k: int = 5) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    W, q = normal(seed, k, d), normal(seed + 1, k)
    return (lambda x: x.flatten(1) @ W.T + q), normal(seed + 2, 3, d)


def nearest_border(a: np.ndarray, b: float, p: float) -> float:
    """min |delta|_p subject to a . delta >= b, by optimisation over delta (and its bound, for linf)."""
    n = len(a)
    if math.isinf(p):  # minimise t subject to |delta_i| <= t
        found = minimize(
            lambda z: z[-1],
            np.r_[b * a / (a @ a), np.abs(b * a / (a @ a)).max()],
            constraints=[
                {"type": "ineq", "fun": lambda z: a @ z[:-1] - b},
                {"type": "ineq", "fun": lambda z: np.r_[z[-1] - z[:-1], z[-1] + z[:-1]]},
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        return float(np.abs(found.x[:-1]).max())
    found = minimize(
        lambda z: (np.abs(z) ** p).sum(),
        b * a / (a @ a) + 1e-3 * np.ones(n),
        constraints=[{"type": "ineq", "fun": lambda z: a @ z - b}],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return float((np.abs(found.x) ** p).sum() ** (1 / p))


@pytest.mark.parametrize("norm", [L2, LINF, Norm.parse("lp", 4), Norm.parse("lp", 1.5)], ids=str)
def test_margin_radius_is_the_distance_to_the_nearest_border_found_by_optimisation(norm: Norm) -> None:
    f, x = linear_classifier(30)
    logits = f(x)
    found = margins(f, x, logits, classes=4).radius(norm)
    W = torch.autograd.functional.jacobian(lambda z: f(z[None])[0], x[0])
    for i in range(3):
        p = int(logits[i].argmax())
        others = [k for k in range(5) if k != p]
        brute = min(nearest_border((W[k] - W[p]).numpy(), float(logits[i, p] - logits[i, k]), norm.p) for k in others)
        assert float(found[i]) == pytest.approx(brute, rel=1e-4)  # SLSQP's own accuracy on |z|^p


@pytest.mark.parametrize("norm", [L2, LINF, Norm.parse("lp", 4)], ids=str)
def test_no_perturbation_within_the_margin_radius_changes_a_linear_classifiers_label(norm: Norm) -> None:
    f, x = linear_classifier(40)
    found = margins(f, x, f(x), classes=4)
    radius = found.radius(norm)
    delta = normal(41, 5000, 4)
    delta = delta.sign() if norm is LINF else delta / delta.norm(p=norm.p, dim=1, keepdim=True)
    for i in range(3):

        def flips(r: float, i: int = i) -> int:
            moved = f(x[i : i + 1] + r * delta).argmax(1)
            return int((moved != f(x[i : i + 1]).argmax(1)).sum())

        assert flips(float(radius[i]) * (1 - 1e-9)) == 0
        assert flips(float(radius[i]) * 2) > 0


def test_margins_are_those_of_the_nearest_other_classes() -> None:
    f, x = linear_classifier(50)
    logits = f(x)
    few, all_ = margins(f, x, logits, classes=2), margins(f, x, logits, classes=99)
    assert few.b.shape == (3, 2)
    assert all_.b.shape == (3, 4)
    assert bool((few.b >= 0).all())
    np.testing.assert_allclose(few.b, logits.amax(1, keepdim=True) - logits.sort(dim=1, descending=True).values[:, 1:3])
    delta = normal(51, 3, 4)
    drop = f(x) - f(x + delta)
    order = logits.argsort(dim=1, descending=True)
    expected = torch.stack([drop.gather(1, order[:, :1]) - drop.gather(1, order[:, k : k + 1]) for k in (1, 2)], 1)
    np.testing.assert_allclose(torch.einsum("bkn,bn->bk", few.a, delta), expected[:, :, 0], atol=1e-13)


def test_class_that_no_perturbation_reaches_has_an_infinite_margin_radius() -> None:
    found = Margins(torch.zeros(1, 2, 3, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64))
    assert float(found.radius(L2)) == math.inf


def test_linearised_and_true_label_agree_on_a_linear_classifier() -> None:
    f, x = linear_classifier(60)
    predicted, found = f(x).argmax(1), margins(f, x, f(x), classes=4)
    kept = []
    for seed in range(40):
        delta = normal(100 + seed, 3, 4)
        assert torch.equal(found.kept(delta), label_kept(f, x, delta, predicted))
        kept += found.kept(delta).tolist()
    assert 10 < sum(kept) < 110  # both answers occur


# The label-constrained bound


def tightened(
    J: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    *,
    eps: float = 1.0,
    ball: str = "l2",
    dtype: torch.dtype = torch.float64,
) -> tuple[np.ndarray, np.ndarray]:
    """The constrained and the unconstrained bound of a batch of dense problems."""
    maps, size = Dense(torch.from_numpy(J).to(dtype)), draws(len(J))
    worst = L2Spectral(L2)(maps, size) if ball == "l2" else LinfScaled()(maps, size)
    found = LabelDual()(
        maps,
        worst,
        Margins(torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)),
        eps=eps,
        tau=1.0 if ball == "l2" else None,
        draws=size,
    )
    return found.numpy(), eps * worst.upper.numpy()


def slab(roots: list[float], half_width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """J = diag(roots) with |delta_1| <= half_width, as two constraints."""
    n = len(roots)
    a = np.zeros((1, 2, n))
    a[0, 0, 0], a[0, 1, 0] = 1.0, -1.0
    return np.diag(roots)[None], a, np.full((1, 2), half_width)


@pytest.mark.parametrize(
    ("roots", "half_width", "exact"),
    [
        ([2.0, 1.0], 0.5, 1.3228756555322954),  # golden value
        ([2.0, 1.0] + [0.0] * 28, 0.5, 1.3228756555322954),  # the same with room around it
        ([3.0, 2.0, 1.0], 0.2, math.sqrt(9 * 0.04 + 4 * 0.96)),
        ([1.0], 0.5, 0.5),
    ],
    ids=["golden", "padded", "three", "one"],
)
def test_label_dual_of_a_slab_is_the_exact_optimum_to_the_slack(
    roots: list[float], half_width: float, exact: float
) -> None:
    found, plain = tightened(*slab(roots, half_width))
    assert found[0] >= exact
    assert found[0] <= exact * (1 + SLACK)
    assert plain[0] == pytest.approx(roots[0], rel=SLACK)


@functools.cache
def random_label_bounds(n: int, k: int, ball: str) -> tuple[np.ndarray, np.ndarray]:
    return tightened(*label_problems(n, k, 8, seed=n), ball=ball)


def label_problems(n: int, k: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    J, a = rng.standard_normal((count, n, n)), rng.standard_normal((count, k, n))
    return J, a, 0.3 * np.abs(rng.standard_normal((count, k)))


@pytest.mark.parametrize("ball", ["l2", "linf"])
@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 3), (6, 4)])
def test_label_dual_is_never_below_the_constrained_optimum(n: int, k: int, ball: str) -> None:
    J, a, b = label_problems(n, k, 8, seed=n)
    found, _ = random_label_bounds(n, k, ball)
    rng = np.random.default_rng(0)
    for i in range(len(J)):
        optimum = constrained_optimum(J[i], a[i], b[i], 1.0, ball=ball, starts=8, rng=rng)
        if n == 2 and ball == "l2":
            optimum = max(optimum, sampled_optimum(J[i], a[i], b[i], 1.0))
        assert found[i] >= optimum * (1 - 1e-9)  # the references hold their constraints to 1e-12


def test_label_dual_is_never_below_the_constrained_optimum_in_float32() -> None:
    J, a, b = label_problems(4, 3, 4, seed=77)
    found, _ = tightened(J, a, b, dtype=torch.float32)
    for i in range(len(J)):
        optimum = constrained_optimum(J[i], a[i], b[i], 1.0, ball="l2", starts=8, rng=np.random.default_rng(i))
        assert found[i] >= optimum * (1 - 1e-6)  # J, a and b are rounded to float32


@pytest.mark.parametrize("ball", ["l2", "linf"])
@pytest.mark.parametrize(("n", "k"), [(2, 2), (6, 4)])
def test_label_dual_is_at_most_the_unconstrained_bound(n: int, k: int, ball: str) -> None:
    """Multipliers 0 and a small kappa give the unconstrained bound, so a search for better ones cannot end above."""
    found, plain = random_label_bounds(n, k, ball)
    assert (found <= plain * (1 + SLACK)).all()


def test_label_dual_lowers_the_bound_where_two_classes_are_in_the_way() -> None:
    """Opposite constraints across the worst direction, at random angles to the axes."""
    rotation = rotated(torch.tensor([3.0, 1.0, 0.5, 0.2])).numpy()
    _, vectors = np.linalg.eigh(rotation)
    top = vectors[:, -1]
    a, b = np.stack([top, -top])[None], np.full((1, 2), 0.1)
    found, plain = tightened(rotation[None], a, b)
    assert plain[0] >= 3.0
    # exact: .01 of the square along the top, the rest along the second
    exact = math.sqrt(9 * 0.01 + 1 * 0.99)
    assert exact <= found[0] <= 0.5 * plain[0]


def test_one_constraint_does_not_lower_the_label_bound() -> None:
    J, a, b = np.diag([2.0, 1.0])[None], np.array([[[1.0, 0.0]]]), np.array([[0.5]])
    found, _ = tightened(J, a, b)
    assert found[0] >= 2.0  # -e1 is kept, and does as well as e1
    assert found[0] <= 2.0 * (1 + SLACK)


def test_label_dual_survives_a_class_whose_margin_no_perturbation_changes() -> None:
    J, a, b = slab([2.0, 1.0], 0.5)
    a, b = np.concatenate([a, np.zeros((1, 1, 2))], axis=1), np.concatenate([b, np.full((1, 1), 0.2)], axis=1)
    found, plain = tightened(J, a, b)
    assert 1.3228756555322954 <= found[0] <= plain[0] * (1 + SLACK)


@pytest.mark.parametrize("eps", [0.1, 7.0])
def test_label_dual_scales_with_eps(eps: float) -> None:
    J, a, b = slab([2.0, 1.0], 0.5)
    unit, _ = tightened(J, a, b)
    scaled, _ = tightened(J, a, b * eps, eps=eps)
    assert scaled[0] == pytest.approx(eps * unit[0], rel=0.02)  # two searches for multipliers
