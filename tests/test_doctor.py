"""What `attrcert doctor` says of models and data that look fit and are not."""

import numpy as np
import torch
from torch import nn

from attrcert import doctor
from attrcert.running.checks.findings import Finding, Level


def finding(findings: list[Finding], check: str) -> Finding:
    (found,) = [one for one in findings if one.check == check]
    return found


def test_saturation_is_told_and_not_taken_for_a_kink():
    network = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Softplus(), nn.Linear(2, 3))
    network[0].weight.data = torch.tensor([[1.0], [-1.0]]).expand(2, 4).clone()
    x = 12 * (0.8 + 0.2 * torch.rand(12, 4, generator=torch.Generator().manual_seed(0)))
    far = doctor(network, (x, None))
    assert "the activations are saturated" in finding(far, "second derivative").message
    told = finding(far, "Hessian against finite difference")
    assert (told.level, told.message.partition(":")[0]) == (Level.WARN, "not checked")
    assert "--mean and --std" in told.hint
    scaled = doctor(network, (x, None), mean=(0.0,), std=(12.0,))
    assert {finding(scaled, one).level for one in ("second derivative", "Hessian against finite difference")} == {
        Level.OK
    }


class Cut(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.max(x, torch.full((), 0.5, dtype=x.dtype))


def test_the_kink_of_a_maximum_is_told_and_one_with_0_runs_as_softplus(images):
    network = nn.Sequential(nn.Flatten(), nn.Linear(9, 4), nn.Softplus(), Cut(), nn.Linear(4, 3))
    x = images(4, 1, 3, 3).float()
    assert finding(doctor(network, (x, None)), "kinks").message == "a maximum has a kink (3)"
    network[3].forward = lambda x: torch.max(x, torch.zeros((), dtype=x.dtype))
    assert finding(doctor(network, (x, None)), "kinks").level is Level.OK


def test_a_mean_of_pixels_in_0_to_255_is_doubted(smooth_cnn, images):
    x = images(3, 1, 5, 5).float()
    told = finding(doctor(smooth_cnn().float(), (x, None), mean=(123.0,), std=(58.0,)), "model")
    assert told.level is Level.WARN
    assert "--mean 123 is beyond pixels" in told.message
    assert "divide --mean and --std by 255" in told.message
    for right in (
        {"mean": (123 / 255,), "std": (58 / 255,)},
        {"mean": (123.0,), "std": (58.0,), "input_range": (0, 255)},
    ):
        assert "model" not in {one.check for one in doctor(smooth_cnn().float(), (x, None), **right)}


def test_samples_that_cannot_be_used_are_counted_and_the_first_is_named(relu_mlp, tmp_path):
    features = np.random.default_rng(0).uniform(size=(6, 9)).astype(np.float32)
    features[[0, 4]] = np.nan
    found = doctor(relu_mlp().float(), (features, None))
    told = finding(found, "samples")
    assert told.level is Level.WARN
    assert "2 of the first 6, first the one at index 0: a sample must be finite, got NaN" in told.message
    assert "samples" not in {one.check for one in doctor(relu_mlp().float(), (features[1:4], None))}
