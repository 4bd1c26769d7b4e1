"""What an attack is to the loop: an objective, a score and a way to step."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from jaxtyping import Float
from torch import Tensor

from attrcert.ascent.steps import Adaptive, Fixed, StepRule


@dataclass(frozen=True)
class Maps:
    """Attribution maps of some rows, moved and original, each flattened from `shape`."""

    moved: Float[Tensor, "rows n"]
    original: Float[Tensor, "rows n"]
    shape: tuple[int, ...]


class Attack(Protocol):
    """What an attack's author writes: what to climb, which iterate is the best, how to step.

    Larger is better in both; `objective` is differentiated with respect to the moved map. `output_weight` is the weight of the
    mean squared change of the probabilities, which is subtracted from the objective. A `targeted` attack goes somewhere
    and begins at x; the others go away from x. One that has a true `images_only`
    needs a height and a width; one that has a false `keeps_label` may change the prediction.
    """

    targeted: ClassVar[bool]

    @property
    def rule(self) -> StepRule: ...
    @property
    def output_weight(self) -> float: ...
    def objective(self, maps: Maps) -> Float[Tensor, " rows"]: ...
    def score(self, maps: Maps) -> Float[Tensor, " rows"]: ...


def keeps_label(attack: Attack) -> bool:
    """Whether only iterates count that the model gives the label which it gives x."""
    return bool(getattr(attack, "keeps_label", True))


@dataclass(frozen=True)
class Steepest:
    """What attacks by steepest ascent share: steps of `step_size`, adapted where it is None."""

    step_size: float | None = None
    output_weight: ClassVar[float] = 0.0
    targeted: ClassVar[bool] = False

    @property
    def rule(self) -> StepRule:
        return Adaptive() if self.step_size is None else Fixed(self.step_size)
