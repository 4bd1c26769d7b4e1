"""Guided backpropagation and LRP written out for one image, with every layer as a matrix: R_j = sum_k (share of j in k) R_k."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

STABILISER = 1e-6


@dataclass(frozen=True)
class Affine:
    W: Tensor
    b: Tensor

    @staticmethod
    def of(layer: Callable[[Tensor], Tensor], *shape: int) -> "Affine":
        """A layer of images, column by column; its result is flattened."""
        n = torch.Size(shape).numel()
        with torch.no_grad():
            b = layer(torch.zeros(1, *shape, dtype=torch.float64)).flatten()
            columns = [layer(one.view(1, *shape)).flatten() - b for one in torch.eye(n, dtype=torch.float64)]
        return Affine(torch.stack(columns, dim=1), b)


@dataclass(frozen=True)
class Activation:
    s: Callable[[Tensor], Tensor]
    never_negative: bool = True


@dataclass(frozen=True)
class Plus:
    """The earlier result of this number is added; the image is number 0."""

    earlier: int


@dataclass(frozen=True)
class Written:
    """A network as steps, each of the result before; `beta` makes parts and gates smooth."""

    steps: Sequence[Affine | Activation | Plus]
    beta: float | None = None
    mean: Tensor = field(default_factory=lambda: torch.zeros(()).double())
    std: Tensor = field(default_factory=lambda: torch.ones(()).double())

    def normalised(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.std).flatten()

    def results(self, a: Tensor) -> list[Tensor]:
        found = [a]
        for step in self.steps:
            z = found[-1]
            if isinstance(step, Affine):
                found.append(step.W @ z + step.b)
            else:
                found.append(step.s(z) if isinstance(step, Activation) else z + found[step.earlier])
        return found

    def guided(self, y: int) -> Callable[[Tensor], Tensor]:
        def g(x: Tensor) -> Tensor:
            found = self.results(self.normalised(x))
            R = [torch.zeros_like(one) for one in found]
            R[-1] = torch.eye(len(found[-1]), dtype=x.dtype)[y]
            for i in range(len(self.steps), 0, -1):
                step = self.steps[i - 1]
                if isinstance(step, Affine):
                    R[i - 1] = R[i - 1] + step.W.mT @ R[i]
                elif isinstance(step, Plus):
                    R[i - 1], R[step.earlier] = R[i - 1] + R[i], R[step.earlier] + R[i]
                else:
                    R[i - 1] = R[i - 1] + self.gate(R[i]) * slope(step.s, found[i - 1])
            return R[0] / self.std.expand(x.shape).flatten()

        return g

    def relevance(self, y: int, rule: str) -> Callable[[Tensor], Tensor]:
        def g(x: Tensor) -> Tensor:
            found = self.results(self.normalised(x))
            R = [torch.zeros_like(one) for one in found]
            R[-1] = found[-1] * torch.eye(len(found[-1]), dtype=x.dtype)[y]
            for i in range(len(self.steps), 0, -1):
                step, a = self.steps[i - 1], found[i - 1]
                if isinstance(step, Activation):
                    R[i - 1] = R[i - 1] + R[i]
                elif isinstance(step, Plus):
                    ours, theirs = self.above(found, i - 1), self.above(found, step.earlier)
                    each = R[i] / (ours + theirs + STABILISER)
                    R[i - 1], R[step.earlier] = R[i - 1] + ours * each, R[step.earlier] + theirs * each
                else:
                    shares = self.first(step, x, rule) if i == 1 else self.shares(step, self.above(found, i - 1), a)
                    R[i - 1] = R[i - 1] + (shares * R[i][:, None]).sum(dim=0)
            return R[0]

        return g

    def shares(self, layer: Affine, p: Tensor, a: Tensor) -> Tensor:
        """Of what the k-th result has, the share of the j-th input."""
        terms = p * layer.W.clamp(min=0) + (a - p) * layer.W.clamp(max=0)
        return terms / (terms.sum(dim=1) + layer.b.clamp(min=0) + STABILISER)[:, None]

    def first(self, layer: Affine, x: Tensor, rule: str) -> Tensor:
        a = self.normalised(x)
        if rule == "w-square":
            return layer.W**2 / ((layer.W**2).sum(dim=1) + layer.b**2 + STABILISER)[:, None]
        low, high = (self.normalised(torch.full_like(x, end)) for end in (0.0, 1.0))
        if rule == "zb":
            terms = a * layer.W - low * layer.W.clamp(min=0) - high * layer.W.clamp(max=0)
            return terms / (terms.sum(dim=1) + STABILISER)[:, None]
        return self.shares(layer, a.clamp(min=0) if (low >= 0).all() else self.positive(a), a)

    def above(self, found: list[Tensor], i: int) -> Tensor:
        """The positive part of a result; what is never negative is its own, also where its entries were pooled."""
        j = i
        while (
            isinstance(self.steps[j - 1], Affine) and (self.steps[j - 1].W >= 0).all() and not self.steps[j - 1].b.any()
        ):
            j -= 1
        step = self.steps[j - 1]
        own = isinstance(step, Activation) and step.never_negative
        return found[i] if own else self.positive(found[i])

    def positive(self, a: Tensor) -> Tensor:
        return a.clamp(min=0) if self.beta is None else torch.log1p(torch.exp(self.beta * a)) / self.beta

    def gate(self, R: Tensor) -> Tensor:
        if self.beta is None:
            return R.clamp(min=0)
        sigma = (R**2).mean().sqrt()
        return sigma * self.positive(R / sigma)


def slope(s: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    """s'(t), which can be differentiated."""
    z = t if t.requires_grad else t.detach().requires_grad_()
    return torch.autograd.grad(s(z).sum(), z, create_graph=True)[0]


def chain(network: nn.Sequential, *shape: int, beta: float | None = None, **options: Tensor) -> Written:
    """Of a network of convolutions, linear layers and softplus."""
    steps: list[Affine | Activation | Plus] = []
    z = torch.zeros(1, *shape, dtype=torch.float64)
    for layer in network:
        if isinstance(layer, nn.Softplus | nn.ReLU):
            steps.append(Activation(layer))
        elif not isinstance(layer, nn.Flatten):
            steps.append(Affine.of(layer, *z.shape[1:]))
        z = layer(z)
    return Written(steps, beta, **options)
