"""Gradient of the cross-entropy loss, with its Hessian by products, or in closed form for ReLU networks [wang2020smoothed].

Inside a linear region of a ReLU network the Hessian of the loss is W (diag(p) - p p^T) W^T, W = d x k the Jacobian of
the logits and p the probabilities: the network itself contributes no curvature. It equals F F^T with the k columns
F_i = sqrt(p_i) (W_i - sum_j p_j W_j), so k gradients give all of it.

Departures: the paper takes a Cholesky factor of diag(p) - p p^T, which is singular; F needs none. Nothing is said
about what happens across a region's border, where the gradient jumps.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attrcert.attributions.gradient import Hessian, gradient, logit_gradients
from attrcert.draws import Draws
from attrcert.linalg.maps import LowRank
from attrcert.types import Attribution, Classes, Explained, Figures, Flat, Inputs, Logits


def cross_entropy(logits: Float[Tensor, "b k"], y: Classes) -> Figures:
    """Written so that nothing cancels where the class is nearly certain."""
    margins = logits - logits.gather(1, y[:, None])
    others = margins.masked_fill(torch.nn.functional.one_hot(y, logits.shape[1]).bool(), -torch.inf)
    return torch.nn.functional.softplus(others.logsumexp(dim=1), threshold=100.0)


@dataclass(frozen=True)
class LossGradient(Attribution):
    """The gradient of the cross-entropy of class y; its Jacobian is the Hessian of the loss. `chunk` and `held` as in Hessian."""

    chunk: int | None = None
    held: int | None = None
    name = "loss-gradient"

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        return gradient(f, x, y, chunk=self.chunk, score=cross_entropy)

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        H = Hessian(f, x, y, chunk=self.chunk, held=self.held, score=cross_entropy)
        return Explained(H.gradient(), H)


@dataclass(frozen=True)
class PiecewiseLossGradient(LossGradient):
    """The same of ReLU networks, which need no softplus here, with its Jacobian in closed form."""

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        logits, W = logit_gradients(f, x)
        p = logits.softmax(dim=1)
        relative = W - W.gather(
            1, y[:, None, None].expand(-1, 1, W.shape[2])
        )  # first, or it cancels where p_y is near 1
        mean = torch.einsum("bk,bkn->bn", p, relative)
        factor = p.sqrt()[:, :, None] * (relative - mean[:, None])
        return Explained(mean, LowRank(factor.mT.contiguous()))
