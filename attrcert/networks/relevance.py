"""A network whose relevance is passed back by LRP's rules, layer by layer [bach2015pixelwise, montavon2017explaining].

`shares` has the rules of layers. Batch norm is one layer with the convolution or linear layer before it; where there is none it is a layer
of its own. Average pooling, means and sums of results are layers whose weights are 1. Activations and factors pass on what they get; what
moves entries, or picks their largest, passes it to where they came from. The rule of the input is for the first layers behind the pixels,
normalised by whatever is done to each pixel alone, also in the network; averages of pixels and pixels side by side are pixels yet.

`RULES` are by the names of torch's functions; what has none is refused. Departures from zennit: it shares sums out by their signed terms,
which is not bounded where these cancel, and passes on what a batch norm gets that no layer comes before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from attrcert.networks import frozen
from attrcert.networks.ruled import ACTIVATIONS, RuledTwins, Unruled, tensors
from attrcert.networks.shares import Affine, Interval, LayerRule, Sum
from attrcert.networks.twins import applied
from attrcert.types import Box


@dataclass(frozen=True)
class Known:
    """Of a result: whether it can be negative, the box of what is pixels yet, and the layer that made it, of what in which version: batch
    norm is one with it.
    """

    signed: bool = True
    box: Interval | None = None
    made: tuple[LayerRule, Tensor, int] | None = None


@dataclass(frozen=True)
class Call:
    """Of a torch function."""

    func: Callable[..., Any]
    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def of(self, *operands: Any) -> Any:
        """The same of other operands."""
        return applied(self.func, *operands, *self.args[len(operands) :], **self.kwargs)

    def argument(self, place: int, *names: str) -> Any:
        """By its place or one of its names."""
        if len(self.args) > place:
            return self.args[place]
        return next((self.kwargs[name] for name in names if name in self.kwargs), None)


class Relevance(RuledTwins):
    """For inputs that begin with a leaf within a box; `rule` is zb, z-plus or w-square, at the input."""

    def __init__(self, beta: float | None, rule: str, stabiliser: float, leaf: Tensor, within: Box) -> None:
        super().__init__(beta)
        self.rule, self.stabiliser = rule, stabiliser
        self._known: dict[int, tuple[Tensor, int, Known]] = {}  # by what tensors are, while they have this version
        low, high = (end.to(leaf).expand(leaf.shape).clone() for end in (within.low, within.high))
        self._note(leaf, Known(box=(low, high)))

    def called(self, func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if not any(self.known(one) for one in tensors((args, kwargs))):
            return self.plain(func, args, kwargs)
        if name in RULES and args:
            return RULES[name](self, Call(func, name, args, kwargs))
        result = self.plain(func, args, kwargs)
        if result is None or any(True for _ in tensors(result)):
            raise Unruled(name)
        return result

    def finish(self, logits: Tensor) -> None:
        self.known(logits)  # or something else made them
        self._known.clear()  # tensors keep their rules, which keep what they hold

    def known(self, one: Any) -> Known | None:
        """What is known of it; None where it does not come from the pixels."""
        if id(one) not in self._known:
            if isinstance(one, Tensor) and one.requires_grad and not one.is_leaf:
                raise Unruled("an operation that is none of torch's")
            return None
        tensor, version, known = self._known[id(one)]
        if tensor._version != version:
            raise Unruled("writing into a view")
        return known

    def only(self, call: Call) -> Known:
        """Of the first operand, where no other comes from the pixels."""
        first, *others = (self.known(one) for one in tensors((call.args, call.kwargs)))
        if first is None or any(others):
            raise Unruled(
                f"{call.name} of two results" if first else f"{call.name} with a result as its second operand"
            )
        return first

    def rule_of(
        self, known: Known, apply: Affine, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> LayerRule:
        """z+, or the rule of the input, of a layer of what this is known of."""
        layer = LayerRule(apply, self.stabiliser, weight, bias, known.signed, self.beta)
        if known.box is None:
            return layer
        exact = bool((known.box[0] >= 0).all())  # what can be 0 at the least is its own positive part
        layer = replace(layer, beta=None if exact else self.beta, squared=self.rule == "w-square")
        return replace(layer, box=known.box) if self.rule == "zb" else layer

    def layer(self, call: Call, layer: LayerRule, of: Tensor | None = None, known: Known | None = None) -> Tensor:
        """The result of a layer of the first operand, or of an earlier one."""
        result, a, into = self.with_operand(call.func, call.args, call.kwargs)
        rule = partial(layer.share, z=result)  # not as an input, whose values must stay as they are
        return self._note(self.ruled(result, rule, a if of is None else of), known or Known(), into)

    def passed(self, call: Call, known: Known) -> Tensor:
        """The result of what passes on what it gets."""
        result, a, into = self.with_operand(call.func, call.args, call.kwargs)
        return self._note(self.ruled(result, _pass_on, a), known, into)

    def summed(self, call: Call, signed: tuple[bool, bool]) -> Tensor:
        """Of two results."""
        result, a, into = self.with_operand(call.func, call.args, call.kwargs)
        if result.shape != a.shape or result.shape != call.args[1].shape:
            raise Unruled("a sum of results of different shapes")
        return self._note(
            self.ruled(result, Sum(signed, self.stabiliser, self.beta).share, a, call.args[1]), Known(any(signed)), into
        )

    def as_it_is(self, call: Call, known: Known) -> Any:
        """What passes relevance back by its gradient: one result, or several."""
        result = self.plain(call.func, call.args, call.kwargs)
        for part in () if result is call.args[0] else tensors(result):
            self._note(part, known)
        return result

    def _note(self, result: Tensor, known: Known, into: Tensor | None = None) -> Tensor:
        result = result if into is None else into.copy_(result)
        if not result.requires_grad:
            raise Unruled("an operation without a gradient")
        self._known[id(result)] = result, result._version, known
        return result


def _pass_on(R: Tensor, a: Tensor) -> tuple[None, Tensor]:
    return None, R


def _activation(run: Relevance, call: Call) -> Tensor:
    run.only(call)
    return run.passed(call, Known(signed=not _never_negative(call)))


def _never_negative(call: Call) -> bool:
    if call.name in ("relu", "relu6", "softplus", "sigmoid", "hardsigmoid"):
        return True
    least = call.argument(1, "min", "min_val", "other")
    return call.name in ("clamp", "clamp_min", "hardtanh", "maximum") and _positive(least)


def _positive(number: Any) -> bool:
    return number is not None and bool((torch.as_tensor(number) >= 0).all())


def _weighted(run: Relevance, call: Call) -> Tensor:
    """A convolution or a linear layer."""
    known, a = run.only(call), call.args[0]
    options = {key: value for key, value in call.kwargs.items() if key not in ("weight", "bias")}
    rest = replace(call, args=(None, None, None, *call.args[3:]), kwargs=options)
    layer = run.rule_of(known, rest.of, call.argument(1, "weight"), call.argument(2, "bias"))
    by_channel = call.name != "linear" or a.ndim == 2
    return run.layer(call, layer, known=Known(made=(layer, a, a._version) if by_channel else None))


def _batch_norm(run: Relevance, call: Call) -> Tensor:
    known, a = run.only(call), call.args[0]
    names = ("mean", "var", "weight", "bias")
    order = (3, 4, 1, 2) if isinstance(call.func, OpOverload) else (1, 2, 3, 4)
    mean, var, weight, bias = (
        call.argument(place, name, f"running_{name}") for place, name in zip(order, names, strict=True)
    )
    if call.argument(5, "training") or mean is None or var is None:
        raise Unruled("batch norm with the statistics of the batch")
    eps = call.argument(7, "eps")
    scale, shift = frozen.scale_and_shift(mean, var, weight, bias, 1e-5 if eps is None else eps)
    if known.made is not None and known.made[1]._version == known.made[2]:
        layer, before, _ = known.made
        assert layer.weight is not None
        W = layer.weight * scale.view(-1, *[1] * (layer.weight.ndim - 1))
        merged = replace(layer, weight=W, bias=shift if layer.bias is None else shift + layer.bias * scale)
        return run.layer(call, merged, before)
    if known.box is not None:
        return run.passed(call, Known(box=_between(call, known.box)))
    axes = (-1, *[1] * (a.ndim - 2))
    return run.layer(call, run.rule_of(known, _entrywise, scale.view(axes), shift.view(axes)))


def _entrywise(part: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = part if weight is None else part * weight
    return scaled if bias is None else scaled + bias


def _averaged(run: Relevance, call: Call) -> Tensor:
    """Pooling, means and sums over entries; of pixels they are pixels yet."""
    known = run.only(call)
    rest = replace(call, args=(None, *call.args[1:]))  # a rule must not hold tensors that may be written over
    layer = run.rule_of(known, lambda part, weight, bias: rest.of(part))
    box = None if known.box is None else (call.of(known.box[0]), call.of(known.box[1]))
    return run.layer(call, layer, known=Known(known.signed, box))


def _picked(run: Relevance, call: Call) -> Any:
    return run.as_it_is(call, Known(run.only(call).signed))


def _moved(run: Relevance, call: Call) -> Any:
    known = run.only(call)
    box = None if known.box is None else (call.of(known.box[0]), call.of(known.box[1]))
    signed = known.signed or (call.name == "pad" and not _positive(call.argument(3, "value") or 0))
    return run.as_it_is(call, Known(signed, box))


def _joined(run: Relevance, call: Call) -> Any:
    """What does not come from the pixels may be zeros, and counts as signed."""
    parts = [run.known(one) for one in call.args[0]]
    boxes = [part.box for part in parts if part is not None and part.box is not None]
    box = (
        (call.of([low for low, _ in boxes]), call.of([high for _, high in boxes])) if len(boxes) == len(parts) else None
    )
    return run.as_it_is(call, Known(any(part is None or part.signed for part in parts), box))


def _scaled(run: Relevance, call: Call) -> Tensor:
    """Times or over a constant."""
    if run.known(call.args[0]) is None:  # a constant times a result
        call = replace(call, args=(call.args[1], call.args[0])) if call.name == "mul" else call
    known = run.only(call)
    factor = -1 if call.name == "neg" else call.argument(1, "other")
    box = None if known.box is None else _between(call, known.box)
    return run.passed(call, Known(known.signed or not _positive(factor), box))


def _added(run: Relevance, call: Call) -> Tensor:
    """Two results, or a result and a constant."""
    first, second = (run.known(one) for one in (call.args[0], call.argument(1, "other")))
    if call.argument(2, "alpha") not in (None, 1):
        raise Unruled(f"{call.name} with alpha")
    if first and second and call.name == "add":
        return run.summed(call, (first.signed, second.signed))
    if first is None and call.name == "add":
        call = replace(call, args=(call.args[1], call.args[0]))
    known = run.only(call)
    if known.box is not None:
        return run.passed(call, Known(box=_between(call, known.box)))
    constant = torch.as_tensor(call.argument(1, "other")).to(call.args[0])
    sign = constant.new_tensor(-1.0 if call.name == "rsub" else 1.0)
    layer = run.rule_of(known, _entrywise, sign, -constant if call.name == "sub" else constant)
    return run.layer(call, layer, known=Known(known.signed or call.name != "add" or not _positive(constant)))


def _between(call: Call, box: Interval) -> Interval:
    """The box behind something that is done to every pixel alone."""
    ends = [call.of(end.clone()) for end in box]
    return torch.minimum(*ends), torch.maximum(*ends)


RULES: dict[str, Callable[[Relevance, Call], Any]] = {
    name: rule
    for rule, names in (
        (_activation, ACTIVATIONS),
        (_weighted, ("linear", "conv1d", "conv2d", "conv3d")),
        (_batch_norm, ("batch_norm",)),
        (_averaged, ("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "mean", "sum")),
        (_picked, (
            "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "chunk", "split", "unbind",
        )),
        (_moved, (
            "view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose", "movedim", "contiguous", "clone",
            "getitem", "slice", "select", "narrow", "pad", "dropout", "dropout2d", "dropout3d", "feature_dropout", "to", "float", "double",
            "type_as",
        )),
        (_joined, ("cat", "stack")),
        (_scaled, ("mul", "div", "neg")),
        (_added, ("add", "sub", "rsub")),
    )
    for name in names
}  # fmt: skip
