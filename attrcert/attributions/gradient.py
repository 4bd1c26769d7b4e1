"""Saliency g(x) = grad f_y(x), and the Hessian products that every other attribution is made of [simonyan2013deep]."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attrcert.draws import Draws
from attrcert.linalg.maps import usual_chunk
from attrcert.types import Attribution, Classes, Explained, Figures, Flat, Inputs, LinearMap, Logits

Score = Callable[[Float[Tensor, "b k"], Classes], Figures]  # what is differentiated, of the logits and the classes


@dataclass
class Tally:
    """How many gradients and Hessian products of a point this process has taken, for whoever shows that long work goes on; nothing
    depends on it, and what other processes take is not in it.
    """

    derivatives: int = 0


TALLY = Tally()


def logit(logits: Float[Tensor, "b k"], y: Classes) -> Figures:
    """f_y."""
    return logits.gather(1, y[:, None])[:, 0]


class Hessian(LinearMap):
    """H(z) of f_y, or of another score, at b points, by products: the graph of the gradient is built once and reused for every product.

    Points are differentiated `chunk` at a time, by default as many as suit the device: large batches are slower than small ones where the
    cache is small. The graphs of `held` points are kept; those of the others are built again for every product, where memory is short.
    Where it is, a point that was selected several times is there once, and its vectors share what is built.
    """

    symmetric = True

    def __init__(
        self,
        f: Logits,
        points: Inputs,
        classes: Classes,
        *,
        chunk: int | None = None,
        held: int | None = None,
        score: Score = logit,
    ) -> None:
        self._f, self._points, self._classes, self._score = f, points, classes, score
        self._chunk, self._held = chunk or usual_chunk(points), held
        self._graphs: dict[int, tuple[Tensor, Tensor]] = {}
        self._rows: Tensor | None = None  # the point of each row of a product, where some share theirs
        self._places: list[Tensor] = []

    @property
    def like(self) -> Tensor:
        return self._points

    @property
    def shape(self) -> tuple[int, int, int]:
        n = self._points[0].numel()
        return len(self._points if self._rows is None else self._rows), n, n

    def gradient(self) -> Flat:
        """grad f_y at the points of the rows."""
        chunks = range(len(self._points.split(self._chunk)))
        slopes = torch.cat([self._graph(i, twice=self._kept(i))[1].detach().flatten(1) for i in chunks])
        return slopes if self._rows is None else slopes[self._rows]

    def matvec(self, v: Flat) -> Flat:
        if self._rows is None:
            parts = v.split(self._chunk)
            return torch.cat([_product(*self._graph(i, twice=True), part) for i, part in enumerate(parts)])
        products = torch.empty_like(v)
        for i, places in enumerate(self._places):
            graph = self._graph(i, twice=True)
            for place in places.unbind(dim=1):
                products[place] = _product(*graph, v[place])
        return products

    def select(self, keep: Int64[Tensor, " kept"]) -> "Hessian":
        if self._held is None:
            return self._at(keep)
        wanted = torch.arange(len(self._points), device=keep.device) if self._rows is None else self._rows
        points, rows = wanted[keep].unique(return_inverse=True)
        shared = self._at(points)
        shared._rows, shared._places = rows, _places(rows, self._chunk)
        if len(points) == len(self._points):  # the same ones in the same order: what is kept of them is not kept twice
            shared._graphs = self._graphs
        return shared

    def _at(self, points: Int64[Tensor, " kept"]) -> "Hessian":
        kept = self._points[points], self._classes[points]
        return Hessian(self._f, *kept, chunk=self._chunk, held=self._held, score=self._score)

    def _kept(self, i: int) -> bool:
        """Whether the graph of the i-th chunk stays in memory."""
        return self._held is None or (i + 1) * self._chunk <= self._held

    def _graph(self, i: int, *, twice: bool) -> tuple[Tensor, Tensor]:
        """The points of the i-th chunk and their gradient; `twice` with the graph that a product needs."""
        if i in self._graphs:
            return self._graphs[i]
        chunk = slice(i * self._chunk, (i + 1) * self._chunk)
        graph = _differentiated(self._f, self._points[chunk], self._classes[chunk], self._score, twice=twice)
        if self._kept(i):
            self._graphs[i] = graph
        return graph


@dataclass(frozen=True)
class Saliency(Attribution):
    """The gradient of the explained class's logit; its Jacobian is the Hessian, symmetric. `chunk` and `held` as in Hessian."""

    chunk: int | None = None
    held: int | None = None

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        return gradient(f, x, y, chunk=self.chunk)

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        H = Hessian(f, x, y, chunk=self.chunk, held=self.held)
        return Explained(H.gradient(), H)


def gradient(f: Logits, x: Inputs, y: Classes, *, chunk: int | None = None, score: Score = logit) -> Flat:
    """grad f_y(x), or that of another score, without a graph."""
    size = chunk or usual_chunk(x)
    parts = zip(x.split(size), y.split(size), strict=True)
    return torch.cat([_differentiated(f, z, classes, score, twice=False)[1].flatten(1) for z, classes in parts])


def logit_gradients(f: Logits, x: Inputs) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k n"]]:
    """Logits and their gradients: one forward pass, a backward pass a class."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = f(leaf)
        rows = [
            torch.autograd.grad(logits[:, j].sum(), leaf, retain_graph=True, materialize_grads=True)[0].flatten(1)
            for j in range(logits.shape[1])
        ]
    return logits.detach(), torch.stack(rows, dim=1)


def _differentiated(f: Logits, z: Tensor, y: Tensor, score: Score, *, twice: bool) -> tuple[Tensor, Tensor]:
    TALLY.derivatives += len(z)
    leaf = z.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(score(f(leaf), y).sum(), leaf, create_graph=twice, materialize_grads=True)
    return leaf, gradient


def _places(rows: Int64[Tensor, " rows"], chunk: int) -> list[Int64[Tensor, "points most"]]:
    """The rows of each point, chunk by chunk, when every point has one; a point that has fewer than others has its first again."""
    order, counts = rows.argsort(stable=True), rows.bincount()
    first = counts.cumsum(0) - counts
    rank = torch.arange(len(rows), device=rows.device) - first[rows[order]]
    places = order[first][:, None].repeat(1, int(counts.max()))
    places[rows[order], rank] = order
    parts = zip(places.split(chunk), counts.split(chunk), strict=True)
    return [part[:, : int(most.max())] for part, most in parts]


def _product(leaf: Tensor, gradient: Tensor, v: Flat) -> Flat:
    if not gradient.requires_grad:  # f is affine: its gradient has no graph
        return torch.zeros_like(v)
    TALLY.derivatives += len(v)
    (product,) = torch.autograd.grad(
        gradient, leaf, v.reshape(gradient.shape), retain_graph=True, materialize_grads=True
    )
    return product.detach().flatten(1)
