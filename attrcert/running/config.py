"""What a `bound` run computes: every choice with its default. Torch-free, for the command line's help."""

import math
from collections.abc import Collection
from dataclasses import dataclass

from attrcert.errors import UsageError
from attrcert.registry import unknown
from attrcert.vocabulary import QUADRATURES, Norm, parse_eps

LINF_METHODS = ("scaled", "row-sums", "corollary")
LABEL_CONSTRAINTS = ("check", "tighten", "off")
DEFAULT_SOFTPLUS_BETA = 20.0
DEFAULT_MEMORY = "4GB"
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class BoundConfig:
    """The defaults of `attrcert bound`, and their one home."""

    attribution: str = "saliency"
    norm: str = "l2"
    p: float | None = None
    eps: tuple[float, ...] = (0.1,)
    target: str = "predicted"
    ig_steps: int = 20
    quadrature: str = "gauss-legendre"
    baseline: str = "0"
    ig_chunk: int = 64
    loss_hessian: bool = False
    linf_method: tuple[str, ...] = ("scaled",)
    label_constraint: str = "check"
    margin_classes: int = 20
    eta_draws: int = 2
    slack: float = 0.01
    failure: float = 1e-3
    max_steps: int = 200
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        Norm.parse(self.norm, self.p)
        _one_of("quadrature", self.quadrature, QUADRATURES)
        _one_of("label constraint", self.label_constraint, LABEL_CONSTRAINTS)
        _one_of("dtype", self.dtype, DTYPES)
        for method in self.linf_method:
            _one_of("linf method", method, LINF_METHODS)
        if not self.eps or not self.linf_method:
            raise UsageError("at least one eps and one linf method are needed")
        for eps in self.eps:
            parse_eps(eps)
        if len(set(self.eps)) < len(self.eps):
            raise UsageError(f"each eps may be given once, got {', '.join(map(str, self.eps))}")
        if not 0 < self.failure < 1:
            raise UsageError(f"failure must be a probability between 0 and 1, got {self.failure}")
        if not 0 < self.slack < math.inf:
            raise UsageError(f"slack must be positive, got {self.slack}")
        if min(self.max_steps, self.margin_classes, self.ig_steps, self.ig_chunk) < 1 or self.eta_draws < 0:
            raise UsageError(
                "max steps, margin classes, IG steps and IG chunk must be at least 1, and eta draws at least 0"
            )
        if self.seed < 0:
            raise UsageError(f"seed must not be negative, got {self.seed}")
        if self.target not in ("predicted", "label") and not self.target.isdecimal():
            raise UsageError(f"target must be predicted, label or a class number, got {self.target!r}")

    @property
    def delta_norm(self) -> Norm:
        return Norm.parse(self.norm, self.p)


def _one_of(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise unknown(kind, name, known)
