"""Maps that are computed by torch, with their Jacobian by autograd's products.

J^T u is a backward pass through the graph of g. It is linear in u, so J v is its derivative by u along v: one more backward pass. Both
graphs are built once and serve every product.
"""

from abc import abstractmethod

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attrcert.attributions.gradient import TALLY
from attrcert.draws import Draws
from attrcert.errors import AttributionError
from attrcert.linalg.maps import usual_chunk
from attrcert.networks.classifier import Classifier
from attrcert.types import Attribution, Classes, Explained, Flat, Inputs, LinearMap, Logits


class AutogradJacobian(LinearMap):
    """The Jacobian of such a map at b points, `chunk` of which share a graph; the graphs of `held` points are kept, as Hessian's are."""

    def __init__(self, map: "Differentiated", f: Logits, points: Inputs, classes: Classes) -> None:
        self._map, self._f, self._points, self.classes = map, f, points, classes
        self._chunk = map.chunk or usual_chunk(points)
        self._graphs: dict[int, tuple[Tensor, Tensor]] = {}
        self._pulled: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def like(self) -> Tensor:
        return self._points

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self._points), self._graph(0)[1].shape[1], self._points[0].numel()

    @property
    def reaches(self) -> bool:
        """Whether the graph of the maps reaches the input."""
        leaf, g = self._graph(0)
        return (
            g.requires_grad and torch.autograd.grad(g.sum(), leaf, retain_graph=True, allow_unused=True)[0] is not None
        )

    def value(self) -> Flat:
        return torch.cat([self._graph(i)[1].detach() for i in range(len(self._points.split(self._chunk)))])

    def matvec(self, v: Flat) -> Float[Tensor, "b m"]:
        return torch.cat([self._pushed(i, part) for i, part in enumerate(v.split(self._chunk))])

    def rmatvec(self, u: Float[Tensor, "b m"]) -> Flat:
        return torch.cat([self._pulled_back(i, part) for i, part in enumerate(u.split(self._chunk))])

    def select(self, keep: Int64[Tensor, " kept"]) -> "AutogradJacobian":
        return AutogradJacobian(self._map, self._f, self._points[keep], self.classes[keep])

    def _graph(self, i: int) -> tuple[Tensor, Tensor]:
        """The points of the i-th chunk and their maps, flattened."""
        if i not in self._graphs:
            chunk = slice(i * self._chunk, (i + 1) * self._chunk)
            leaf, g = self._map.maps(self._f, self._points[chunk], self.classes[chunk], twice=True)
            graph = leaf, g.flatten(1)
            if not self._kept(i):
                return graph
            self._graphs[i] = graph
        return self._graphs[i]

    def _kept(self, i: int) -> bool:
        return self._map.held is None or (i + 1) * self._chunk <= self._map.held

    def _pulled_back(self, i: int, u: Float[Tensor, "c m"]) -> Float[Tensor, "c n"]:
        leaf, g = self._differentiable(i)
        TALLY.derivatives += len(u)
        (product,) = torch.autograd.grad(g, leaf, u, retain_graph=True, materialize_grads=True)
        return product.flatten(1)

    def _pushed(self, i: int, v: Float[Tensor, "c n"]) -> Float[Tensor, "c m"]:
        u, back = self._pulled[i] if i in self._pulled else self._pull(i)
        if not back.requires_grad:  # the map does not depend on the input
            return torch.zeros_like(u)
        TALLY.derivatives += len(v)
        (product,) = torch.autograd.grad(back, u, v.view_as(back), retain_graph=True, materialize_grads=True)
        return product

    def _pull(self, i: int) -> tuple[Tensor, Tensor]:
        """A vector u of the i-th chunk, and J^T u with its graph."""
        leaf, g = self._differentiable(i)
        u = torch.zeros_like(g).requires_grad_()
        with torch.enable_grad():
            (back,) = torch.autograd.grad(g, leaf, u, create_graph=True, materialize_grads=True)
        if self._kept(i):
            self._pulled[i] = u, back
        return u, back

    def _differentiable(self, i: int) -> tuple[Tensor, Tensor]:
        leaf, g = self._graph(i)
        if not g.requires_grad:
            raise AttributionError(f"{self._map.name} cannot be differentiated: its maps have no graph")
        return leaf, g


class Differentiated(Attribution):
    """An attribution by its maps alone; `chunk` points go together, and the graphs of `held` are kept. In messages it has a `name`."""

    chunk: int | None
    held: int | None
    name: str

    @abstractmethod
    def maps(self, f: Logits, x: Inputs, y: Classes, *, twice: bool) -> tuple[Tensor, Tensor]:
        """Points that the maps are of, and these; `twice` with a graph."""

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        size = self.chunk or usual_chunk(x)
        parts = zip(x.split(size), y.split(size), strict=True)
        return torch.cat([self.maps(f, z, classes, twice=False)[1].detach().flatten(1) for z, classes in parts])

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        J = AutogradJacobian(self, f, x, y)
        return Explained(J.value(), J)

    def note(self, f: Logits) -> str:
        """What was chosen where nothing was said."""
        return ""


def classifier_of(f: Logits, name: str) -> Classifier:
    """What runs a network, for attributions that look into it."""
    if isinstance(f, Classifier):
        return f
    if isinstance(f, nn.Module):
        return Classifier(f, beta=None)
    raise AttributionError(f"{name} looks into the network, and got {type(f).__name__}", hint="give the network itself")
