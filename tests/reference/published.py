"""The networks of the public repositories as functions of their state dicts, written from the papers' drawings."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = Mapping[str, Tensor]


def convolved(w: Weights, name: str, x: Tensor, stride: int = 1, padding: int = 1) -> Tensor:
    return F.conv2d(x, w[f"{name}.weight"], w.get(f"{name}.bias"), stride, padding)


def normed(w: Weights, name: str, x: Tensor) -> Tensor:
    shape = (1, -1, 1, 1)
    mean, var, scale, shift = (
        w[f"{name}.{part}"].view(shape) for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / (var + 1e-5).sqrt() * scale + shift


def dense(w: Weights, name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def strided(w: Weights, x: Tensor, padding: int) -> Tensor:
    x = convolved(w, "0", x, 2, padding).relu()
    x = convolved(w, "2", x, 2, padding).relu()
    return dense(w, "7", dense(w, "5", x.reshape(len(x), -1)).relu())


def lenet(w: Weights, x: Tensor) -> Tensor:
    for pair in (("conv11", "conv12"), ("conv21", "conv22")):
        for name in pair:
            x = convolved(w, name, x).relu()
        x = F.max_pool2d(x, 2)
    return dense(w, "fc2", dense(w, "fc1", x.reshape(len(x), -1)).relu())


def resnet(
    w: Weights, x: Tensor, blocks: int, stages: int, shortcut: Callable[[Weights, str, Tensor], Tensor]
) -> Tensor:
    x = normed(w, "bn1", convolved(w, "conv1", x)).relu()
    for stage in range(1, stages + 1):
        for block in range(blocks):
            at = f"layer{stage}.{block}"
            halves = stage > 1 and block == 0
            inner = normed(w, f"{at}.bn1", convolved(w, f"{at}.conv1", x, 2 if halves else 1)).relu()
            inner = normed(w, f"{at}.bn2", convolved(w, f"{at}.conv2", inner))
            x = (inner + (shortcut(w, f"{at}.shortcut", x) if halves else x)).relu()
    return dense(w, "linear", x.mean((2, 3)))


def zeros_around(w: Weights, name: str, x: Tensor) -> Tensor:
    """Twice the channels, the new ones zero: half of them before, half behind."""
    kept = x[:, :, ::2, ::2]
    half = torch.zeros_like(kept[:, : kept.shape[1] // 2])
    return torch.cat((half, kept, half), 1)


def projected(w: Weights, name: str, x: Tensor) -> Tensor:
    return normed(w, f"{name}.1", convolved(w, f"{name}.0", x, 2, 0))


def wide_resnet(w: Weights, x: Tensor, blocks: int) -> Tensor:
    x = convolved(w, "conv1", x)
    for stage in (1, 2, 3):
        for block in range(blocks):
            at, stride = f"block{stage}.layer.{block}", 2 if stage > 1 and block == 0 else 1
            ready = normed(w, f"{at}.bn1", x).relu()
            inner = normed(w, f"{at}.bn2", convolved(w, f"{at}.conv1", ready, stride)).relu()
            inner = convolved(w, f"{at}.conv2", inner)
            x = inner + (convolved(w, f"{at}.convShortcut", ready, stride, 0) if block == 0 else x)
    return dense(w, "fc", normed(w, "bn1", x).relu().mean((2, 3)))


COMPUTED: dict[str, Callable[[Weights, Tensor], Tensor]] = {
    "lenet": lenet,
    "mnist-cnn": lambda w, x: strided(w, x, 1),
    "convsmall": lambda w, x: strided(w, x, 0),
    "resnet20": lambda w, x: resnet(w, x, 3, 3, zeros_around),
    "resnet18-32": lambda w, x: resnet(w, x, 2, 4, projected),
    "wrn-40-2": lambda w, x: wide_resnet(w, x, 6),
}
