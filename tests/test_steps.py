"""Steps of attacks: what each rule proposes next."""

import pytest
import torch
from reference.scenes import scene_of

from attrcert.ascent.balls import Ball
from attrcert.ascent.steps import Adam, Adaptive, Fixed, FreshDraws, Iterate
from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.running.evaluating.target_maps import target_map
from attrcert.settings.tasks import AttackConfig
from attrcert.vocabulary import Norm

NOWHERE_NEAR = 1e6


def ball(b: int, n: int, *, norm: str = "l2", eps: float = NOWHERE_NEAR) -> Ball:
    return Ball.whole(torch.zeros(b, n, dtype=torch.float64), Norm.parse(norm), eps)


def seen(delta: torch.Tensor, gradient: torch.Tensor, kept: list[bool] | None = None) -> Iterate:
    flags = torch.tensor(kept) if kept else torch.ones(len(delta), dtype=torch.bool)
    return Iterate(delta, delta.new_zeros(len(delta)), gradient, flags)


@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_adam_walks_where_torch_walks_whatever_the_scale_of_the_loss(scale):
    curvature = torch.tensor([[1.0, -3.0, 0.2], [2.0, 0.5, -1.0]], dtype=torch.float64)
    start = torch.tensor([[0.3, -0.2, 0.9], [0.1, 0.4, -0.6]], dtype=torch.float64)
    theirs = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([theirs], lr=0.05, maximize=True)
    stepper = Adam(0.05).begin(ball(2, 3), Draws(0, (0, 1)), 20)
    ours = start
    for _ in range(20):
        optimiser.zero_grad()
        (0.5 * curvature * theirs**2).sum().backward()
        optimiser.step()
        ours, _ = stepper.next(seen(ours, scale * curvature * ours))
    assert float((theirs.detach() - start).abs().min()) > 0.1
    # Adam adds 1e-8 to the root of the second moment, which the scale moves by as much
    torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=1e-6)


def test_adam_without_a_rate_walks_four_balls_in_the_run():
    stepper = Adam().begin(ball(1, 2, eps=0.5), Draws(0, (0,)), 10)
    following, _ = stepper.next(seen(torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)))
    torch.testing.assert_close(following, torch.full((1, 2), 0.2, dtype=torch.float64))


@pytest.mark.parametrize(("norm", "step"), [("l2", (0.06, 0.08)), ("linf", (0.1, 0.1))])
def test_a_fixed_step_has_its_size_in_the_norm_of_the_ball(norm, step):
    stepper = Fixed(0.1).begin(ball(1, 2, norm=norm), Draws(0, (0,)), 1)
    following, _ = stepper.next(
        seen(torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    )
    torch.testing.assert_close(following, torch.tensor([step], dtype=torch.float64))


@pytest.mark.parametrize("rule", [Fixed(0.1), Adaptive()])
def test_a_row_that_lost_its_label_goes_halfway_back_and_stays_in_the_run(rule):
    stepper = rule.begin(ball(2, 2, eps=1.0), Draws(0, (0, 1)), 5)
    delta = torch.tensor([[0.4, 0.0], [0.4, 0.0]], dtype=torch.float64)
    following, finished = stepper.next(seen(delta, torch.zeros_like(delta), [False, True]))
    torch.testing.assert_close(following[0], delta[0] / 2)
    assert finished.tolist() == [False, True]


def test_a_step_that_gains_is_longer_and_one_that_fails_goes_back_and_is_shorter():
    rule = Adaptive(first=1.0, longest=8.0, growth=1.5, shrink=0.4)
    stepper = rule.begin(ball(1, 1, eps=1.0), Draws(0, (0,)), 5)
    up = torch.ones(1, 1, dtype=torch.float64)

    def after(delta: float, objective: float) -> float:
        at = torch.tensor([[delta]], dtype=torch.float64)
        kept = torch.ones(1, dtype=torch.bool)
        return float(stepper.next(Iterate(at, torch.tensor([objective], dtype=torch.float64), up, kept))[0])

    assert after(0.0, 1.0) == pytest.approx(1.0)
    assert after(1.0, 2.0) == pytest.approx(1.0 + 1.5)
    assert after(2.5, 1.5) == pytest.approx(1.0 + 0.6)


def test_fresh_draws_do_not_depend_on_where_the_rows_are():
    first, second = (FreshDraws().begin(ball(2, 3, eps=0.1), Draws(0, (4, 7)), 9) for _ in range(2))
    here, there = torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    a, b = first.next(seen(here, here))[0], second.next(seen(there, here))[0]
    assert torch.equal(a, b)
    assert not torch.equal(a, first.next(seen(here, here))[0])


def test_the_target_map_of_a_smoothed_attribution_depends_on_the_seed(smooth_cnn, images):
    x = images(2, 1, 6, 6)
    f = Classifier(smooth_cnn(channels=1, side=6))

    class Pictures:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
            return x[i], 0

    def aimed(seed: int) -> torch.Tensor:
        config = AttackConfig(
            attack=("manipulate",), target_map="sample:1", attribution="smooth-grad", noise_draws=2, seed=seed
        )
        found = target_map(config, scene_of(f, x, Pictures()))
        assert found is not None
        return found

    assert torch.equal(aimed(0), aimed(0))
    assert not torch.allclose(aimed(0), aimed(1), rtol=1e-3)
    assert float(aimed(0).mean()) == pytest.approx(1.0)
