"""Saliency g(x) = grad f_y(x), and the Hessian products that every other attribution is made of [simonyan2013deep]."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.types import Explained, Logits


class Hessian:
    """H(z) of f_y at b points, by products: the graph of the gradient is built once and reused for every product.

    Points are differentiated in chunks of `chunk` at a time: large batches are slower than small ones where the cache
    is small.
    """

    def __init__(
        self, f: Logits, points: Float[Tensor, "b *shape"], classes: Int64[Tensor, " b"], *, chunk: int | None = None
    ) -> None:
        self._f, self._points, self._classes, self._chunk = f, points, classes, chunk or max(1, len(points))
        self._graphs: list[tuple[Tensor, Tensor]] = []

    @property
    def shape(self) -> tuple[int, int, int]:
        n = self._points[0].numel()
        return len(self._points), n, n

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def dtype(self) -> torch.dtype:
        return self._points.dtype

    @property
    def device(self) -> torch.device:
        return self._points.device

    def gradient(self) -> Float[Tensor, "b n"]:
        """grad f_y at the points."""
        return torch.cat([gradient.detach().flatten(1) for _, gradient in self._built()])

    def matvec(self, v: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        graphs = self._built()
        parts = v.split(self._chunk)
        return torch.cat([_product(*graph, part) for graph, part in zip(graphs, parts, strict=True)])

    rmatvec = matvec

    def select(self, keep: Int64[Tensor, " kept"]) -> "Hessian":
        return Hessian(self._f, self._points[keep], self._classes[keep], chunk=self._chunk)

    def _built(self) -> list[tuple[Tensor, Tensor]]:
        if not self._graphs:
            pairs = zip(self._points.split(self._chunk), self._classes.split(self._chunk), strict=True)
            self._graphs = [_differentiated(self._f, z, y, twice=True) for z, y in pairs]
        return self._graphs


@dataclass(frozen=True)
class Saliency:
    """The gradient of the explained class's logit; its Jacobian is the Hessian, symmetric."""

    def value(
        self, f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], draws: Draws | None = None
    ) -> Float[Tensor, "b n"]:
        return gradient(f, x, y)

    def explain(
        self, f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], draws: Draws | None = None
    ) -> Explained:
        H = Hessian(f, x, y)
        return Explained(H.gradient(), H)


def gradient(
    f: Logits, x: Float[Tensor, "b *shape"], y: Int64[Tensor, " b"], *, chunk: int | None = None
) -> Float[Tensor, "b n"]:
    """grad f_y(x), without a graph."""
    size = chunk or len(x)
    parts = zip(x.split(size), y.split(size), strict=True)
    return torch.cat([_differentiated(f, z, classes, twice=False)[1].flatten(1) for z, classes in parts])


def logit_gradients(
    f: Logits, x: Float[Tensor, "b *shape"], classes: Int64[Tensor, "b j"] | None = None
) -> tuple[Float[Tensor, "b j"], Float[Tensor, "b j n"]]:
    """Logits and their gradients, of all classes or of some of each sample: one forward pass, a backward pass a class."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = f(leaf) if classes is None else f(leaf).gather(1, classes)
        rows = [
            torch.autograd.grad(logits[:, j].sum(), leaf, retain_graph=True, materialize_grads=True)[0].flatten(1)
            for j in range(logits.shape[1])
        ]
    return logits.detach(), torch.stack(rows, dim=1)


def _differentiated(f: Logits, z: Tensor, y: Tensor, *, twice: bool) -> tuple[Tensor, Tensor]:
    leaf = z.detach().requires_grad_()
    with torch.enable_grad():
        score = f(leaf).gather(1, y[:, None]).sum()
        (gradient,) = torch.autograd.grad(score, leaf, create_graph=twice, materialize_grads=True)
    return leaf, gradient


def _product(leaf: Tensor, gradient: Tensor, v: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    if not gradient.requires_grad:  # f is affine: its gradient has no graph
        return torch.zeros_like(v)
    (product,) = torch.autograd.grad(
        gradient, leaf, v.reshape(gradient.shape), retain_graph=True, materialize_grads=True
    )
    return product.flatten(1)
