"""A classifier read with torch.fx into the intermediate form; what has no rule is refused by name.

`FUNCTIONS`, `METHODS` and `MODULES` are the rules: a new operation is a file in `operations` and a line here. ReLUs and their kin become
the softplus twins that the classifier runs them as.
"""

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from attrcert.certificates.proved.building import Building, Ref, Unsupported
from attrcert.certificates.proved.curves import Curve, Elu, Gelu, Sigmoid, Silu, Softplus, Tanh
from attrcert.certificates.proved.network import Network
from attrcert.certificates.proved.operations import convolution, linear, moving, pooling, scaling
from attrcert.errors import ModelError
from attrcert.loading.classifier import Classifier

Rule = Callable[..., Any]
SMOOTHER = "the smoothing certificate (--smooth uniform) takes networks as they are"
HINTS = {
    "max_pool": f"its gradient jumps: train with average pooling instead; {SMOOTHER}",
    "relu": f"run ReLUs as softplus (--softplus-beta 20); {SMOOTHER}",
}


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

    def _in_place(self, function: Rule, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", function, (self, other), {})


class Reader(fx.Tracer):
    """Looks into every module but those with rules of their own."""

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return Written(node, self)

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return type(module) in MODULES


def read_network(f: Classifier, shape: tuple[int, ...], device: torch.device) -> Network:
    """The classifier from pixels to logits, with its normalisation and its twins, in float64."""
    building = Building(shape, device, f.beta)
    pixels = building.input
    if f.mean is not None and f.std is not None:
        axes = [1] * (len(shape) - 1)
        mean, std = (torch.tensor(part, dtype=torch.float64, device=device).view(-1, *axes) for part in (f.mean, f.std))
        pixels = scaling.scaled(building, pixels, 1 / std, -mean / std)
    _without_hooks(f.network)
    try:
        graph = Reader().trace(f.network)
    except Exception as error:  # the tracer runs the network's own code, which may raise anything
        raise ModelError(
            f"the proved bound reads the network with torch.fx, which failed: {type(error).__name__}: {error}",
            hint=f"write its forward without control flow on tensors; {SMOOTHER}",
        ) from error
    return building.network(_picked(_interpreted(graph, f.network, building, pixels), f.output))


def _without_hooks(network: nn.Module) -> None:
    """A hook may change what a module computes or how it is differentiated, unseen."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    for name, module in network.named_modules():
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
    rule, name = _rule(node, root), getattr(node.target, "__name__", str(node.target))
    if isinstance(rule, partial) or _touches(args) or _touches(kwargs):
        try:
            return _known(rule, name)(building, *args, **kwargs)
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


def _rule(node: fx.Node, root: nn.Module) -> Rule | None:
    if node.op == "call_module":
        module = root.get_submodule(str(node.target))
        return partial(_with_module, MODULES[type(module)], module)
    return METHODS.get(node.target) if node.op == "call_method" else FUNCTIONS.get(node.target)


def _with_module(rule: Rule, module: nn.Module, building: Building, *args: Any) -> Any:
    return rule(building, module, *args)


def _known(rule: Rule | None, name: str) -> Rule:
    if rule is None:
        raise Unsupported(name, next((text for part, text in HINTS.items() if part in name), SMOOTHER))
    return rule


def _place(node: fx.Node) -> str:
    """Where in the network, as far as the tracer knows."""
    stack = node.meta.get("nn_module_stack") or {}
    names = [str(entry[0]) for entry in stack.values() if entry[0]]
    return f" in {names[-1]}" if names else ""


def _picked(output: Any, wanted: str | None) -> Ref:
    if isinstance(output, dict) and wanted in output:
        output = output[wanted]
    elif isinstance(output, tuple | list) and wanted is not None and wanted.isdecimal():
        output = output[int(wanted)]
    if not isinstance(output, Ref) or len(output.shape) != 1:
        raise ModelError("the proved bound needs logits of shape (batch, classes) as the output", hint="use --output")
    return output


def _activation(curve: Curve) -> Rule:
    return lambda building, input, inplace=False: _written(building, input, building.activate(curve, input), inplace)


def _written(building: Building, input: Ref, result: Ref, inplace: bool) -> Ref:
    """In place, whoever reads the input next reads the result; who else shares its memory is not known."""
    if not inplace:
        return result
    if building.seen_elsewhere(input):
        raise Unsupported("an operation in place on a view", "write it out of place")
    input.step = result.step
    return input


def _relu(building: Building, input: Ref, inplace: bool = False) -> Ref:
    return _written(building, input, _rectified(building, input, 0.0), inplace)


def _relu_(building: Building, input: Ref) -> Ref:
    return _relu(building, input, inplace=True)


def _rectified(building: Building, input: Ref, bias: float) -> Ref:
    """relu(t - bias) as the twin that the classifier runs."""
    if building.beta is None:
        raise Unsupported("relu", HINTS["relu"])
    shifted = scaling.scaled(building, input, shift=-bias) if bias else input
    return building.activate(Softplus(building.beta), shifted)


def _hardtanh(
    building: Building, input: Ref, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Ref:
    low, high = (_rectified(building, input, bias) for bias in (min_val, max_val))
    steps = scaling.scaled(building, building.sum(low, scaling.negated(building, high)), shift=min_val)
    return _written(building, input, steps, inplace)


def _relu6(building: Building, input: Ref, inplace: bool = False) -> Ref:
    return _hardtanh(building, input, 0.0, 6.0, inplace)


def _leaky_relu(building: Building, input: Ref, negative_slope: float = 0.01, inplace: bool = False) -> Ref:
    bent = scaling.scaled(building, _rectified(building, input, 0.0), 1 - negative_slope)
    return _written(building, input, building.sum(scaling.scaled(building, input, negative_slope), bent), inplace)


def _clamp(building: Building, input: Ref, min: Any = None, max: Any = None) -> Ref:
    if min == 0 and max in (None, 6):
        return _relu(building, input) if max is None else _relu6(building, input)
    raise Unsupported(f"clamp({min}, {max})", f"its gradient jumps; {SMOOTHER}")


def _softplus(building: Building, input: Ref, beta: float = 1.0, threshold: float = 20.0) -> Ref:
    if threshold < 20:
        raise Unsupported(f"softplus with threshold {threshold}", "its gradient jumps there: use 20 or more")
    return building.activate(Softplus(float(beta)), input)


def _gelu(building: Building, input: Ref, approximate: str = "none") -> Ref:
    if approximate != "none":
        raise Unsupported(f"GELU approximated by {approximate}", "use the exact one")
    return building.activate(Gelu(), input)


def _elu(building: Building, input: Ref, alpha: float = 1.0, inplace: bool = False) -> Ref:
    if alpha != 1:
        raise Unsupported(f"ELU with alpha {alpha}", "its gradient jumps at 0: use alpha 1")
    return _written(building, input, building.activate(Elu(), input), inplace)


def _copied(building: Building, input: Ref, *args: Any, **options: Any) -> Ref:
    """The same numbers in a memory of their own."""
    return Ref(input.step, input.shape)


def _in_place(rule: Rule) -> Rule:
    """A rule of arithmetic, whose result is written into its first operand."""

    def written(building: Building, input: Any, other: Any) -> Ref:
        result = rule(building, input, other)
        return _written(building, input, result, inplace=isinstance(input, Ref))

    return written


def _dropout(building: Building, input: Ref, p: float = 0.5, training: bool = False, inplace: bool = False) -> Ref:
    if training:
        raise Unsupported("dropout in training mode", "put the network in eval mode")
    return input


def _size(building: Building, input: Ref, dim: int | None = None) -> Any:
    size = torch.Size((1, *input.shape))
    return size if dim is None else size[dim]


def _attribute(building: Building, input: Ref, name: str) -> Any:
    known = {"shape": torch.Size((1, *input.shape)), "ndim": len(input.shape) + 1, "device": building.device}
    if name not in known:
        raise Unsupported(f"the attribute {name} of a result", "only shape, ndim and device are known")
    return known[name]


MODULES: dict[type, Rule] = {
    nn.BatchNorm1d: scaling.batch_norm,
    nn.BatchNorm2d: scaling.batch_norm,
    nn.Identity: lambda building, module, input: input,
}
FUNCTIONS: dict[Any, Rule] = {
    F.linear: linear.linear,
    torch.conv2d: convolution.convolution,
    F.conv2d: convolution.convolution,
    F.avg_pool2d: pooling.average_pool,
    F.adaptive_avg_pool2d: pooling.adaptive_average_pool,
    torch.mean: pooling.mean,
    torch.flatten: moving.flatten,
    torch.reshape: moving.view,
    torch.squeeze: moving.squeezed,
    torch.unsqueeze: moving.unsqueezed,
    torch.permute: moving.permuted,
    torch.transpose: moving.transposed,
    operator.getitem: moving.item,
    F.pad: moving.padded,
    operator.add: scaling.added,
    operator.iadd: _in_place(scaling.added),
    operator.isub: _in_place(scaling.subtracted),
    operator.imul: _in_place(scaling.multiplied),
    operator.itruediv: _in_place(scaling.divided),
    torch.add: scaling.added,
    operator.sub: scaling.subtracted,
    torch.sub: scaling.subtracted,
    operator.mul: scaling.multiplied,
    torch.mul: scaling.multiplied,
    operator.truediv: scaling.divided,
    torch.div: scaling.divided,
    operator.neg: scaling.negated,
    F.softplus: _softplus,
    torch.sigmoid: _activation(Sigmoid()),
    F.sigmoid: _activation(Sigmoid()),
    torch.tanh: _activation(Tanh()),
    F.tanh: _activation(Tanh()),
    F.gelu: _gelu,
    F.silu: _activation(Silu()),
    F.elu: _elu,
    F.relu: _relu,
    torch.relu: _relu,
    torch.relu_: _relu_,
    F.relu6: _relu6,
    F.hardtanh: _hardtanh,
    F.leaky_relu: _leaky_relu,
    torch.clamp: _clamp,
    F.dropout: _dropout,
    F.dropout2d: _dropout,
    getattr: _attribute,
}
METHODS: dict[Any, Rule] = {
    "flatten": moving.flatten,
    "view": moving.view,
    "reshape": moving.view,
    "squeeze": moving.squeezed,
    "unsqueeze": moving.unsqueezed,
    "permute": moving.permuted,
    "transpose": moving.transposed,
    "mean": pooling.mean,
    "add": scaling.added,
    "sub": scaling.subtracted,
    "mul": scaling.multiplied,
    "div": scaling.divided,
    "relu": _relu,
    "relu_": _relu_,
    "clamp": _clamp,
    "sigmoid": _activation(Sigmoid()),
    "tanh": _activation(Tanh()),
    "contiguous": lambda building, input: moving.reshaped(building, input, Tensor.contiguous),
    "clone": _copied,
    "size": _size,
    "dim": lambda building, input: len(input.shape) + 1,
}
