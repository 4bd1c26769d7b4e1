"""Networks with smooth activations for the proved bound: chains, dense, convolutional, residual; and their gradients."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attrcert.networks.classifier import Classifier

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "softplus": lambda: nn.Softplus(3.0),
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "relu twin": nn.ReLU,
    "leaky twin": nn.LeakyReLU,
    "prelu twin": nn.PReLU,
    "relu6 twin": nn.ReLU6,
}


class Residual(nn.Module):
    """Two convolutions, a batch norm and a skip connection."""

    def __init__(self, channels: int, activation: nn.Module) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm, self.activation = nn.BatchNorm2d(channels), activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.second(self.activation(self.norm(self.first(x)))) + x)


def _dense(activation: nn.Module, widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for wide, narrow in zip((9, *widths), widths, strict=False):
        layers += [nn.Linear(wide, narrow), activation]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 3))


KINDS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "shallow": lambda activation: _dense(activation, (6,)),
    "deep": lambda activation: _dense(activation, (7, 5, 6)),
    "convolutional": lambda activation: nn.Sequential(
        nn.Conv2d(1, 3, 2, padding=1),
        activation,
        nn.AvgPool2d(2),
        nn.Conv2d(3, 2, 2),
        activation,
        nn.Flatten(),
        nn.Linear(2, 3),
    ),
    "strided": lambda activation: nn.Sequential(
        nn.Conv2d(1, 4, 2, stride=2, padding=1),
        activation,
        nn.Conv2d(4, 4, 2, groups=2, dilation=1),
        activation,
        nn.Flatten(),
        nn.Linear(4, 3),
    ),
    "residual": lambda activation: nn.Sequential(
        nn.Conv2d(1, 2, 2),
        activation,
        Residual(2, activation),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2, 3),
    ),
}


def classifier(kind: str, activation: str, *, seed: int = 0, gain: float = 1.0, beta: float = 4.0) -> Classifier:
    """Of 3 x 3 images into three classes, with random weights from a generator of its own, in float64."""
    rng = torch.Generator().manual_seed(seed)
    network = KINDS[kind](ACTIVATIONS[activation]()).double().eval().requires_grad_(False)
    for name, part in network.state_dict().items():
        if part.is_floating_point():
            noise = torch.randn(part.shape, generator=rng, dtype=torch.float64)
            part.copy_(noise.abs() + 0.5 if "var" in name else gain * noise / max(1, part[0].numel()) ** 0.5)
    return Classifier(network, mean=(0.3,), std=(0.5,), beta=beta)


def chain(depth: int, *, beta: float = 2.0) -> Classifier:
    """Single neurons one after another, where all slopes grow together: every enclosure is attained at x + eps."""
    layers: list[nn.Module] = [nn.Flatten()]
    for place in range(depth + 1):
        linear = nn.Linear(1, 1)
        linear.weight.data.fill_(1.3 - 0.1 * place)
        linear.bias.data.fill_(-2.5)
        layers += [linear, nn.Softplus(beta)]
    return Classifier(nn.Sequential(*layers[:-1]).double().eval().requires_grad_(False))


def gradient_of(f: Classifier, target: int) -> Callable[[Tensor], Tensor]:
    """Points to gradients of a logit; differentiable where the points are."""

    def gradient(z: Tensor) -> Tensor:
        leaf = z if z.requires_grad else z.clone().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(f(leaf)[:, target].sum(), leaf, create_graph=z.requires_grad)[0]

    return gradient
