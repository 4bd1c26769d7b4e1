"""What is explained, what perturbs it, and how numbers are drawn and held."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attrcert.attributions import ATTRIBUTIONS, CAPTUM, SMOOTHED, Given, is_own
from attrcert.errors import UsageError
from attrcert.settings.declared import METHOD, RUN, SOLVER, Settings, setting
from attrcert.settings.sources import parse_argument
from attrcert.vocabulary import LRP_RULES, LRP_STABILISER, QUADRATURES, Norm, NormKind, parse_eps, parse_number

# settings of one attribution, by the names that its label has for them
OWN_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "integrated-gradients": {"steps": "ig_steps", "quadrature": "quadrature", "baseline": "baseline"},
    "lrp": {"rule": "lrp_rule", "stabiliser": "lrp_stabiliser"},
    "grad-cam": {"layer": "layer"},
}
LEAST_FAILURE = 1e-100  # quantiles of smaller ones have no digits


def full_name(text: str, name: str) -> str:
    """Of an attribution or its alias."""
    return ATTRIBUTIONS.name(text, name)


def any_name(text: str | Callable[..., Any], name: str) -> str:
    """Of an attribution, its alias, or the user's own: file.py:function, module:function, captum:NAME, or the function itself."""
    if not isinstance(text, str):
        return Given.of(text)
    if isinstance(text, Given):
        return text
    place, colon, function = text.rpartition(":")
    if not colon and not text.endswith(".py"):
        return full_name(text, name)
    if not place or not function.isidentifier():
        form = f"{text.partition(':')[0] or 'file.py'}:FUNCTION"
        raise UsageError(
            f"{name} must be {form}, got {text}", hint="FUNCTION(model, x, target) returns one map for each x"
        )
    return text


def _one_number(text: str, name: str) -> float:
    if text == "best" or "," in text:
        raise UsageError(
            f"{name} takes one number here, got {text}", hint="several values and best go with --smooth only"
        )
    return parse_number(text, name)


def _brief(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Explanation(Settings):
    """The attribution of a class."""

    attribution: str = setting(
        "saliency",
        "What is explained: a name (sm, ixg, ig, gbp, cam, sg and us for short), or your own: file.py:function, module:function or "
        "captum:NAME, which run that code. Repeatable: rows for each.", METHOD, read=any_name, choices=lambda: tuple(ATTRIBUTIONS),
        functions=True, beyond=is_own, apart=True, basic=True,
    )  # fmt: skip
    attribution_args: Mapping[str, Any] = setting(
        dict, "Argument of your own attribution, or of Captum's; repeatable.",
        METHOD, read=parse_argument, many=True, whole=True, collect=dict, flags=("--attribution-arg",), metavar="KEY=VALUE",
    )  # fmt: skip
    target: str = setting("predicted", "Explained class: predicted, label, or a class number.", METHOD, basic=True)
    ig_steps: int = setting(20, "Number of nodes of integrated gradients.", METHOD, least=1)
    quadrature: str = setting(
        "gauss-legendre", "Nodes of integrated gradients; riemann-right is the papers'.", METHOD, choices=QUADRATURES
    )
    baseline: str = setting(
        "0", "Where integrated gradients begin: a pixel value, mean (what normalisation maps to 0), or blur.", METHOD
    )

    lrp_rule: str = setting(
        "zb",
        "Rule of LRP at the input: zb (the box of pixels), z-plus or w-square; z+ inside.",
        METHOD,
        choices=LRP_RULES,
    )
    lrp_stabiliser: float = setting(
        LRP_STABILISER, "What LRP adds to the sums that it divides by; larger ones make maps that change less abruptly.", METHOD,
        read=parse_number, positive=True,
    )  # fmt: skip
    layer: str | None = setting(
        None, "Layer of grad-cam, by its module's name.", METHOD, unsaid="the last convolution", metavar="NAME"
    )

    def check(self) -> None:
        if self.target not in ("predicted", "label") and not self.target.isdecimal():
            raise UsageError(f"--target must be predicted, label or a class number, got {self.target!r}")

    @property
    def label(self) -> str:
        """The method and the parameters that change its value."""
        if is_own(self.attribution):
            return self._own_label
        told = {word: getattr(self, name) for word, name in OWN_SETTINGS.get(self.attribution, {}).items()}
        parameters = ", ".join(f"{word}={_brief(value)}" for word, value in told.items() if value is not None)
        return f"{self.attribution}({parameters})" if parameters else self.attribution

    @property
    def _own_label(self) -> str:
        """Without the folder: the manifest tells the file by its digest."""
        place, _, function = self.attribution.rpartition(":")
        name = f"{place if place == CAPTUM else Path(place).name}:{function}"
        arguments = ", ".join(f"{key}={value}" for key, value in self.attribution_args.items())
        return f"{name}({arguments})" if arguments else name


@dataclass(frozen=True)
class Averaging(Settings):
    """The noise of attributions that are averages over it: smooth-grad and uniform-smooth."""

    sigma: float = setting(
        0.1, "Standard deviation of Gaussian noise, in pixel units; with --smooth repeatable, with max-eps also best.",
        METHOD, read=_one_number, positive=True,
    )  # fmt: skip
    radius: float = setting(
        1.0, "Radius of uniform noise in the l2 ball, in pixel units; with --smooth repeatable, with max-eps also best.",
        METHOD, read=_one_number, positive=True,
    )  # fmt: skip
    noise_draws: int = setting(50, "Noise draws of a smoothed attribution, fixed per sample.", METHOD, least=1)
    smooth_base: str = setting("saliency", "The attribution that is smoothed.", METHOD, read=any_name, functions=True)
    smooth_unit: bool = setting(
        False, "Smooth the direction g/|g|: the map that --smooth with --bounded unit certifies, to attack it.", METHOD
    )

    def check(self) -> None:
        if self.smooth_base in SMOOTHED:
            raise UsageError(f"the smoothed attribution must not be a smoothed one itself, got {self.smooth_base}")

    def base(self, explanation: Explanation) -> Explanation:
        """What is averaged."""
        return replace(explanation, attribution=self.smooth_base)

    def label(self, explanation: Explanation) -> str:
        """The same as an explanation's, of one that is an average."""
        spread = SMOOTHED[explanation.attribution]
        unit = ", unit" if self.smooth_unit else ""
        base = self.base(explanation).label
        return f"{explanation.attribution}({spread}={getattr(self, spread):g}, draws={self.noise_draws}, base={base}{unit})"


@dataclass(frozen=True)
class Perturbation(Settings):
    """The ball: its norm and sizes."""

    norm: str = setting(
        "l2",
        "Norm of the perturbation; lp with --p. Repeatable: rows for each.",
        METHOD,
        choices=tuple(NormKind),
        apart=True,
        basic=True,
    )
    p: float | None = setting(None, "Exponent for --norm lp.", METHOD)
    eps: tuple[float, ...] = setting(
        (0.1,), "Size of the perturbation, e.g. 0.1 or 8/255, in pixel units [0,1], of other data in units of the inputs; repeatable. "
        "It is for every norm; linf:8/255 is for that one.",
        METHOD, read=parse_number, many=True, basic=True,
    )  # fmt: skip

    def check(self) -> None:
        Norm.parse(self.norm, self.p)
        if not self.eps:
            raise UsageError("at least one eps is needed")
        for eps in self.eps:
            parse_eps(eps)
        if len(set(self.eps)) < len(self.eps):
            raise UsageError(f"each eps may be given once, got {', '.join(map(str, self.eps))}")

    @property
    def delta_norm(self) -> Norm:
        return Norm.parse(self.norm, self.p)


@dataclass(frozen=True)
class Twin(Settings):
    """Which of several softplus versions of the network a task is about; None where the run has one."""

    beta: float | None = None


@dataclass(frozen=True)
class Precision(Settings):
    """How numbers are held."""

    dtype: str = setting(
        "float32", "Number type of weights, images and products.", RUN, choices=("float32", "float64"), basic=True
    )


@dataclass(frozen=True)
class Arithmetic(Precision):
    """Also how numbers are drawn, and how often what is drawn may mislead."""

    failure: float = setting(
        1e-3, "Probability, per sample, that an upper bound is too small; with --smooth, that a row claims too much.", SOLVER,
    )  # fmt: skip
    seed: int = setting(0, "Random draws depend on this and the sample's index alone.", RUN, least=0)

    def check(self) -> None:
        if not (LEAST_FAILURE <= self.failure < 1 and math.isfinite(self.failure)):
            raise UsageError(f"--failure must be a probability from {LEAST_FAILURE:g} to below 1, got {self.failure}")
