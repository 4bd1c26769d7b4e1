"""Gradient of the cross-entropy loss of a piecewise-linear network, with its closed-form Hessian [wang2020smoothed].

Inside a linear region of a ReLU network the Hessian of the loss is W (diag(p) - p p^T) W^T, W = d x k the Jacobian of
the logits and p the probabilities: the network itself contributes no curvature. It equals F F^T with the k columns
F_i = sqrt(p_i) (W_i - sum_j p_j W_j), so k gradients give all of it.

Departures: the paper takes a Cholesky factor of diag(p) - p p^T, which is singular; F needs none. Nothing is said
about what happens across a region's border, where the gradient jumps.
"""

from dataclasses import dataclass

import torch

from attrcert.attributions.gradient import logit_gradients
from attrcert.draws import Draws
from attrcert.linalg.maps import LowRank
from attrcert.types import Attribution, Classes, Explained, Flat, Inputs, Logits


@dataclass(frozen=True)
class LossGradient(Attribution):
    """The gradient of the cross-entropy of class y; for ReLU networks, which need no softplus here."""

    def value(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Flat:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            logits = f(leaf)
            margins = logits - logits.gather(1, y[:, None])
            others = margins.masked_fill(torch.nn.functional.one_hot(y, logits.shape[1]).bool(), -torch.inf)
            # the cross-entropy, written so that nothing cancels where the class is nearly certain
            loss = torch.nn.functional.softplus(others.logsumexp(dim=1), threshold=100.0).sum()
            (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient.flatten(1)

    def explain(self, f: Logits, x: Inputs, y: Classes, draws: Draws | None = None) -> Explained:
        logits, W = logit_gradients(f, x)
        p = logits.softmax(dim=1)
        relative = W - W.gather(
            1, y[:, None, None].expand(-1, 1, W.shape[2])
        )  # first, or it cancels where p_y is near 1
        mean = torch.einsum("bk,bkn->bn", p, relative)
        factor = p.sqrt()[:, :, None] * (relative - mean[:, None])
        return Explained(mean, LowRank(factor.mT.contiguous()))
