"""Architectures of the papers and of public repositories; parameters have the names of the repositories, so that their files fit."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attrcert.registry import unknown

BETA = 3.0  # of softplus, as joo2023towards trains with it
ACTIVATIONS: Mapping[str, Callable[[float], nn.Module]] = {
    "relu": lambda beta: nn.ReLU(),
    "softplus": nn.Softplus,
    "elu": lambda beta: nn.ELU(),
    "gelu": lambda beta: nn.GELU(),
    "silu": lambda beta: nn.SiLU(),
    "tanh": lambda beta: nn.Tanh(),
    "sigmoid": lambda beta: nn.Sigmoid(),
}
POOLS: Mapping[str, Callable[[int], nn.Module]] = {"max": nn.MaxPool2d, "average": nn.AvgPool2d}

Act = Callable[[], nn.Module]


def _activation(name: str, beta: float) -> Act:
    """What makes the activations of a network, a module for each place."""
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return partial(ACTIVATIONS[name], beta)


def _strided(channels: int, size: int, padding: int, classes: int, act: Act) -> nn.Sequential:
    """Two convolutions with strides, and two dense layers."""
    for _ in range(2):
        size = (size + 2 * padding - 4) // 2 + 1
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, stride=2, padding=padding),
        act(),
        nn.Conv2d(16, 32, 4, stride=2, padding=padding),
        act(),
        nn.Flatten(),
        nn.Linear(32 * size**2, 100),
        act(),
        nn.Linear(100, classes),
    )


def convsmall(
    channels: int = 3, size: int = 32, classes: int = 10, activation: str = "relu", beta: float = BETA
) -> nn.Module:
    """ConvSmall of ERAN: two strided convolutions without padding, two dense layers."""
    return _strided(channels, size, 0, classes, _activation(activation, beta))


def mnist_cnn(
    channels: int = 1, size: int = 28, classes: int = 10, activation: str = "relu", beta: float = BETA
) -> nn.Module:
    """Two strided convolutions with padding, two dense layers, as locuslab/convex_adversarial trains on MNIST."""
    return _strided(channels, size, 1, classes, _activation(activation, beta))


class LeNet(nn.Module):
    """Four convolutions, each pair with pooling behind it, and two dense layers."""

    def __init__(self, channels: int, size: int, classes: int, pool: Callable[[int], nn.Module], act: Act) -> None:
        super().__init__()
        self.conv11, self.act11 = nn.Conv2d(channels, 32, 3, padding=1), act()
        self.conv12, self.act12, self.pool1 = nn.Conv2d(32, 32, 3, padding=1), act(), pool(2)
        self.conv21, self.act21 = nn.Conv2d(32, 64, 3, padding=1), act()
        self.conv22, self.act22, self.pool2 = nn.Conv2d(64, 64, 3, padding=1), act(), pool(2)
        self.fc1, self.act3 = nn.Linear(64 * (size // 4) ** 2, 256), act()
        self.fc2 = nn.Linear(256, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool1(self.act12(self.conv12(self.act11(self.conv11(x)))))
        x = self.pool2(self.act22(self.conv22(self.act21(self.conv21(x)))))
        return self.fc2(self.act3(self.fc1(torch.flatten(x, 1))))


def lenet(
    channels: int = 3,
    size: int = 32,
    classes: int = 10,
    activation: str = "relu",
    beta: float = BETA,
    pool: str = "max",
) -> nn.Module:
    """LeNet of joshua840/RobustAGA (the paper: activation=softplus beta=3; pool=average has a Jacobian everywhere) [joo2023towards]."""
    if pool not in POOLS:
        raise unknown("pool", pool, POOLS)
    return LeNet(channels, size, classes, POOLS[pool], _activation(activation, beta))


def _convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


class PaddedShortcut(nn.Module):
    """Every second pixel, and zeros as further channels on both sides: a shortcut without parameters (option A)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.each_side = (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.each_side, self.each_side))


def _projected_shortcut(inputs: int, outputs: int) -> nn.Module:
    """A 1 x 1 convolution (option B)."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=2, bias=False), nn.BatchNorm2d(outputs))


Shortcut = Callable[[int, int], nn.Module]


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut, and the activation of their sum."""

    def __init__(self, inputs: int, outputs: int, shortcut: Shortcut, act: Act) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.conv1, self.bn1, self.act1 = _convolution(inputs, outputs, stride), nn.BatchNorm2d(outputs), act()
        self.conv2, self.bn2, self.act2 = _convolution(outputs, outputs), nn.BatchNorm2d(outputs), act()
        self.shortcut = nn.Sequential() if stride == 1 else shortcut(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.act1(self.bn1(self.conv1(x)))
        return self.act2(self.bn2(self.conv2(inner)) + self.shortcut(x))


class ThumbnailResNet(nn.Module):
    """A residual network for images of 32 pixels: a 3 x 3 stem without pooling, stages that halve the sides."""

    def __init__(
        self, widths: tuple[int, ...], blocks: int, channels: int, classes: int, shortcut: Shortcut, act: Act
    ) -> None:
        super().__init__()
        self.stages = tuple(f"layer{number + 1}" for number in range(len(widths)))
        self.conv1, self.bn1, self.act1 = _convolution(channels, widths[0]), nn.BatchNorm2d(widths[0]), act()
        before = widths[0]
        for name, width in zip(self.stages, widths, strict=True):
            inputs = (before, *[width] * (blocks - 1))
            self.add_module(name, nn.Sequential(*(ResidualBlock(one, width, shortcut, act) for one in inputs)))
            before = width
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act1(self.bn1(self.conv1(x)))
        for name in self.stages:
            x = getattr(self, name)(x)
        return self.linear(torch.flatten(self.pool(x), 1))


def resnet20(classes: int = 10, channels: int = 3, activation: str = "relu", beta: float = BETA) -> nn.Module:
    """ResNet-20 with option-A shortcuts, of akamaster/pytorch_resnet_cifar10 [wang2020smoothed]."""
    return ThumbnailResNet((16, 32, 64), 3, channels, classes, PaddedShortcut, _activation(activation, beta))


def resnet18_32(classes: int = 10, channels: int = 3, activation: str = "relu", beta: float = BETA) -> nn.Module:
    """ResNet-18 for images of 32 pixels, of kuangliu/pytorch-cifar [joo2023towards]."""
    widths = (64, 128, 256, 512)
    return ThumbnailResNet(widths, 2, channels, classes, _projected_shortcut, _activation(activation, beta))


class PreactivatedBlock(nn.Module):
    """Norm and activation before each of two convolutions; where the width changes, the shortcut has them too."""

    def __init__(self, inputs: int, outputs: int, stride: int, act: Act) -> None:
        super().__init__()
        self.bn1, self.relu1, self.conv1 = nn.BatchNorm2d(inputs), act(), _convolution(inputs, outputs, stride)
        self.bn2, self.relu2, self.conv2 = nn.BatchNorm2d(outputs), act(), _convolution(outputs, outputs)
        self.convShortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        ready = self.relu1(self.bn1(x))
        inner = self.conv2(self.relu2(self.bn2(self.conv1(ready))))
        return inner + (x if self.convShortcut is None else self.convShortcut(ready))


class WideStage(nn.Module):
    """Blocks of one width."""

    def __init__(self, inputs: int, outputs: int, blocks: int, stride: int, act: Act) -> None:
        super().__init__()
        first = PreactivatedBlock(inputs, outputs, stride, act)
        self.layer = nn.Sequential(first, *(PreactivatedBlock(outputs, outputs, 1, act) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class WideResNet(nn.Module):
    """A wide residual network for images of 32 pixels; `depth` counts its layers, `widen` multiplies their channels."""

    def __init__(self, depth: int, widen: int, channels: int, classes: int, act: Act) -> None:
        super().__init__()
        blocks, (one, two, three) = (depth - 4) // 6, (16 * widen, 32 * widen, 64 * widen)
        self.conv1 = _convolution(channels, 16)
        self.block1 = WideStage(16, one, blocks, 1, act)
        self.block2 = WideStage(one, two, blocks, 2, act)
        self.block3 = WideStage(two, three, blocks, 2, act)
        self.bn1, self.relu, self.pool = nn.BatchNorm2d(three), act(), nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(three, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(torch.flatten(self.pool(self.relu(self.bn1(x))), 1))


def wrn_28_10(classes: int = 10, channels: int = 3, activation: str = "relu", beta: float = BETA) -> nn.Module:
    """Wide ResNet 28-10, of xternalz/WideResNet-pytorch."""
    return WideResNet(28, 10, channels, classes, _activation(activation, beta))


def wrn_34_10(classes: int = 10, channels: int = 3, activation: str = "relu", beta: float = BETA) -> nn.Module:
    """Wide ResNet 34-10, of yaodongyu/TRADES."""
    return WideResNet(34, 10, channels, classes, _activation(activation, beta))


def wrn_40_2(classes: int = 10, channels: int = 3, activation: str = "relu", beta: float = BETA) -> nn.Module:
    """Wide ResNet 40-2, of xternalz/WideResNet-pytorch."""
    return WideResNet(40, 2, channels, classes, _activation(activation, beta))


PUBLISHED: Mapping[str, Callable[..., nn.Module]] = {
    "lenet": lenet,
    "mnist-cnn": mnist_cnn,
    "convsmall": convsmall,
    "resnet20": resnet20,
    "resnet18-32": resnet18_32,
    "wrn-28-10": wrn_28_10,
    "wrn-34-10": wrn_34_10,
    "wrn-40-2": wrn_40_2,
}
