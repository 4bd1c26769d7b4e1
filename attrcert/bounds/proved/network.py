"""The intermediate form: a network as steps, each an affine operation, an activation, or a sum of earlier steps.

What the bounds need of it is one reverse sweep, `pull`: vectors on the results of a step are carried back through the transposed
operations to the input, and at each activation the caller says what becomes of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from jaxtyping import Float
from torch import Tensor

from attrcert.attributions.gradient import TALLY
from attrcert.bounds.proved.affine import Operation, Shape
from attrcert.bounds.proved.curves import Curve


@dataclass(frozen=True)
class Carried:
    """k vectors of each sample, and a box around all of them: entry i of a vector is off by at most radius_i.

    c is 1 where all samples have the same vectors.
    """

    centre: Float[Tensor, "c k n"]
    radius: Float[Tensor, "b n"] | None = None

    def __add__(self, other: "Carried") -> "Carried":
        both = [radius for radius in (self.radius, other.radius) if radius is not None]
        return Carried(self.centre + other.centre, sum(both[1:], both[0]) if both else None)


AtActivation = Callable[
    [int, Carried | None], Carried | None
]  # at an activation: what its input gets from its result's vectors
Forwards = Callable[[int, Tensor], Tensor | None]


@dataclass(frozen=True)
class Step:
    """`inputs` are numbers of earlier steps; with neither operation nor curve it is the input, or the sum of its inputs."""

    inputs: tuple[int, ...]
    shape: Shape
    operation: Operation | None = None
    curve: Curve | None = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def moves(self) -> bool:
        return self.operation is not None and self.operation.moves

    @property
    def terms(self) -> int:
        """How many entries of its input a result sums at most, and results an entry goes into."""
        return 0 if self.operation is None else self.operation.terms

    @property
    def lost(self) -> Tensor | float:
        return 0.0 if self.operation is None else self.operation.lost

    def value(self, given: list[Tensor]) -> Tensor:
        """The result, from those of `inputs`."""
        if self.curve is not None:
            return self.curve.value(given[0])
        return sum(given[1:], given[0]) if self.operation is None else self.operation.apply(given[0])

    @cached_property
    def linear(self) -> Operation:
        """The operation without its bias."""
        assert self.operation is not None
        return self.operation.linear()

    @cached_property
    def magnitude(self) -> Operation:
        """The operation with the moduli of its weights."""
        assert self.operation is not None
        return self.operation.absolute()


@dataclass(frozen=True)
class Network:
    """Steps in an order in which they can be computed; the first is the input, the last gives the logits."""

    steps: tuple[Step, ...]

    @property
    def curves(self) -> tuple[int, ...]:
        """The numbers of the activations."""
        return tuple(i for i, step in enumerate(self.steps) if step.curve is not None)

    @property
    def inputs(self) -> int:
        return self.steps[0].size

    def curve(self, activation: int) -> Curve:
        found = self.steps[activation].curve
        assert found is not None
        return found

    def before(self, activation: int) -> int:
        """The step that an activation is applied to."""
        return self.steps[activation].inputs[0]

    @cached_property
    def magnitude(self) -> "Network":
        """The network with the moduli of its weights."""
        steps = (step if step.operation is None else replace(step, operation=step.magnitude) for step in self.steps)
        return Network(tuple(steps))

    def values(self, x: Float[Tensor, "b *shape"]) -> list[Tensor]:
        """The result of every step."""
        found = [x]
        for step in self.steps[1:]:
            found.append(step.value([found[i] for i in step.inputs]))
        return found

    def pull(self, start: int, given: Carried | None, bend: AtActivation) -> Carried | None:
        """Vectors on the result of step `start`, carried back to the input; None stands for zeros.

        `bend` is asked at every activation before `start`, the last one first.
        """
        TALLY.derivatives += 1 if given is None else given.centre.shape[0] * given.centre.shape[1]
        waiting = {start: given}
        for i in range(start, 0, -1):
            step, carried = self.steps[i], waiting.pop(i, None)
            if step.curve is not None:
                carried = bend(i, carried)
            elif step.operation is not None and carried is not None:
                carried = self._transposed(step, carried)
            if carried is None:
                continue
            for j in step.inputs:
                there = waiting.get(j)
                waiting[j] = carried if there is None else there + carried
        return waiting.get(0)

    def push(self, given: Float[Tensor, "c k d"], bend: Forwards, end: int | None = None) -> None:
        """Vectors on the input, carried forwards through the operations without their biases, up to the activation `end`.

        `bend` is asked at every activation what its result gets from its input's vectors; where it says None, it is not carried on.
        """
        TALLY.derivatives += given.shape[0] * given.shape[1]
        found: list[Tensor | None] = [given]
        for i, step in enumerate(self.steps[1:], 1):
            parts = [part for part in (found[j] for j in step.inputs) if part is not None]
            if not parts:
                found.append(None)
            elif step.curve is not None:
                found.append(bend(i, parts[0]))
            elif step.operation is None:
                found.append(sum(parts[1:], parts[0]))
            else:
                c, k, _ = parts[0].shape
                shape = self.steps[step.inputs[0]].shape
                found.append(step.linear.apply(parts[0].reshape(c * k, *shape)).reshape(c, k, -1))
            if i == end:
                return

    def _transposed(self, step: Step, carried: Carried) -> Carried:
        assert step.operation is not None
        shape = self.steps[step.inputs[0]].shape
        c, k, _ = carried.centre.shape
        centre = step.operation.adjoint(carried.centre.reshape(c * k, *step.shape), shape).reshape(c, k, -1)
        if carried.radius is None:
            return Carried(centre)
        radius = step.magnitude.adjoint(carried.radius.reshape(-1, *step.shape), shape)
        return Carried(centre, radius.flatten(1))
