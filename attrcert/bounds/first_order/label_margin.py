"""The label constraint: where the linearised classifier changes its mind [wang2023practical, Proposition 1].

For an attribution with completeness the paper's condition is the linearised margin: class k is not reached while a_k
. delta < b_k, a_k = grad f_k(x) - grad f_p(x), b_k = f_p(x) - f_k(x), p the predicted class. The nearest such border
lies at min_k b_k / |a_k|_q, q dual to p. Since delta and -delta move a linearised attribution equally far, one
constraint never lowers the bound.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attrcert.attributions.gradient import logit_gradients
from attrcert.types import Logits
from attrcert.vocabulary import Norm


@dataclass(frozen=True)
class Margins:
    """a_k and b_k of the `classes` nearest other classes of each sample, by their logits."""

    a: Float[Tensor, "b k n"]
    b: Float[Tensor, "b k"]

    def radius(self, norm: Norm) -> Float[Tensor, " b"]:
        """Distance to the nearest border of the linearised classifier; infinite where no class can be reached."""
        lengths = self.a.norm(p=norm.dual, dim=2, dtype=torch.float64)
        unreachable = torch.where(self.b > 0, torch.inf, 0.0).double()  # a tie is there already
        ratio = torch.where(lengths > 0, self.b.double() / lengths, unreachable)
        return ratio.amin(dim=1).cpu()

    def kept(self, delta: Float[Tensor, "b n"]) -> Bool[Tensor, " b"]:
        """Whether the linearised classifier keeps its label at x + delta."""
        return (torch.einsum("bkn,bn->bk", self.a, delta) < self.b).all(dim=1)


def margins(f: Logits, x: Float[Tensor, "b *shape"], logits: Float[Tensor, "b k"], classes: int) -> Margins:
    """One forward pass and at most `classes` backward passes."""
    nearest = logits.topk(min(classes + 1, logits.shape[1]), dim=1).indices

    def differences(z: Float[Tensor, "b *shape"]) -> Float[Tensor, "b k"]:
        scores = f(z).gather(1, nearest)
        return scores[:, 1:] - scores[:, :1]

    values, a = logit_gradients(differences, x)
    return Margins(a, -values)


def label_kept(
    f: Logits, x: Float[Tensor, "b *shape"], delta: Float[Tensor, "b n"], predicted: Int64[Tensor, " b"]
) -> Bool[Tensor, " b"]:
    """Whether the classifier itself keeps its label at x + delta."""
    with torch.no_grad():
        return f(x + delta.view_as(x)).argmax(dim=1) == predicted
