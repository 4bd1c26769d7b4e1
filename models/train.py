"""Train a bundled model from its recipe: `python models/train.py RECIPE DATA_FOLDER` (see `make models`)."""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from provable import penalties
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from attrcert.loading.architectures import BUNDLED

Labelled = tuple[Tensor, Tensor]


def parts(about: dict[str, Any], data: Path) -> tuple[Labelled, Labelled]:
    """What to train on and what to test with: two files of images, or one table that is split."""
    if "table" in about:
        return split(data / about["table"], held_out=about["held_out"])
    return load(data / about["train"]), load(data / about["test"])


def split(path: Path, *, held_out: int, seed: int = 0) -> tuple[Labelled, Labelled]:
    """The rows of a table after its first line, features and then the class number: those to train on, and some that are held out."""
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    order = np.random.default_rng(seed).permutation(len(rows))
    train, test = (rows[np.sort(picked)] for picked in (order[held_out:], order[:held_out]))
    return labelled(train), labelled(test)


def labelled(rows: np.ndarray) -> Labelled:
    return torch.from_numpy(rows[:, :-1]).float(), torch.from_numpy(rows[:, -1]).long()


def load(path: Path) -> Labelled:
    """Pixels in [0, 1], channels first, and labels."""
    with np.load(path) as arrays:
        images = torch.from_numpy(arrays["images"]).permute(0, 3, 1, 2).float() / 255
        return images.contiguous(), torch.from_numpy(arrays["labels"]).long()


def adversarial(network: nn.Module, x: Tensor, y: Tensor, *, eps: float, steps: int, step_size: float) -> Tensor:
    """Images within l2 distance eps of x, and in [0, 1], that raise the loss."""

    def project(delta: Tensor) -> Tensor:
        norms = delta.flatten(1).norm(dim=1).clamp_min(1e-12)
        inside = delta * (eps / norms).clamp_max(1)[:, None, None, None]
        return (x + inside).clamp(0, 1) - x

    delta = torch.randn_like(x)
    delta = project(delta * (eps * torch.rand(len(x), 1, 1, 1) / delta.flatten(1).norm(dim=1)[:, None, None, None]))
    for _ in range(steps):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(network(x + delta), y), delta)
        unit = gradient / gradient.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
        delta = project(delta.detach() + step_size * unit)
    return x + delta


def accuracy(network: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        hits = sum(
            (network(xs).argmax(1) == ys).sum().item() for xs, ys in zip(x.split(500), y.split(500), strict=True)
        )
    return hits / len(y)


class Normalised(nn.Module):
    """The first layer of what is trained; the weights are saved without it."""

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


def objective(network: nn.Sequential, x: Tensor, y: Tensor, recipe: dict[str, Any], done: float) -> Tensor:
    """What a step lowers; `done` is how much of the training is over, from 0 to 1."""
    if "adversary" in recipe:
        x = adversarial(network, x, y, **recipe["adversary"])
    loss = F.cross_entropy(network(x), y)
    if "provable" in recipe:
        about = recipe["provable"]
        curvature, movement = penalties(network, x, y, torch.randn_like(x), floor=about["floor"], eps=about["eps"])
        share = min(1.0, done / about["rise"])
        loss = loss + share * (about["curvature"] * curvature.mean() + about["movement"] * movement.mean())
    return loss


def begun(recipe: dict[str, Any]) -> nn.Module:
    """The network before training: random weights, or those of another bundled model."""
    body = BUNDLED[recipe["model"]["arch"]](**recipe["model"]["arch_args"])
    if "start" in recipe["training"]:
        body.load_state_dict(load_file(Path(__file__).parent / recipe["training"]["start"] / "weights.safetensors"))
    return body


def train(recipe: dict[str, Any], data: Path) -> tuple[nn.Module, dict[str, float]]:
    """The trained network (normalisation outside it) and its measured accuracies."""
    settings = recipe["training"]
    torch.manual_seed(settings["seed"])
    body = begun(recipe)
    (x, y), test = parts(recipe["data"], data)
    axes = [1] * (x.ndim - 2)
    mean, std = (torch.tensor(recipe["model"][name]).view(-1, *axes) for name in ("mean", "std"))
    network = nn.Sequential(Normalised(mean, std), *body.children())
    total = settings["epochs"] * -(-len(x) // settings["batch_size"])
    optimiser = torch.optim.Adam(body.parameters(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings["learning_rate"], total_steps=total)
    steps = 0
    for epoch in range(settings["epochs"]):
        for picked in torch.randperm(len(x)).split(settings["batch_size"]):
            loss = objective(network, x[picked], y[picked], recipe, steps / total)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            steps += 1
        print(f"epoch {epoch + 1}/{settings['epochs']}: last loss {loss.item():.4f}", flush=True)
    x, y = test
    measured = {"test_accuracy": accuracy(network, x, y)}
    if "adversary" in recipe:
        x, y = x[:1000], y[:1000]
        measured["adversarial_accuracy"] = accuracy(network, adversarial(network, x, y, **recipe["adversary"]), y)
    return body, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    recipe = tomllib.loads(options.recipe.read_text())
    body, measured = train(recipe, options.data)
    print(measured)
    if measured["test_accuracy"] < recipe["training"]["least_accuracy"]:
        raise SystemExit(f"test accuracy {measured['test_accuracy']:.4f} is below the recipe's least_accuracy")
    facts = {**recipe["model"], "classes": recipe["data"]["classes"], **measured}
    metadata = {
        f"attrcert.{key}": value if isinstance(value, str) else json.dumps(value) for key, value in facts.items()
    }
    save_file(body.state_dict(), options.recipe.with_name("weights.safetensors"), metadata=metadata)


if __name__ == "__main__":
    main()
