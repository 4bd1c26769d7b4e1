"""The penalties by which models/train.py makes a network that proofs can follow are their formulas, worked out slowly."""

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian, jacobian
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))

from provable import expansion, penalties, unit
from train import objective

FLOOR, EPS, BETA = 0.1, 0.25, 3.0
CLASSES = torch.tensor([0, 2])


@pytest.fixture
def network() -> nn.Sequential:
    torch.manual_seed(1)
    layers = nn.Conv2d(1, 2, 2), nn.Softplus(BETA), nn.Flatten(), nn.Linear(18, 5), nn.Softplus(BETA), nn.Linear(5, 3)
    network = nn.Sequential(*layers).double()
    for parameter in network.parameters():
        parameter.data *= 2
    return network


@pytest.fixture
def x() -> Tensor:
    return torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def slow(network: nn.Sequential, x: Tensor, label: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """K, the gradient and every J_l of one sample, from Jacobians of the layers before and after each softplus."""
    K, rows = torch.zeros(x.numel(), x.numel(), dtype=x.dtype), []
    for i, layer in enumerate(network):
        if isinstance(layer, nn.Softplus):
            z = network[:i](x[None])
            J = jacobian(lambda x, i=i: network[:i](x[None]).flatten(), x, create_graph=True).flatten(1)
            logit = jacobian(lambda a, i=i: network[i + 1 :](a)[0, label], layer(z), create_graph=True)
            sensitivity = logit.flatten()
            p = 1 / (1 + torch.exp(-BETA * z.flatten() / 2))
            K = K + J.T @ torch.diag(sensitivity.abs() * BETA * p * (1 - p)) @ J
            rows.append(J)
    g = jacobian(lambda x: network(x[None])[0, label], x, create_graph=True).flatten()
    return K, g, rows


def test_the_penalties_are_those_of_the_dense_matrices(network, x):
    start = torch.randn(x.shape, dtype=x.dtype)
    curvature, movement = penalties(network, x, CLASSES, start, floor=FLOOR, eps=EPS)
    for i, label in enumerate(CLASSES):
        K, g, rows = slow(network, x[i], label)
        u = start[i].flatten() / start[i].norm()
        v = K @ u / (K @ u).norm()
        moved = [(BETA * EPS * J @ u).square().mean() * u.numel() for J in rows]
        torch.testing.assert_close(curvature[i], v @ K @ v / (g.norm() + FLOOR))
        torch.testing.assert_close(movement[i], sum(moved) / len(moved))


def test_no_curvature_of_the_logit_exceeds_the_penalised_one(network, x):
    for image, label in zip(x, CLASSES, strict=True):
        K, _, _ = slow(network, image, label)
        H = hessian(lambda x, label=label: network(x[None])[0, label], image).view_as(K)
        assert H.norm() > 0.1
        for sign in (1, -1):
            assert torch.linalg.eigvalsh(K.detach() + sign * H).min() >= -1e-12


def test_movement_is_the_mean_square_of_the_rows_over_directions(network, x):
    every = torch.eye(16, dtype=x.dtype).view(16, 1, 4, 4)
    at = expansion(network, x[:1].expand(16, -1, -1, -1), CLASSES[:1].expand(16))
    _, _, rows = slow(network, x[0], CLASSES[0])
    mean = sum((BETA * EPS * J).square().sum(dim=1).mean() for J in rows) / len(rows)
    torch.testing.assert_close(at.movement(every, EPS).mean(), mean)


@pytest.mark.parametrize("layer", [0, 3, 5])
def test_the_penalties_gradient_is_that_of_differences_with_the_directions_kept(network, x, layer):
    start = torch.randn(x.shape, dtype=x.dtype)
    v = expansion(network, x, CLASSES).towards_top(unit(start))
    weight = network[layer].weight
    curvature, movement = penalties(network, x, CLASSES, start, floor=FLOOR, eps=EPS)
    (found,) = torch.autograd.grad((curvature + movement).sum(), weight)

    def value() -> Tensor:
        total = torch.zeros((), dtype=x.dtype)
        for i, label in enumerate(CLASSES):
            K, g, rows = slow(network, x[i], label)
            u, top = unit(start)[i].flatten(), v[i].flatten()
            moved = [(BETA * EPS * J @ u).square().mean() * u.numel() for J in rows]
            total = total + top @ K @ top / (g.norm() + FLOOR) + sum(moved) / len(moved)
        return total.detach()

    flat = weight.data.view(-1)
    for k in range(0, len(flat), max(1, len(flat) // 4)):
        kept, ends = flat[k].item(), []
        for step in (1e-5, -1e-5):
            flat[k] = kept + step
            ends.append(value())
        flat[k] = kept
        torch.testing.assert_close(found.view(-1)[k], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7)


def test_the_penalties_rise_with_the_training(network, x):
    about = {"curvature": 2.0, "movement": 3.0, "floor": FLOOR, "eps": EPS, "rise": 0.5}

    def loss(done: float) -> Tensor:
        torch.manual_seed(5)
        return objective(network, x, CLASSES, {"provable": about}, done)

    torch.manual_seed(5)
    curvature, movement = penalties(network, x, CLASSES, torch.randn_like(x), floor=FLOOR, eps=EPS)
    plain = F.cross_entropy(network(x), CLASSES)
    more = 2 * curvature.mean() + 3 * movement.mean()
    for done, share in ((0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.9, 1.0)):
        torch.testing.assert_close(loss(done), plain + share * more)
