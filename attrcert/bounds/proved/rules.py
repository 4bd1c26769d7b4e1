"""The rules by which a network is read: what torch's functions, methods and modules become.

A new operation is a file in `operations` and a line here.
"""

import operator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attrcert.bounds.proved.building import Building, Ref, Unsupported
from attrcert.bounds.proved.curves import Sigmoid, Silu, Tanh
from attrcert.bounds.proved.operations import (
    activations,
    broadcasting,
    convolution,
    joining,
    linear,
    moving,
    normalising,
    pooling,
    products,
    scaling,
)
from attrcert.bounds.proved.operations.activations import ReadingRule


def _size(building: Building, input: Ref, dim: int | None = None) -> Any:
    size = torch.Size((1, *input.shape))
    return size if dim is None else size[dim]


def _attribute(building: Building, input: Ref, name: str) -> Any:
    known = {"shape": torch.Size((1, *input.shape)), "ndim": len(input.shape) + 1, "device": building.device}
    if name not in known:
        raise Unsupported(f"the attribute {name} of a result", "only shape, ndim and device are known")
    return known[name]


MODULES: dict[type, ReadingRule] = {
    nn.BatchNorm1d: scaling.batch_norm,
    nn.BatchNorm2d: scaling.batch_norm,
    nn.InstanceNorm1d: normalising.instance_norm,
    nn.InstanceNorm2d: normalising.instance_norm,
    nn.Identity: lambda building, module, input: input,
}
FUNCTIONS: dict[Any, ReadingRule] = {
    F.linear: linear.linear,
    torch.conv2d: convolution.convolution,
    F.conv2d: convolution.convolution,
    F.avg_pool2d: pooling.average_pool,
    F.adaptive_avg_pool2d: pooling.adaptive_average_pool,
    torch.mean: pooling.mean,
    F.layer_norm: normalising.layer_norm,
    F.group_norm: normalising.group_norm,
    F.rms_norm: normalising.rms_norm,
    torch.cat: joining.concatenated,
    torch.concat: joining.concatenated,
    torch.concatenate: joining.concatenated,
    torch.stack: joining.stacked,
    torch.flatten: moving.flatten,
    torch.reshape: moving.view,
    torch.squeeze: moving.squeezed,
    torch.unsqueeze: moving.unsqueezed,
    torch.permute: moving.permuted,
    torch.transpose: moving.transposed,
    operator.getitem: moving.item,
    F.pad: moving.padded,
    operator.add: scaling.added,
    operator.iadd: activations.in_place(scaling.added),
    operator.isub: activations.in_place(scaling.subtracted),
    operator.imul: activations.in_place(products.multiplied),
    operator.itruediv: activations.in_place(products.divided),
    torch.add: scaling.added,
    operator.sub: scaling.subtracted,
    torch.sub: scaling.subtracted,
    operator.mul: products.multiplied,
    torch.mul: products.multiplied,
    operator.truediv: products.divided,
    torch.div: products.divided,
    operator.pow: products.power,
    torch.pow: products.power,
    torch.square: products.squared,
    torch.sqrt: products.root,
    torch.rsqrt: products.inverse_root,
    operator.neg: scaling.negated,
    F.softplus: activations.softplus,
    torch.sigmoid: activations.activation(Sigmoid()),
    F.sigmoid: activations.activation(Sigmoid()),
    torch.tanh: activations.activation(Tanh()),
    F.tanh: activations.activation(Tanh()),
    F.gelu: activations.gelu,
    F.silu: activations.activation(Silu()),
    F.elu: activations.elu,
    F.relu: activations.relu,
    torch.relu: activations.relu,
    torch.relu_: activations.relu_,
    F.relu6: activations.relu6,
    F.hardtanh: activations.hardtanh,
    F.leaky_relu: activations.leaky_relu,
    F.prelu: activations.prelu,
    torch.prelu: activations.prelu,
    torch.clamp: activations.clamp,
    torch.clamp_min: activations.clamp,
    F.dropout: activations.dropout,
    F.dropout2d: activations.dropout,
    getattr: _attribute,
}
FOREIGN: dict[str, ReadingRule] = {  # functions of libraries that may not be there
    "torchvision.ops.stochastic_depth.stochastic_depth": activations.stochastic_depth,
}
METHODS: dict[Any, ReadingRule] = {
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
    "mul": products.multiplied,
    "div": products.divided,
    "pow": products.power,
    "square": products.squared,
    "sqrt": products.root,
    "rsqrt": products.inverse_root,
    "expand": broadcasting.expanded,
    "relu": activations.relu,
    "relu_": activations.relu_,
    "clamp": activations.clamp,
    "clamp_min": activations.clamp,
    "sigmoid": activations.activation(Sigmoid()),
    "tanh": activations.activation(Tanh()),
    "contiguous": lambda building, input: moving.reshaped(building, input, Tensor.contiguous),
    "clone": activations.copied,
    "size": _size,
    "dim": lambda building, input: len(input.shape) + 1,
}
