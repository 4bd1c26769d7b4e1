"""A classifier read with torch.fx into the intermediate form; what has no rule is refused by name.

The rules are in `rules`. ReLUs and their kin become the softplus twins that the classifier runs them as.
"""

import inspect
import operator
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from attrcert.bounds.proved.building import SMOOTHER, Building, Ref, Unsupported
from attrcert.bounds.proved.network import Network
from attrcert.bounds.proved.operations import activations, scaling
from attrcert.bounds.proved.operations.activations import ReadingRule
from attrcert.bounds.proved.rules import FOREIGN, FUNCTIONS, METHODS, MODULES
from attrcert.errors import ModelError
from attrcert.networks.classifier import Classifier
from attrcert.networks.outputs import entry

HINTS = {
    "max_pool2d": f"its gradient jumps: train with average pooling instead; {SMOOTHER}",
    "relu": activations.AS_SOFTPLUS,
    "detach": f"the gradient stops there, and so would the bound; {SMOOTHER}",
}
MODE = "mode"  # in a node's meta: what its operation ran under, where that changes its gradient or its digits


class Written(fx.Proxy):
    """A traced result that remembers what is written into it: torch.fx takes x += y for x = x + y."""

    def __iadd__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.iadd, other)

    def __isub__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.isub, other)

    def __imul__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.imul, other)

    def __itruediv__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.itruediv, other)

    def _in_place(self, function: ReadingRule, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})


class Reader(fx.Tracer):
    """Looks into every module but those with rules of their own."""

    last: fx.Node | None = None  # where it was when something failed

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return Written(node, self)

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return type(module) in MODULES

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """The graph itself does not say under which mode of torch an operation stood."""
        node = self.last = super().create_node(*args, **kwargs)
        if not torch.is_grad_enabled():
            node.meta[MODE] = "torch.no_grad()"
        elif torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            node.meta[MODE] = "torch.autocast"
        return node


def read_network(f: Classifier, shape: tuple[int, ...], device: torch.device) -> Network:
    """The classifier from pixels to logits, with its normalisation and its twins, in float64.

    Its network must be in float64 already: what touches no input is computed as it stands.
    """
    building = Building(shape, device, f.beta)
    pixels = building.input
    if f.mean is not None and f.std is not None:
        axes = [1] * (len(shape) - 1)
        mean, std = (torch.tensor(part, dtype=torch.float64, device=device).view(-1, *axes) for part in (f.mean, f.std))
        pixels = scaling.scaled(building, pixels, 1 / std, -mean / std)
    _without_hooks(f.network)
    reader = Reader()
    try:
        with torch.enable_grad():
            graph = reader.trace(f.network)
    except Exception as error:  # the tracer runs the network's own code, which may raise anything
        raise ModelError(
            f"the proved bound cannot read the forward of {_reached(reader, f.network)}: "
            "it needs affine layers, norms and smooth activations",
            hint=f"in a plain forward, without loops or conditions on tensors; {SMOOTHER}",
        ) from error
    return building.network(_picked(_interpreted(graph, f.network, building, pixels), f.output))


def _without_hooks(network: nn.Module) -> None:
    """A hook may change what a module computes or how it is differentiated, unseen."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    everywhere = (
        value for name, value in vars(nn.modules.module).items() if name.startswith("_global_") and "hooks" in name
    )
    if any(isinstance(hooks, dict) and hooks for hooks in everywhere):
        raise ModelError(
            "the proved bound does not follow hooks, and torch has one for all modules", hint="remove it first"
        )
    for name, module in network.named_modules():
        if "forward" in vars(module):
            raise ModelError(
                f"the proved bound reads {name or 'the network'} by its class, and it has a forward of its own",
                hint="give it a class of its own",
            )
        if any(getattr(module, kind, None) for kind in kinds):
            raise ModelError(
                f"the proved bound does not follow hooks, and {name or 'the network'} has one", hint="remove it first"
            )


def _interpreted(graph: fx.Graph, root: nn.Module, building: Building, pixels: Ref) -> Any:
    """The graph's output, computed on references; what touches none is computed as it stands."""
    known: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        args, kwargs = (fx.node.map_arg(part, lambda n: known[n]) for part in (node.args, node.kwargs))
        if node.op == "placeholder":
            known[node] = pixels if not known else node.args[0] if node.args else None
        elif node.op == "get_attr":
            known[node] = operator.attrgetter(node.target)(root)
        elif node.op == "output":
            return args[0]
        else:
            known[node] = _called(node, root, building, args, kwargs)
    raise AssertionError("a graph without an output")


def _called(node: fx.Node, root: nn.Module, building: Building, args: Any, kwargs: Any) -> Any:
    """A call by its rule; one that touches no reference is made as it stands."""
    rule, name = _rule(node, root), _name(node)
    if node.op == "call_module" or _touches(args) or _touches(kwargs):
        try:
            result = _known(rule, name, building, args, kwargs)(building, *args, **kwargs)
            if MODE in node.meta and _touches(result):
                raise Unsupported(f"{name} under {node.meta[MODE]}", f"its gradient is not that of {name}; {SMOOTHER}")
            return result
        except Unsupported as missing:
            raise ModelError(
                f"the proved bound has no rule for {missing.what}{_place(node)}", hint=missing.hint
            ) from missing
    made: Any = getattr(args[0], name) if node.op == "call_method" else node.target
    return made(*args[1:], **kwargs) if node.op == "call_method" else made(*args, **kwargs)


def _touches(part: Any) -> bool:
    """Whether a reference is in it, however deep."""
    if isinstance(part, dict):
        part = part.values()
    return isinstance(part, Ref) or (
        isinstance(part, Iterable) and not isinstance(part, str | Tensor) and any(map(_touches, part))
    )


def _rule(node: fx.Node, root: nn.Module) -> ReadingRule | None:
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        return partial(_with_module, MODULES[type(module)], module)
    if node.op == "call_method":
        return METHODS.get(node.target)
    return FUNCTIONS.get(node.target) or FOREIGN.get(f"{getattr(node.target, '__module__', None)}.{_name(node)}")


def _with_module(rule: ReadingRule, module: nn.Module, building: Building, *args: Any, **kwargs: Any) -> Any:
    return rule(building, module, *args, **kwargs)


def _known(rule: ReadingRule | None, name: str, building: Building, args: Any, kwargs: Any) -> ReadingRule:
    """The rule, if there is one for these arguments."""
    if rule is None:
        raise Unsupported(name, HINTS.get(name, SMOOTHER))
    try:
        inspect.signature(rule).bind(building, *args, **kwargs)
    except TypeError as error:
        raise Unsupported(f"{name}, called so ({error})", "spell it with positional arguments") from error
    return rule


def _reached(reader: Reader, network: nn.Module) -> str:
    """The module whose forward was being read, if it is known."""
    name = next(reversed(reader.module_stack), "")
    after = f", after {_name(reader.last)}" if reader.last and reader.last.op != "placeholder" else ""
    return f"{name or 'the network'} ({type(network.get_submodule(name)).__name__}){after}"


def _name(node: fx.Node) -> str:
    return getattr(node.target, "__name__", str(node.target))


def _place(node: fx.Node) -> str:
    """Where in the network, as far as the tracer knows."""
    stack = node.meta.get("nn_module_stack") or {}
    names = [str(entry[0]) for entry in stack.values() if entry[0]]
    return f" in {names[-1] if names else 'the model'}"


def _picked(output: Any, wanted: str | None) -> Ref:
    if not isinstance(output, Ref):
        output = entry(output, wanted, lambda part: isinstance(part, Ref) and len(part.shape) == 1)
    if not isinstance(output, Ref) or len(output.shape) != 1:
        raise ModelError("the proved bound needs logits of shape (batch, classes) as the output", hint="use --output")
    return output
