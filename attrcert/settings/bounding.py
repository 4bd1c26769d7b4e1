"""How first-order and proved bounds are found, and the thresholds of their inversion."""

from dataclasses import dataclass

from attrcert.errors import UsageError
from attrcert.settings.declared import METHOD, SOLVER, THRESHOLD, Settings, setting
from attrcert.vocabulary import LINF_METHODS, THRESHOLDS, parse_number

LARGE = 10_000  # entries of a large image


@dataclass(frozen=True)
class Theorems(Settings):
    """The theorems, and their solver."""

    loss_hessian: bool = setting(
        False, "Bound the gradient of the cross-entropy loss of a ReLU network, in closed form, without softplus.", METHOD,
    )  # fmt: skip
    linf_method: tuple[str, ...] = setting(
        ("scaled",), "Bounds for linf; row-sums forms d x d matrices. Repeatable, the smallest wins.",
        METHOD, many=True, choices=LINF_METHODS,
    )  # fmt: skip
    label_constraint: str = setting(
        "check",
        "check whether the worst perturbations keep the label; tighten the bound where both signs lose it; compare the figures without and "
        "with the constraint (attacks run twice); off.",
        METHOD, choices=("check", "tighten", "compare", "off"),
    )  # fmt: skip
    margin_classes: int = setting(20, "Nearest classes looked at for the label margin.", METHOD, least=1)
    eta_draws: int = setting(2, "Random perturbations for eta_random.", METHOD, least=0)
    ball: bool = setting(
        False, "Also estimate the bound over the whole ball: eps times the largest gain found in it (l2, linf).", METHOD
    )
    proved: bool = setting(
        False,
        "Also bound the change for every perturbation in the ball, in float64, for networks of affine layers, norms and smooth "
        "activations (l2, linf). Slower: it forms d x d matrices.", METHOD, basic=True,
    )  # fmt: skip
    proved_effort: int = setting(
        16, "Steps of the search for the closest proved bound, of each sample and eps; 0: the secant and interval bounds alone.",
        METHOD, least=0,
    )  # fmt: skip
    slack: float = setting(
        0.01, "Stop when the upper end is within this of the lower one, relative.", SOLVER, positive=True
    )
    max_steps: int = setting(200, "Lanczos steps after which a sample is not-converged.", SOLVER, least=1)

    @property
    def compares_labels(self) -> bool:
        """Whether figures without and with the label constraint stand beside each other."""
        return self.label_constraint == "compare"

    def check(self) -> None:
        if not self.linf_method:
            raise UsageError("at least one --linf-method is needed")
        if self.proved and self.loss_hessian:
            raise UsageError(
                "proved bounds are of logits' attributions, not of the loss: --proved excludes --loss-hessian"
            )


@dataclass(frozen=True)
class Largest(Settings):
    """Which entries of a map are its largest."""

    k: int | None = setting(
        None, "Number of largest entries that top_k and top_k_bound watch.", METHOD, least=1,
        unsaid="100, 1000 for large images, at most an eighth", basic=True,
    )  # fmt: skip

    def of(self, n: int) -> int:
        """Of maps of n entries; by default the papers' choices by their size."""
        usual = max(1, min(100 if n < LARGE else 1000, -(-n // 8)))
        if self.k is not None and self.k > n:
            raise UsageError(
                f"--k must be at most {n}, the number of features, got {self.k}",
                hint=f"e.g. --k {usual} for such inputs",
            )
        return self.k or usual


@dataclass(frozen=True)
class Thresholds(Settings):
    """What an inverted bound must keep."""

    max_deviation: tuple[float, ...] = setting(
        (), "Largest |g(x+delta) - g(x)|_2; repeatable.", THRESHOLD, read=parse_number, many=True, basic=True
    )
    max_cosine_distance: tuple[float, ...] = setting(
        (), "Largest 1 - cosine, below 1; repeatable.", THRESHOLD, read=parse_number, many=True, basic=True
    )
    max_angle: tuple[float, ...] = setting(
        (), "Largest angle in degrees, below 90; repeatable.", THRESHOLD, read=parse_number, many=True, basic=True
    )
    min_top_k: tuple[float, ...] = setting(
        (),
        "Least share of the k largest entries that must stay, e.g. 0.8; repeatable.",
        THRESHOLD,
        read=parse_number,
        many=True,
        basic=True,
    )
    corrected: bool = setting(
        False, "Search with the measured correction c(eps): an eps at which the corrected bound meets the threshold (below it may not).",
        THRESHOLD,
    )  # fmt: skip

    def check(self) -> None:
        for kind, value in self.pairs:
            name, below = THRESHOLDS[kind]
            if not 0 < value < below:
                raise UsageError(f"--{name.replace('_', '-')} must be above 0 and below {below:g}, got {value:g}")

    @property
    def pairs(self) -> tuple[tuple[str, float], ...]:
        """Kinds and values."""
        return tuple((kind, value) for kind, (name, _) in THRESHOLDS.items() for value in getattr(self, name))
