"""Random networks, and attacks on what is proved of them: `python tests/fuzz_proved.py [NUMBER] [FIRST_SEED]`, from the project's root.

Depth, width, strides, residual sums, concatenations, norms, ten activations, l2 and linf, three attributions, eps from .001 to 1, and every
form of the bound: without a search, with one, and streamed. Every network is attacked from its leading singular vectors and from random
starts. A line for what an attack exceeded, which ends with exit code 1, and at last how close the bounds were. Not collected by pytest,
which has the same with fewer networks: a thousand take half an hour on one core.
"""

import sys
from statistics import median

import torch
from reference.climbing import largest_change
from reference.smooth_networks import ACTIVATIONS, Residual
from test_proved import ATTRIBUTIONS, attribution_map
from torch import Tensor, nn

from attrcert.bounds.proved.choosing import FittingProver
from attrcert.bounds.proved.reading import read_network
from attrcert.draws import Draws
from attrcert.networks.classifier import Classifier
from attrcert.vocabulary import Norm

FORMS = {"plain": (10**9, 0), "searched": (10**9, 6), "streamed": (1, 4)}  # memory and effort
ROUNDING = 1e-9  # relative: of the attack's own arithmetic


class Beside(nn.Module):
    """Two layers of the same input, one after the other."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x), self.second(x)], dim=1)


class Picker:
    """Choices of one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = torch.Generator().manual_seed(seed)

    def among(self, choices: list) -> object:
        return choices[self.number(0, len(choices) - 1)]

    def number(self, least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (), generator=self.rng))

    def share(self) -> float:
        return float(torch.rand((), generator=self.rng))


def network(pick: Picker, activation: nn.Module) -> nn.Sequential:
    """Of images with 3 x 3 pixels."""
    layers: list[nn.Module] = []
    if pick.share() < 0.5:
        channels, side = pick.number(1, 3), 3
        layers += [nn.Conv2d(1, channels, 2, padding=1, stride=pick.number(1, 2)), activation]
        side = int(nn.Sequential(*layers)(torch.zeros(1, 1, 3, 3)).shape[-1])
        if pick.share() < 0.5:
            layers.append(Residual(channels, activation))
        if pick.share() < 0.3:
            layers += [Beside(nn.Conv2d(channels, 1, 1), nn.Conv2d(channels, 2, 1)), activation]
            channels = 3
        size = channels * side**2
    else:
        size = 9
    layers.append(nn.Flatten())
    for _ in range(pick.number(1, 4)):
        wide = pick.number(1, 8)
        layers.append(nn.Linear(size, wide))
        if wide > 3 and pick.share() < 0.2:
            layers.append(nn.LayerNorm(wide))
        layers.append(activation)
        size = wide
    return nn.Sequential(*layers, nn.Linear(size, 3))


def classifier(pick: Picker) -> tuple[Classifier, str]:
    name = str(pick.among(list(ACTIVATIONS)))
    made = network(pick, ACTIVATIONS[name]()).double().eval().requires_grad_(False)
    gain = 0.5 + 2 * pick.share()
    for key, part in made.state_dict().items():
        if part.is_floating_point():
            noise = torch.randn(part.shape, generator=pick.rng, dtype=torch.float64)
            part.copy_(noise.abs() + 0.5 if "var" in key else gain * noise / max(1, part[0].numel()) ** 0.5)
    return Classifier(made, mean=(0.3,), std=(0.5,), beta=0.5 + 10 * pick.share()), name


def tried(seed: int) -> tuple[str, float, float]:
    """What it was, what was proved and what an attack reached."""
    pick = Picker(seed)
    f, activation = classifier(pick)
    x = torch.rand(1, 1, 3, 3, generator=pick.rng, dtype=torch.float64)
    eps, norm = 10 ** (-3 + 3 * pick.share()), Norm.parse(str(pick.among(["l2", "linf"])))
    name, form = str(pick.among(list(ATTRIBUTIONS))), str(pick.among(list(FORMS)))
    memory, effort = FORMS[form]
    prover = FittingProver(read_network(f, (1, 3, 3), x.device), ATTRIBUTIONS[name], norm, memory, effort)
    size = torch.tensor([eps], dtype=torch.float64)
    (found,) = prover(x, torch.zeros(1, dtype=torch.int64), [size], Draws(0, (0,)))
    g = attribution_map(f, 0, ATTRIBUTIONS[name])
    reached = largest_change(g, x[0], eps, linf=norm.kind.value == "linf", starts=6, steps=25)
    return f"{seed} {activation} {norm} {name} {form} {found.method[0]} eps {eps:.3g}", float(found.upper), reached


def main(number: int, first: int) -> int:
    exceeded, ratios = 0, {}
    for seed in range(first, first + number):
        what, upper, reached = tried(seed)
        if not reached <= upper * (1 + ROUNDING):
            exceeded += 1
            print(f"EXCEEDED {what}: proved {upper:.9g}, reached {reached:.9g}", flush=True)
        if reached > 0:
            ratios.setdefault(what.split()[-3], []).append(upper / reached)
        if (seed - first + 1) % 100 == 0:
            told = ", ".join(f"{form} {median(found):.3f} of {len(found)}" for form, found in sorted(ratios.items()))
            print(f"{seed - first + 1} networks, {exceeded} exceeded; median bound / attack: {told}", flush=True)
    return int(exceeded > 0)


if __name__ == "__main__":
    raise SystemExit(main(*(int(word) for word in (*sys.argv[1:], *("1000", "0")[len(sys.argv) - 1 :]))))
