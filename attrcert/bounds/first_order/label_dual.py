"""A bound over the perturbations that keep the linearised label, for samples whose worst directions both lose it.

Claim. Let a_k . delta <= b_k hold for the kept delta = eps s, s^T D s <= tau (D = I, tau = 1 for l2; tau = sum D for
linf). For any entrywise non-negative symmetric M, nu >= 0 and kappa > 0, with A = eps (a_k) in rows:
    |J delta|^2 <= (tau + kappa) lambda_max [[D^-1/2 (eps^2 P + A^T M A) D^-1/2, -D^-1/2 A^T (M b + nu/2) / sqrt(kappa)],
                                             [ (its transpose),                   (b^T M b + nu^T b) / kappa           ]]
Proof. (b - A s)^T M (b - A s) + nu^T (b - A s) >= 0 on the kept set; add it to s^T eps^2 P s and write the sum as a
quadratic form in (s, 1).

Any multipliers are valid, so they are sought where it is cheap: on the small space spanned by the worst direction,
the a_k and a few products of them. lambda_max of the chosen ones is then enclosed on the whole space with a fresh
random start. Not in wang2023practical, which leaves its label constraint without effect.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy.optimize import minimize
from torch import Tensor

from attrcert.bounds.first_order.enclosed import FirstOrder
from attrcert.bounds.first_order.label_margin import Margins
from attrcert.draws import Draws
from attrcert.linalg.enclosure import TopSingularValue
from attrcert.types import LinearMap


@dataclass(frozen=True)
class Bordered(LinearMap):
    """The symmetric map of the claim, on vectors (s, t) of length n + 1."""

    J: LinearMap
    A: Float[Tensor, "b k n"]
    root: Float[Tensor, "b n"]
    M: Float[Tensor, "b k k"]
    border: Float[Tensor, "b n"]
    corner: Float[Tensor, " b"]
    unit: Float[Tensor, " b"]
    symmetric = True

    @property
    def like(self) -> LinearMap:
        return self.J

    @property
    def shape(self) -> tuple[int, int, int]:
        b, _, n = self.J.shape
        return b, n + 1, n + 1

    def matvec(self, v: Float[Tensor, "b n1"]) -> Float[Tensor, "b n1"]:
        s, t = self.root * v[:, :-1], v[:, -1:]
        constrained = torch.einsum("bkn,bkj,bjm,bm->bn", self.A, self.M, self.A, s)
        upper = self.root * (_unit_gram(self.J, s, self.unit) + constrained) + self.border * t
        lower = (self.border * v[:, :-1]).sum(dim=1, keepdim=True) + self.corner[:, None] * t
        return torch.cat([upper, lower], dim=1)

    def select(self, keep: Int64[Tensor, " kept"]) -> "Bordered":
        parts = (self.A, self.root, self.M, self.border, self.corner, self.unit)
        A, root, M, border, corner, unit = (part[keep] for part in parts)
        return Bordered(self.J.select(keep), A, root, M, border, corner, unit)


@dataclass(frozen=True)
class LabelDual:
    """Uses the `classes` constraints that the worst directions break most, and `depth` blocks of products."""

    solver: TopSingularValue = TopSingularValue()
    classes: int = 3
    depth: int = 4

    def __call__(
        self, J: LinearMap, worst: FirstOrder, margins: Margins, *, eps: float, tau: float | None, draws: Draws
    ) -> Float[Tensor, " b"]:
        """The bound of |J delta|_2; `tau` is None for the cube, whose tau is sum D."""
        D = worst.scaling if tau is None and worst.scaling is not None else torch.ones_like(worst.direction)
        taus = D.sum(dim=1, dtype=torch.float64) if tau is None else torch.full((len(D),), tau, dtype=torch.float64)
        taus = taus.cpu()
        broken = (torch.einsum("bkn,bn->bk", margins.a, worst.direction).abs() * eps - margins.b).topk(
            min(self.classes, margins.b.shape[1]), dim=1
        )
        rows = torch.arange(len(D), device=D.device)[:, None]
        A, b = eps * margins.a[rows, broken.indices], margins.b[rows, broken.indices]
        root = D.rsqrt()
        unit = worst.upper.clamp_min(torch.finfo(A.dtype).tiny).to(A)
        sections = self._sections(J, worst, A, root, unit)
        found = [
            _multipliers(P, a, bs, float(t))
            for P, a, bs, t in zip(*sections, b.double().cpu().numpy(), taus, strict=True)
        ]
        M, nu, kappa = (torch.from_numpy(np.stack(part)).to(A) for part in zip(*found, strict=True))
        inner = torch.einsum("bjk,bk->bj", M, b)
        border = -root * torch.einsum("bkn,bk->bn", A, inner + nu / 2) / kappa.sqrt()[:, None]
        corner = ((b * inner).sum(1) + (nu * b).sum(1)) / kappa
        top = self.solver.top_eigenvalue(Bordered(J, A, root, M, border, corner, unit), draws, purpose=f"label-{eps!r}")
        return eps * worst.upper * ((taus + kappa.double().cpu()) * top.upper.clamp_min(0)).sqrt()

    def _sections(
        self,
        J: LinearMap,
        worst: FirstOrder,
        A: Float[Tensor, "b k n"],
        root: Float[Tensor, "b n"],
        unit: Float[Tensor, " b"],
    ) -> tuple[np.ndarray, np.ndarray]:
        """P and A, scaled, on an orthonormal basis of the small space."""

        def scaled_gram(block: Float[Tensor, "b n r"]) -> Float[Tensor, "b n r"]:
            columns = [root * _unit_gram(J, root * block[:, :, i], unit) for i in range(block.shape[2])]
            return torch.stack(columns, dim=2)

        block = torch.cat([(worst.direction / root)[:, None], A * root[:, None]], dim=1).mT
        blocks = [torch.linalg.qr(block).Q]
        for _ in range(self.depth - 1):
            blocks.append(torch.linalg.qr(scaled_gram(blocks[-1])).Q)
        space = torch.linalg.qr(torch.cat(blocks, dim=2)[:, :, : J.shape[2]]).Q
        P = space.mT @ scaled_gram(space)
        return ((P + P.mT) / 2).double().cpu().numpy(), ((A * root[:, None]) @ space).double().cpu().numpy()


def _unit_gram(J: LinearMap, s: Float[Tensor, "b n"], unit: Float[Tensor, " b"]) -> Float[Tensor, "b n"]:
    """P s / unit^2, with nothing squared: J is of order `unit`, and the result is in units of the plain bound."""
    return J.rmatvec(J.matvec(s) / unit[:, None]) / unit[:, None]


def _multipliers(P: np.ndarray, A: np.ndarray, b: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray, float]:
    """M, nu and kappa that make the claim's bound small on a section; any result is valid, and zero is one of them."""
    problem = _Section.of(P, A, b, tau)
    bounds = [(0.0, 1e6)] * (problem.size - 1) + [(-20.0, 20.0)]
    best = np.r_[np.zeros(problem.size - 1), -16.0]
    for log_kappa in (-3.0, 0.0):
        z = np.r_[np.full(problem.pairs, 0.1), np.full(len(b), 0.01), log_kappa]
        for sharpness in (10.0, 100.0, 1e3, 1e4):  # lambda_max is not smooth: approach it through its soft maximum
            solved = minimize(
                problem.bound,
                z,
                args=(sharpness,),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": 100},
            )
            z = solved.x
        best = min(best, z, key=lambda point: problem.bound(point, 1e9)[0])
    return problem.multipliers(best)


@dataclass(frozen=True)
class _Section:
    """The claim's bound on a small space, in units in which multipliers of order one matter."""

    P: Float[Tensor, "r r"]
    A: Float[Tensor, "k r"]
    b: Float[Tensor, " k"]
    tau: float
    scale: float
    unit: Float[Tensor, " k"]

    @staticmethod
    def of(P: np.ndarray, A: np.ndarray, b: np.ndarray, tau: float) -> "_Section":
        scale = max(float(np.linalg.eigvalsh(P)[-1]), 1e-300)
        lengths = np.linalg.norm(A, axis=1)
        unit = np.where(lengths > 0, lengths, 1.0)
        tensors = (torch.from_numpy(part) for part in (P / scale, A / unit[:, None], b / unit, unit))
        small, rows, margins, units = tensors
        return _Section(small, rows, margins, tau, scale, units)

    @property
    def pairs(self) -> int:
        return len(self.b) * (len(self.b) - 1) // 2

    @property
    def size(self) -> int:
        return self.pairs + len(self.b) + 1

    def bound(self, z: np.ndarray, sharpness: float) -> tuple[float, np.ndarray]:
        """Relative to scale and tau, with the soft maximum of the eigenvalues, and its gradient."""
        leaf = torch.tensor(z, requires_grad=True)
        M, nu, kappa = self._read(leaf)
        inner = M @ self.b
        side = -self.A.T @ (inner + nu / 2) / kappa.sqrt()
        corner = (self.b @ inner + nu @ self.b) / kappa
        top = torch.cat([self.P + self.A.T @ M @ self.A, side[:, None]], dim=1)
        G = torch.cat([top, torch.cat([side, corner[None]])[None]])
        value = (self.tau + kappa) / self.tau * torch.logsumexp(sharpness * torch.linalg.eigvalsh(G), 0) / sharpness
        (gradient,) = torch.autograd.grad(value, leaf)
        return value.item(), gradient.numpy()

    def multipliers(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """M, nu and kappa in the caller's units."""
        M, nu, kappa = self._read(torch.from_numpy(z))
        outer = torch.outer(self.unit, self.unit)
        return (self.scale * M / outer).numpy(), (self.scale * nu / self.unit).numpy(), float(kappa)

    def _read(self, z: Float[Tensor, " size"]) -> tuple[Float[Tensor, "k k"], Float[Tensor, " k"], Float[Tensor, ""]]:
        k = len(self.b)
        i, j = torch.triu_indices(k, k, 1)
        M = torch.zeros(k, k, dtype=z.dtype).index_put((i, j), z[: self.pairs])
        return M + M.T, z[self.pairs : -1], self.tau * z[-1].exp()
