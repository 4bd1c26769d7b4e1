"""What float64 leaves open of a network at its points: bounds of the errors of z, s'(z) and F, and of the products of Jacobians.

A sum of k products computed in floating point is off by at most k u times the sum of their moduli [higham2002accuracy], in whatever
order. Carried through the steps with the moduli of their weights this bounds the error of every z; s' then is off by at most the largest
|s''| nearby times that, and F by the same sums on the way back. Where weights cancel, the moduli do not: that is where digits are lost.

Products of Jacobians are not carried one by one. Row i of dz/dx, with any slopes of the activations, is a sum over paths from the input;
all roundings on the way are at most `unit` times the sum of the paths' moduli (`paths`).

Rounding in the curves themselves is taken as a few u of their values.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.bounds.proved.curves import blurred, largest_bend, steepest
from attrcert.bounds.proved.network import Network

EPS = torch.finfo(torch.float64).eps  # 2 u
FEW = 8  # roundings of a step beyond its sum: bias, scale, the curve
TWICE = 4  # both factors of a product of Jacobians, and the product


@dataclass(frozen=True)
class Doubt:
    """By the number of the activation: |z - computed|, |s'(z) - computed|, |F - computed|; `gradient` is that of the whole gradient.

    `paths` has the sums of moduli of the paths to each activation over a ball, `near` those from the activations before it (`paths`), as
    far as they are known. `unit` is what all roundings of a path together may take, as a share of its modulus; `share` how much of the
    width of a curve's bends the error of z is, at most: what the second derivative's relative error is about.
    """

    z: dict[int, Float[Tensor, "b n"]]
    slope: dict[int, Float[Tensor, "b n"]]
    F: dict[int, Float[Tensor, "b n"]]
    gradient: Float[Tensor, "b d"]
    paths: dict[int, Float[Tensor, "c m"]]
    near: dict[int, Float[Tensor, "b m"]]
    unit: float
    share: Float[Tensor, " b"]


def doubts(
    network: Network,
    values: list[Tensor],
    slope: dict[int, Float[Tensor, "b n"]],
    one: Float[Tensor, "b k"],
) -> Doubt:
    """From the computed values of all steps, and the unit vectors of the explained logits."""
    error = _forward(network, values)
    z = {i: error[network.before(i)].flatten(1) for i in network.curves}
    known = {i: values[network.before(i)].flatten(1) for i in network.curves}
    off = {i: largest_bend(network.curve(i), known[i], z[i]) * z[i] + FEW * EPS * slope[i].abs() for i in z}
    unit = TWICE * EPS * sum(step.terms + FEW for step in network.steps)
    share = torch.zeros_like(values[0].flatten(1)[:, 0])
    for i in z:
        share = torch.maximum(share, blurred(network.curve(i), known[i], z[i]).amax(dim=1))
    F, gradient = _backward(network, slope, off, one)
    return Doubt(z, off, F, gradient, {}, {}, unit, share)


def _forward(network: Network, values: list[Tensor]) -> list[Tensor]:
    """The error of the values of every step."""
    error = [EPS * (1 + values[0].abs())]  # a point between a baseline in [0, 1] and an image has been rounded
    for step, value in zip(network.steps[1:], values[1:], strict=True):
        errors = [error[i] for i in step.inputs]
        if step.curve is not None:
            z = values[step.inputs[0]]
            argument = errors[0] + FEW * EPS * z.abs()
            error.append(steepest(step.curve, z, argument) * argument + FEW * EPS * value.abs())
        elif step.operation is not None:
            magnitude, given = step.magnitude, values[step.inputs[0]].abs()
            rounded = (step.terms + FEW) * EPS
            error.append(magnitude.apply(errors[0]) + rounded * (magnitude.apply(given) + value.abs()) + step.lost)
        else:
            error.append(sum(errors[1:], errors[0]) + FEW * EPS * value.abs())
    return error


def _summed(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Two values with their errors, where a step has several successors."""
    return first[0] + second[0], first[1] + second[1] + EPS * (first[0].abs() + second[0].abs())


def _backward(
    network: Network, slope: dict[int, Tensor], off: dict[int, Tensor], one: Float[Tensor, "b k"]
) -> tuple[dict[int, Float[Tensor, "b n"]], Float[Tensor, "b d"]]:
    """The error of F at every activation, and that of the gradient."""
    last = len(network.steps) - 1
    waiting = {last: (one, torch.zeros_like(one))}
    found = {i: torch.zeros_like(part) for i, part in slope.items()}
    for i in range(last, 0, -1):
        if i not in waiting:
            continue
        step, (value, error) = network.steps[i], waiting.pop(i)
        if step.curve is not None:
            found[i] = error
            s, ds = slope[i], off[i]
            value, error = s * value, (s.abs() + ds) * error + (ds + FEW * EPS * s.abs()) * value.abs()
        elif step.operation is not None:
            rounded = error + (step.terms + FEW) * EPS * value.abs()
            shape = network.steps[step.inputs[0]].shape
            value, error = (
                part(given.reshape(-1, *step.shape), shape).flatten(1)
                for part, given in ((step.operation.adjoint, value), (step.magnitude.adjoint, rounded))
            )
        for j in step.inputs:
            before = waiting.get(j)
            waiting[j] = (value, error) if before is None else _summed(before, (value, error))
    return found, waiting[0][1] if 0 in waiting else one.new_zeros(len(one), network.inputs)
