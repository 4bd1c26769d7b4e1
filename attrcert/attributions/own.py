"""A user's own map (model, inputs, classes) -> attributions, with its Jacobian by autograd's products.

J^T u is a backward pass through the graph of g. It is linear in u, so J v is its derivative by u along v: one more backward pass. Both
graphs are built once and serve every product. Gradients that the function takes inside are taken with a graph, whether it asks for one
or not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attrcert.attributions.gradient import TALLY
from attrcert.draws import Draws
from attrcert.errors import AttrcertError, AttributionError, out_of_memory
from attrcert.linalg.maps import usual_chunk
from attrcert.types import Attribution, Classes, Explained, Flat, Inputs, LinearMap, Logits

Function = Callable[["Model", Tensor, Tensor], Any]
FORM = "it is called with (model, x, target) and returns one map for each x"


class Model(nn.Module):
    """The classifier from pixels to logits as a module: `network` is the user's own, and hooks reach its layers."""

    def __init__(self, f: Logits) -> None:
        super().__init__()
        self._logits = f
        network = getattr(f, "network", f)
        self.network = network if isinstance(network, nn.Module) else None
        self.training = False  # what it holds is in the mode that it is in

    def forward(self, x: Tensor) -> Tensor:
        return self._logits(x)


class _Retraced(TorchFunctionMode):
    """Gradients that are taken inside can be differentiated."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner = func is torch.autograd.grad
        return func(*args, **{**(kwargs or {}), **({"create_graph": True, "retain_graph": True} if inner else {})})


class AutogradJacobian(LinearMap):
    """The Jacobian of an own map at b points, `chunk` of which share a graph."""

    def __init__(self, own: "Own", f: Logits, points: Inputs, classes: Classes) -> None:
        self._own, self._f, self._points, self.classes = own, f, points, classes
        self._chunk = own.chunk or usual_chunk(points)
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
        return AutogradJacobian(self._own, self._f, self._points[keep], self.classes[keep])

    def _graph(self, i: int) -> tuple[Tensor, Tensor]:
        """The points of the i-th chunk and their maps, flattened."""
        if i not in self._graphs:
            chunk = slice(i * self._chunk, (i + 1) * self._chunk)
            self._graphs[i] = self._own.traced(self._f, self._points[chunk], self.classes[chunk])
        return self._graphs[i]

    def _pulled_back(self, i: int, u: Float[Tensor, "c m"]) -> Float[Tensor, "c n"]:
        leaf, g = self._differentiable(i)
        TALLY.derivatives += len(u)
        (product,) = torch.autograd.grad(g, leaf, u, retain_graph=True, materialize_grads=True)
        return product.flatten(1)

    def _pushed(self, i: int, v: Float[Tensor, "c n"]) -> Float[Tensor, "c m"]:
        leaf, g = self._differentiable(i)
        if i not in self._pulled:
            u = torch.zeros_like(g).requires_grad_()
            with torch.enable_grad():
                (back,) = torch.autograd.grad(g, leaf, u, create_graph=True, materialize_grads=True)
            self._pulled[i] = u, back
        u, back = self._pulled[i]
        if not back.requires_grad:  # the map does not depend on the input
            return torch.zeros_like(g)
        TALLY.derivatives += len(v)
        (product,) = torch.autograd.grad(back, u, v.view_as(back), retain_graph=True, materialize_grads=True)
        return product

    def _differentiable(self, i: int) -> tuple[Tensor, Tensor]:
        leaf, g = self._graph(i)
        if not g.requires_grad:
            raise AttributionError(f"{self._own.name} cannot be differentiated: its maps have no graph")
        return leaf, g


@dataclass(frozen=True)
class Own(Attribution):
    """The maps that `function` makes; `chunk` points go together."""

    function: Function
    name: str = "the attribution"
    chunk: int | None = None

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        size = self.chunk or usual_chunk(x)
        parts = zip(x.split(size), y.split(size), strict=True)
        return torch.cat([self.maps(f, z, classes)[1].detach().flatten(1) for z, classes in parts])

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        J = AutogradJacobian(self, f, x, y)
        return Explained(J.value(), J)

    def map_shape(self, f: Logits, x: Inputs) -> tuple[int, ...]:
        """A map of height and width alone has one channel."""
        shape = tuple(self.maps(f, x[:1], torch.zeros(1, dtype=torch.int64, device=x.device))[1].shape[1:])
        return (1, *shape) if len(shape) == 2 else shape

    def note(self, f: Logits) -> str:
        """What was chosen where nothing was said."""
        told = getattr(self.function, "note", None)
        return told(Model(f)) if told else ""

    def traced(self, f: Logits, x: Inputs, y: Classes) -> tuple[Tensor, Tensor]:
        """The points, and their maps flattened, with a graph wherever the function allows one."""
        with _Retraced():
            leaf, g = self.maps(f, x, y)
        return leaf, g.flatten(1)

    def maps(self, f: Logits, x: Inputs, y: Classes) -> tuple[Tensor, Tensor]:
        """The points as they were given to the function, and what it made of them."""
        TALLY.derivatives += len(x)
        leaf = x.detach().clone().requires_grad_()
        try:
            with torch.enable_grad():
                g = self.function(Model(f), leaf, y)
        except AttrcertError:
            raise
        except (Exception, SystemExit) as error:
            if out_of_memory(error):
                raise
            said = f"{type(error).__name__}: {error}"
            raise AttributionError(
                f"{self.name} failed on inputs of shape {tuple(x.shape)}: {said}", hint=FORM
            ) from error
        return leaf, self._checked(g, x)

    def _checked(self, g: Any, x: Tensor) -> Tensor:
        if not isinstance(g, Tensor):
            raise AttributionError(f"{self.name} must return a tensor, got {type(g).__name__}", hint=FORM)
        if g.ndim < 2 or len(g) != len(x) or not g[0].numel():
            raise AttributionError(
                f"{self.name} must return maps of shape ({len(x)}, ...), one for each input, got {tuple(g.shape)}",
                hint=FORM,
            )
        if not g.is_floating_point():
            raise AttributionError(f"{self.name} must return floating-point numbers, got {g.dtype}", hint=FORM)
        return g.to(x)
