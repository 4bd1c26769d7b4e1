"""Nouns without tensors: norms, balls, guarantees, statuses, and how numbers are read and rounded."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from difflib import get_close_matches
from enum import IntEnum, StrEnum
from fractions import Fraction
from typing import Any

from attrcert.errors import UsageError

LRP_RULES, LRP_STABILISER = ("zb", "z-plus", "w-square"), 1e-6  # the latter is zennit's
QUADRATURES = ("gauss-legendre", "riemann-right")
LINF_METHODS = ("scaled", "row-sums", "corollary")
NOISES = {"uniform": "radius", "gaussian": "sigma"}  # and the word for how far each reaches
CENTRE = "centre"  # beside the averages over these noises: the centre of half of the maps under gaussian noise
THRESHOLDS = {  # of first-order and proved bounds: the option of each, and what it lies below
    "deviation": ("max_deviation", math.inf),
    "cosine-distance": ("max_cosine_distance", 1.0),
    "angle": ("max_angle", 90.0),
    "top-k": ("min_top_k", math.nextafter(1, 2)),
}
COSINE = "cosine"  # the threshold of smoothed attributions
CLT = "clt"  # the paper's way to bound a length, which is no confidence bound
SOFTPLUS_BETA = 20.0  # that ReLUs run with unless another is asked for


class Guarantee(StrEnum):
    """What a figure promises, from the strongest to the weakest."""

    PROVED = "proved"
    CONFIDENCE = "confidence"
    CORRECTED = "corrected"
    FIRST_ORDER = "first-order"
    EMPIRICAL = "empirical"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Guarantee.PROVED: "holds for every perturbation in the ball",
    Guarantee.CONFIDENCE: "holds for every perturbation in the ball, with probability 1-failure over the program's own draws",
    Guarantee.CORRECTED: "first-order, enlarged by what was measured in the ball: an estimate, not a certificate",
    Guarantee.FIRST_ORDER: "bounds the linearised attribution only: an estimate of the true worst case that attacks can exceed",
    Guarantee.EMPIRICAL: "what an attack or a sample reached: a lower bound on the worst case",
}
MEASURED = "what was measured, on these samples and perturbations"  # where no worst case is sought


class Status(StrEnum):
    """How a sample's row ended, from the best to the worst; `error:<kind>` stands beside these."""

    EVERYWHERE = "everywhere"
    OK = "ok"
    VACUOUS = "vacuous"
    ABSTAINED = "abstained"
    INFEASIBLE = "infeasible"
    LABEL_CHANGED = "label-changed"
    NOT_CONVERGED = "not-converged"


ERROR_KINDS = (  # of a sample that cannot be used
    "unreadable", "shape", "range", "non-finite", "label", "item", "non-finite-output", "non-finite-derivative", "memory", "box",
)  # fmt: skip


class Aim(StrEnum):
    """What an attack is after: to move the map while the label stays, or to change the prediction."""

    MAP = "map"
    PREDICTION = "prediction"

    @staticmethod
    def of(attack: object) -> "Aim":
        """By its name, behind which may stand the model that it was made on."""
        return Aim.PREDICTION if str(attack).partition(":")[0] == Aim.PREDICTION else Aim.MAP


class Kind(StrEnum):
    """What a sample is."""

    IMAGES = "images"
    SIGNALS = "signals"
    TABULAR = "tabular"


class Side(IntEnum):
    """What is certified of a pixel: that it stays among the largest, that it stays outside, or nothing."""

    NOT_TOP = -1
    ABSTAINED = 0
    TOP = 1


class SolverStatus(StrEnum):
    """How an iterative enclosure ended."""

    CONVERGED = "converged"
    EXHAUSTED = "exhausted"  # the Krylov space is the whole space: exact up to rounding
    STEP_LIMIT = "step-limit"
    ROUNDING = "rounding"  # enclosed, but rounding in the products makes it wider than was asked for


class NormKind(StrEnum):
    L2 = "l2"
    LINF = "linf"
    LP = "lp"


@dataclass(frozen=True)
class Norm:
    """A norm on perturbations: l2, linf, or lp with 1 <= p < infinity."""

    kind: NormKind
    p: float

    @staticmethod
    def parse(name: str, p: float | None = None) -> "Norm":
        if name not in tuple(NormKind):
            raise UsageError(f"norm must be one of {', '.join(NormKind)}, got {name!r}")
        kind = NormKind(name)
        if kind is NormKind.LP:
            if p is None or not 1 <= p < math.inf:
                raise UsageError(
                    f"--norm lp needs a finite --p of at least 1, {'none was given' if p is None else f'got {p:g}'}",
                    hint="e.g. --norm lp --p 4; for p = inf use --norm linf",
                )
            return Norm(kind, p)
        if p is not None:
            raise UsageError(f"--p goes with --norm lp only, got norm {name} and p={p:g}")
        return Norm(kind, math.inf if kind is NormKind.LINF else 2.0)

    @property
    def dual(self) -> float:
        """The exponent q with 1/p + 1/q = 1."""
        if self.p == 1:
            return math.inf
        return 1.0 if math.isinf(self.p) else self.p / (self.p - 1)

    def cube_diagonal(self, d: int) -> float:
        """The largest distance of two points of [0, 1]^d."""
        return d ** (1 / self.p)

    def l2_factor(self, d: int) -> float:
        """max |delta|_2 over |delta|_p <= 1 in d dimensions (wang2023practical, Corollary 1)."""
        return max(1.0, d ** (0.5 - 1 / self.p))

    def __str__(self) -> str:
        return f"l{self.p:g}" if self.kind is NormKind.LP else self.kind.value


def shortened(text: str, most: int = 200) -> str:
    """As much of a text of any length as a message has room for."""
    return text if len(text) <= most else text[:most] + "..."


def plain_name(label: str) -> str:
    """An attribution's name, without the parameters behind it."""
    return label.partition("(")[0].partition(",")[0]


def part_name(name: str, cell: object) -> str:
    """What one of several attributions, norms or softplus versions is called: saliency, l2, beta 20."""
    return f"beta {cell:g}" if name == "softplus_beta" else plain_name(str(cell))


def some(names: Iterable[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    return ", ".join(shortened(name) for name in listed[:most]) + (
        f" and {len(listed) - most} more" if len(listed) > most else ""
    )


MOST_MEANT = 3  # of names that go on as the given one begins


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint at the known names that were probably meant, or what else there is to say."""
    names = sorted(known)
    begun = (one for one in names if len(name) > 1 and one.lower().startswith(name.lower()))
    close = sorted(begun, key=lambda one: (len(one), one)) or get_close_matches(name, names, n=1, cutoff=0.5)
    likely = [repr(str(one)) for one in close[:MOST_MEANT]]
    return f"did you mean {' or '.join(likely)}?" if close else otherwise


def parse_number(text: str, name: str = "") -> float:
    """A decimal number or a fraction such as 8/255 or 0.5/255; `name` is what it is for."""
    try:
        above, *below = (Fraction(part) for part in text.replace(" ", "").split("/"))
        value = float(above / below[0]) if len(below) == 1 else float(Fraction(text.replace(" ", "")))
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        subject = f"{name} must be" if name else "expected"
        raise UsageError(f"{subject} a number or a fraction such as 8/255, got {text!r}") from error
    return value


def number_or(word: str, meaning: Any) -> Callable[[str, str], Any]:
    """Reads a number, or a word that stands for something else."""

    def read(text: str, name: str) -> Any:
        if text == word:
            return meaning
        try:
            return parse_number(text)
        except UsageError as error:
            raise UsageError(f"{name} must be {word}, {error.message.removeprefix('expected ')}") from error

    return read


def parse_share(text: str, name: str) -> float:
    """A share such as 10% or 0.1."""
    try:
        return parse_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except UsageError as error:
        raise UsageError(f"{name} must be a share such as 10% or 0.1, got {text!r}") from error


def parse_bounding(text: str) -> tuple[str, float]:
    """What bounds an attribution, and its number: unit, sample-max, clip:Q or clip-at:M."""
    word, _, number = text.partition(":")
    if text in ("unit", "sample-max"):
        return text, 1.0
    if word in ("clip", "clip-at") and number:
        value = parse_number(number, "--bounded")
        if 0 < value < (1 if word == "clip" else math.inf):
            return word, value
    raise UsageError(
        f"--bounded must be unit, clip:Q with 0 < Q < 1, or clip-at:M with M > 0, got {text!r}",
        hint="e.g. --bounded clip:0.1",
    )


def parse_eps(text: str | float) -> float:
    """A perturbation size in pixel units."""
    eps = parse_number(text) if isinstance(text, str) else float(text)
    if not (math.isfinite(eps) and eps > 0):
        raise UsageError(
            f"eps must be positive and finite, got {text}", hint="eps is in pixel units (0 to 1), not 0 to 255"
        )
    return eps


def parse_indices(text: str, name: str = "indices") -> tuple[int, ...]:
    """Sample indices such as `3,17,100-199`, in the order given."""
    picked: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise UsageError(f"{name} must look like 3,17,100-199, got {text!r}")
        picked += range(int(first), int(last if dash else first) + 1)
    return tuple(dict.fromkeys(picked))


def indices_text(indices: Iterable[int]) -> str:
    """Sample indices in ascending order as parse_indices reads them."""
    ordered = sorted(indices)
    starts = [i for n, i in enumerate(ordered) if n == 0 or ordered[n - 1] != i - 1]
    ends = [i for n, i in enumerate(ordered) if n == len(ordered) - 1 or ordered[n + 1] != i + 1]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def parse_shard(text: str, name: str = "a shard") -> tuple[int, int]:
    """`3/8`: the third of eight shards."""
    part, slash, whole = text.partition("/")
    if not (slash and part.isdecimal() and whole.isdecimal() and 1 <= int(part) <= int(whole)):
        raise UsageError(f"{name} must be I/N with I from 1 to N, got {text!r}", hint="e.g. --shard 3/8")
    return int(part), int(whole)


def round_up(value: float, digits: int = 3) -> str:
    """An upper bound to `digits` significant digits, never below its value."""
    return _rounded(value, digits, ROUND_CEILING)


def round_down(value: float, digits: int = 3) -> str:
    """A lower bound to `digits` significant digits, never above its value."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, mode: str) -> str:
    if not math.isfinite(value):
        return str(value)
    rounded = Context(prec=digits, rounding=mode).create_decimal(Decimal(value))
    if rounded and not 1e-4 <= abs(rounded) < 10**7:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:f}"
