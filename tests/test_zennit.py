"""LRP is zennit's: z+ inside, zB, z+ or w^2 at the input, batch norm merged into the layer before it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attrcert.attributions.relevance import LayerwiseRelevance
from attrcert.loading.vision import prepare_torchvision
from attrcert.networks.classifier import Classifier

prepare_torchvision()  # which zennit imports

from zennit import rules  # noqa: E402
from zennit.attribution import Gradient  # noqa: E402
from zennit.canonizers import SequentialMergeBatchNorm  # noqa: E402
from zennit.composites import SpecialFirstLayerMapComposite, layer_map_base  # noqa: E402
from zennit.layer import Sum  # noqa: E402
from zennit.types import Linear  # noqa: E402

MEAN, STD = (0.4, 0.5, 0.45), (0.2, 0.25, 0.3)


class Network(nn.Module):
    """A residual network of modules, as zennit wants them: the sum is one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True))
        self.branch = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6))
        self.sum, self.relu, self.pool = Sum(), nn.ReLU(), nn.AvgPool2d(2)
        self.rest = nn.Sequential(nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
        rng = torch.Generator().manual_seed(1)
        self.double().eval().requires_grad_(False)
        for name, part in self.state_dict().items():
            if part.is_floating_point():
                part.copy_(torch.randn(part.shape, generator=rng) / part[0].numel() ** 0.5)
            if "var" in name:
                part.abs_().add_(0.5)
        for part in (self.head[0].weight, self.head[2].weight):
            part.abs_()

    def forward(self, x: Tensor) -> Tensor:
        a = self.stem(x)
        return self.head(self.rest(self.pool(self.relu(self.sum(torch.stack([a, self.branch(a)], dim=-1))))))


def positive_terms() -> rules.BasicHook:
    """Of a sum: zennit's own shares it out by signed terms."""
    return rules.BasicHook(
        input_modifiers=[lambda a: a.clamp(min=0)],
        param_modifiers=[rules.NoMod(param_keys=[])],
        output_modifiers=[lambda z: z],
        gradient_mapper=lambda R, Z: R / (Z[0] + 1e-6),
        reducer=lambda parts, slopes: parts[0] * slopes[0],
    )


@pytest.mark.parametrize("rule", ["zb", "z-plus", "w-square"])
def test_relevance_is_zennits(rule: str, images: Callable[..., Tensor]) -> None:
    network, x = Network(), images(5, 3, 12, 12)
    f = Classifier(network, MEAN, STD, beta=None)
    y = f(x).argmax(dim=1)
    mean, std = (torch.tensor(part, dtype=torch.float64).view(1, 3, 1, 1) for part in (MEAN, STD))
    first = {"zb": rules.ZBox(-mean / std, (1 - mean) / std), "z-plus": rules.ZPlus(), "w-square": rules.WSquare()}
    composite = SpecialFirstLayerMapComposite(
        [((Sum,), positive_terms()), *layer_map_base(), ((Linear,), rules.ZPlus())],
        [((Linear,), first[rule])],
        canonizers=[SequentialMergeBatchNorm()],
    )
    with Gradient(Network(), composite) as attributor:
        _, expected = attributor(((x - mean) / std).requires_grad_(), lambda logits: logits * torch.eye(4).double()[y])
    size = float(expected.abs().max())
    assert size > 1e-3
    # what zennit leaves of a batch norm divides by the root of 1 + 1e-5
    np.testing.assert_allclose(LayerwiseRelevance(rule).value(f, x, y), expected.flatten(1), atol=1e-5 * size)
