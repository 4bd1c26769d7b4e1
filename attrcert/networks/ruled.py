"""A network whose gradient is passed back by rules of its own, and whose derivatives stay the true ones.

Guided backpropagation and LRP are backward passes in which some functions pass back something else than their gradient. A map that is
made so has a Jacobian, for which what the rules use (activations, gates) must be differentiated truly: so the rules hold in the one pass
that makes the map, and in no pass through the graph that it leaves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attrcert.networks.tracing import function_name
from attrcert.networks.twins import Twins

# (what the result gets, the inputs) -> what the result's own graph gets, and what each of these inputs gets
Rule = Callable[..., tuple[Tensor | None, ...]]
ACTIVATIONS = frozenset(
    (
        "relu", "relu6", "hardtanh", "leaky_relu", "prelu", "rrelu", "elu", "celu", "selu", "gelu", "silu", "mish", "softplus", "sigmoid",
        "tanh", "hardswish", "hardsigmoid", "softsign", "logsigmoid", "clamp", "clamp_min", "clamp_max", "threshold", "maximum",
    )
)  # fmt: skip
# further names of the same functions
SAME = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "truediv": "div", "negative": "neg", "clip": "clamp",
    "concat": "cat", "concatenate": "cat", "fmax": "maximum",
}  # fmt: skip


class Unruled(Exception):  # noqa: N818 - not an error of ours: who runs the network names the place
    """A function that there is no rule for."""


@dataclass
class Once:
    """The pass in which the rules hold."""

    open: bool = True


class _Ruled(torch.autograd.Function):
    """The result as it is; what becomes of its gradient is said by the rule while the pass is open."""

    @staticmethod
    def forward(ctx: Any, result: Tensor, once: Once, rule: Rule, *inputs: Tensor) -> Tensor:
        ctx.once, ctx.rule = once, rule
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (R,) = gradients
        if R is None or not ctx.once.open:
            return R, None, None, *[None] * len(ctx.saved_tensors)
        own, *shares = ctx.rule(R, *ctx.saved_tensors)
        return own, None, None, *shares


class RuledTwins(Twins):
    """Twins some of whose functions have rules, for one forward pass and the backward pass that makes the map, which ends `once`."""

    def __init__(self, beta: float | None) -> None:
        super().__init__(beta)
        self.once = Once()
        self.calls = 0  # of torch's functions, so that one that has no rule is found again

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        first, rest = _by_place(args, kwargs or {})
        return self.called(func, _name(func, first), first, rest)

    def called(self, func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a function gives, with its rule; it has one name, also where it writes or is an operator."""
        raise NotImplementedError

    def plain(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What it gives without one."""
        return super().__torch_function__(func, (), args, kwargs)

    def ruled(self, result: Tensor, rule: Rule, *inputs: Tensor) -> Tensor:
        """The rule must not hold what holds the result."""
        made: Tensor = _Ruled.apply(result, self.once, rule, *inputs)  # type: ignore[no-untyped-call]
        return made

    def with_operand(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Tensor, Tensor | None]:
        """What a function gives, its first operand as it was before, and that operand again where it is to be written over."""
        first = args[0]
        if not (_writes(func) or kwargs.get("inplace") or any(one is True for one in args[1:])):
            return self.plain(func, args, kwargs), first, None
        copy = first.clone()
        result = self.plain(func, (copy, *args[1:]), kwargs)
        return (result, first.clone(), first) if result is copy else (result, first, None)

    def finish(self, logits: Tensor) -> None:
        """The forward pass is over."""


def tensors(part: Any) -> Iterator[Tensor]:
    """All of a call's arguments, however deep."""
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, Mapping | list | tuple):
        yield from (one for value in (part.values() if isinstance(part, Mapping) else part) for one in tensors(value))


def _by_place(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """A call's arguments, the first by its place also where it was given by its name."""
    if args or "input" not in kwargs:
        return args, kwargs
    return (kwargs["input"],), {name: given for name, given in kwargs.items() if name != "input"}


def _name(func: Callable[..., Any], args: Sequence[Any]) -> str:
    """One for all that do the same."""
    name = function_name(func).strip("_")
    of_two = name == "max" and len(args) > 1 and isinstance(args[1], Tensor)  # else the largest entry
    return "maximum" if of_two else SAME.get(name, name)


def _writes(func: Callable[..., Any]) -> bool:
    name = function_name(func)
    return name.endswith("_") and not name.endswith("__")
