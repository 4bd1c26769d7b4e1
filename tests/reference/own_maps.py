"""Attributions as a user would write them in a file: functions (model, x, target) -> maps."""

import torch
from torch.nn import functional as F


def gradient(model, x, target, scale=1.0):
    score = model(x).gather(1, target[:, None]).sum()
    return scale * torch.autograd.grad(score, x)[0]


def coarse(model, x, target):
    """Half as high and wide as the input, and without a channel."""
    return F.avg_pool2d(gradient(model, x, target) * x, 2)[:, 0]


def occlusion(model, x, target):
    """What the score loses without each row of pixels; no gradients anywhere."""
    with torch.no_grad():
        score = model(x).gather(1, target[:, None])
        rows = []
        for i in range(x.shape[2]):
            hidden = x.clone()
            hidden[:, :, i] = 0
            rows.append(score - model(hidden).gather(1, target[:, None]))
    return torch.cat(rows, dim=1)


def half_detached(model, x, target):
    return gradient(model, x, target) * x.detach()


def steps(model, x, target):
    return (gradient(model, x, target) > 0).to(x)


def mixing(model, x, target):
    g = gradient(model, x, target)
    return g - g.mean(dim=0, keepdim=True)


def noisy(model, x, target):
    return gradient(model, x, target) + torch.rand_like(x)


def not_numbers(model, x, target):
    return gradient(model, x, target) * float("nan")


def summed(model, x, target):
    return gradient(model, x, target).sum()


def whole(model, x, target):
    return target[:, None]


def failing(model, x, target):
    raise KeyError("layer9")
