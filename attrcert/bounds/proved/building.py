"""A network under construction: steps are added one by one, and results are known by reference."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attrcert.bounds.proved.affine import Operation, Shape
from attrcert.bounds.proved.curves import Curve
from attrcert.bounds.proved.network import Network, Step

SMOOTHER = "the smoothing certificate (--smooth uniform) takes networks as they are"


class Unsupported(Exception):  # noqa: N818 - not an error of ours: the reader turns it into one that names the place
    """Something that the bound has no rule for, and what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


@dataclass(eq=False)
class Ref:
    """The result of a step; an operation in place makes it that of a later one."""

    step: int
    shape: Shape


@dataclass
class Building:
    """Starts with the input alone; `beta` is that of the softplus which ReLUs run as, None where they do not."""

    shape: Shape
    device: torch.device
    beta: float | None = None
    steps: list[Step] = field(default_factory=list)
    tried: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps.append(Step((), self.shape))

    @property
    def input(self) -> Ref:
        return Ref(0, self.shape)

    def sample(self, ref: Ref) -> Tensor:
        """A batch of one of the reference's shape."""
        return torch.zeros(1, *ref.shape, dtype=torch.float64, device=self.device)

    def seen(self, ref: Ref) -> Tensor:
        """A result at an image of noise and at one beside it: of what size it is."""
        if not self.tried:
            rng = torch.Generator().manual_seed(0)
            image, noise = torch.rand(2, 1, *self.shape, generator=rng, dtype=torch.float64).to(self.device)
            self.tried.append(torch.cat([image, image + (noise - 0.5) / 8]))
        for step in self.steps[len(self.tried) : ref.step + 1]:
            self.tried.append(step.value([self.tried[i] for i in step.inputs]))
        return self.tried[ref.step]

    def add(self, operation: Operation, input: Ref) -> Ref:
        """An operation on every sample for itself; it is tried on three."""
        rng = torch.Generator().manual_seed(0)
        x = torch.randn(3, *input.shape, generator=rng, dtype=torch.float64).to(self.device)
        together, alone = operation.apply(x), [operation.apply(one[None]) for one in x]
        if len(together) != 3 or not torch.allclose(together, torch.cat(alone), rtol=1e-9, atol=1e-9):
            raise Unsupported("an operation that mixes samples", "keep the first axis for the batch")
        return self._append(Step((input.step,), tuple(together.shape[1:]), operation=operation))

    def seen_elsewhere(self, ref: Ref) -> bool:
        """Whether a result shares its memory with another: what is moved may be a view."""
        views = (step for step in self.steps if step.moves)
        return self.steps[ref.step].moves or any(ref.step in step.inputs for step in views)

    def activate(self, curve: Curve, input: Ref) -> Ref:
        return self._append(Step((input.step,), input.shape, curve=curve))

    def sum(self, first: Ref, *others: Ref) -> Ref:
        return self._append(Step((first.step, *(other.step for other in others)), first.shape))

    def network(self, output: Ref) -> Network:
        """What leads to the output."""
        needed = {0, output.step}
        for number in range(output.step, 0, -1):
            if number in needed:
                needed.update(self.steps[number].inputs)
        order = {old: new for new, old in enumerate(sorted(needed))}
        steps = (self.steps[old] for old in order)
        return Network(tuple(replace(step, inputs=tuple(order[i] for i in step.inputs)) for step in steps))

    def _append(self, step: Step) -> Ref:
        self.steps.append(step)
        return Ref(len(self.steps) - 1, step.shape)


def constant(tensor: Tensor) -> Tensor:
    """Weights in the precision that the bound is computed in."""
    return tensor.detach().double()


def number(value: Tensor | float, device: torch.device) -> Tensor:
    """A tensor or a number of the network's own code; a number keeps all its digits."""
    return constant(value) if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64, device=device)
