"""Samples whose attribution has values alone: what stands in the place of their bounds, which there are none of."""

from dataclasses import dataclass, fields

from jaxtyping import Bool, Float
from torch import Tensor

from attrcert.columns import Row
from attrcert.running.evaluating.samples import sample_cells
from attrcert.running.evaluating.subjects import Subject
from attrcert.vocabulary import Guarantee, Status


class ValueSubject(Subject):
    """No product with a Jacobian is taken."""

    @staticmethod
    def of(subject: Subject) -> "ValueSubject":
        return ValueSubject(**{one.name: getattr(subject, one.name) for one in fields(subject)})

    def finite(self) -> Bool[Tensor, " b"]:
        return self.explained.value.isfinite().all(dim=1)

    @property
    def rounding(self) -> None:
        """It is measured by products."""
        return


@dataclass(frozen=True)
class Unbounded:
    """Rows that attacks fill, without bounds beside them."""

    subject: Subject

    @property
    def leading(self) -> list[Float[Tensor, "b n"]]:
        """No direction is known to be worse than others."""
        return []

    def rows(self, eps: float) -> list[Row]:
        subject, classes = self.subject, (self.subject.predicted.tolist(), self.subject.target.tolist())
        samples = zip(subject.batch.indices, subject.batch.labels, *classes, subject.lengths, strict=True)
        return [
            {
                **sample_cells(subject.config, index, label, predicted, target),
                "status": Status.OK.value,
                "guarantee": Guarantee.EMPIRICAL.value,
                "eps": eps,
                "g_norm": length,
            }
            for index, label, predicted, target, length in samples
        ]
