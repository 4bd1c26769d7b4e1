"""A user's own map (model, inputs, classes) -> attributions.

Gradients that the function takes inside are taken with a graph where the Jacobian needs it, whether it asks for one or not.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attrcert.attributions.differentiated import Differentiated
from attrcert.attributions.gradient import TALLY
from attrcert.errors import AttrcertError, AttributionError, out_of_memory
from attrcert.types import Classes, Inputs, Logits

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


@dataclass(frozen=True)
class Own(Differentiated):
    """The maps that `function` makes; `chunk` points go together."""

    function: Function
    name: str = "the attribution"
    chunk: int | None = None
    held: int | None = None

    def map_shape(self, f: Logits, x: Inputs) -> tuple[int, ...]:
        """A map of height and width alone has one channel."""
        y = torch.zeros(1, dtype=torch.int64, device=x.device)
        shape = tuple(self.maps(f, x[:1], y, twice=False)[1].shape[1:])
        return (1, *shape) if len(shape) == 2 else shape

    def note(self, f: Logits) -> str:
        told = getattr(self.function, "note", None)
        return told(Model(f)) if told else ""

    def maps(self, f: Logits, x: Inputs, y: Classes, *, twice: bool) -> tuple[Tensor, Tensor]:
        """The points as they were given to the function, and what it made of them."""
        TALLY.derivatives += len(x)
        leaf = x.detach().clone().requires_grad_()
        try:
            with torch.enable_grad(), _Retraced() if twice else nullcontext():
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
