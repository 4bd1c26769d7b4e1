"""The tasks of attributions that are averaged over noise: what is certified of them, and its inversions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from attrcert.attributions import SMOOTHED
from attrcert.columns import TURN, Cell
from attrcert.errors import UsageError
from attrcert.settings.attacking import Turning
from attrcert.settings.bounding import Largest
from attrcert.settings.smoothing import Grid, Pixels, Smoothing, Spreads
from attrcert.settings.tasks import Task
from attrcert.vocabulary import CENTRE, COSINE, NOISES, NormKind


@dataclass(frozen=True, init=False)
class Certifying(Task, ABC):
    """What these tasks have in common."""

    smoothing: Smoothing
    largest: Largest

    asked: ClassVar[str]  # as manifests tell it
    command: ClassVar[str] = "certify"

    @property
    def work(self) -> str:
        return f"attrcert.running.evaluating.{'centring:Centres' if self.centred else 'smoothing:Certificates'}"

    @property
    def centred(self) -> bool:
        """Whether a centre is certified and not a mean."""
        return self.smoothing.smooth == CENTRE

    def check(self) -> None:
        if self.centred and self.asked != "bound":
            raise UsageError(f"--smooth {CENTRE} is for bound, got {self.asked}", hint="--smooth gaussian")
        if self.perturbation.delta_norm.kind is not NormKind.L2:
            raise UsageError(f"smoothing certificates are for l2, got norm {self.perturbation.norm}")
        if self.explanation.attribution in SMOOTHED:
            raise UsageError(
                f"--smooth does the smoothing; the attribution must be a plain one, got {self.explanation.attribution}"
            )

    def identity(self) -> dict[str, Any]:
        told = {name: value for name, value in super().identity().items() if name not in _SPREADS}
        search = told.get("search", "smallest")
        return {**told, "task": self.asked, "spread": self.spread, "best": self.best, "search": search}

    @property
    def label(self) -> str:
        return f"{self.explanation.label}, {self.smoothing.bounded}"

    @property
    def idle(self) -> dict[str, str]:
        averages = dict.fromkeys(("bounded", "rule", "confidence", "stop_when"), "averages over noise")
        return super().idle | (averages if self.centred else {})

    def about(self, classes: str, *others: Task) -> str:
        how = "its centre under" if self.centred else "averaged over"
        maps = ", ".join(one.explanation.label for one in (self, *others))
        made = f"made {self.smoothing.bounded} and {how} {self.smoothing.noise} noise ({self.spread_name} below)"
        return f"{maps} of {classes}, {made}"

    @property
    @abstractmethod
    def spread(self) -> tuple[float, ...]:
        """The radii of uniform noise, or the sigmas of Gaussian noise."""

    @property
    def spread_name(self) -> str:
        """What they are called."""
        return NOISES[self.smoothing.noise]

    @property
    def best(self) -> bool:
        """Whether each sample takes the best of them."""
        return False

    @property
    def choosing(self) -> bool:
        """Whether a choice is made from them, so that all must hold together."""
        return self.best

    @property
    def evaluations(self) -> int:
        return self.smoothing.looks[0] * len(self.spread)

    @property
    def thresholds(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"threshold_kind": COSINE, "threshold": T} for T in self.smoothing.min_cosine)

    def need_threshold(self) -> None:
        if not self.smoothing.min_cosine:
            raise UsageError(f"{self.asked} with smoothing needs --min-cosine", hint="e.g. --min-cosine 0.9")

    def notes(self, samples: int) -> dict[str, str | None]:
        return {"failure": self._sharing(samples)}

    def _sharing(self, samples: int) -> str:
        """What the failure is the failure of."""
        if self.smoothing.simultaneous:
            return f"for all {samples} samples and every {self.spread_name} together"
        return (
            "for each sample, all of the grid together" if self.choosing else f"for each sample and {self.spread_name}"
        )


_SPREADS = ("sigma", "radius", "radii", "max_radius")  # told as `spread`
_NO_STOP = "--stop-when certified needs a threshold that is met or not: bound or min-radius with --min-cosine"


@dataclass(frozen=True, init=False)
class CertifyingAt(Certifying):
    """What those have in common that are told how far the noise reaches."""

    spreads: Spreads

    @property
    def spread(self) -> tuple[float, ...]:
        return self.spreads.of(self.smoothing.noise)[0]

    @property
    def best(self) -> bool:
        return self.spreads.of(self.smoothing.noise)[1]


@dataclass(frozen=True, init=False)
class CertifyConfig(CertifyingAt):
    """`attrcert bound --smooth`: the cosine that a smoothed attribution keeps within eps."""

    asked: ClassVar[str] = "bound"

    def check(self) -> None:
        super().check()
        if self.best:
            raise UsageError(
                f"--{self.spread_name} best is for max-eps, which takes the best of a grid for each sample; {self.asked} needs numbers"
            )
        if len(self.smoothing.min_cosine) > 1:
            raise UsageError(
                f"{self.asked} takes one --min-cosine, got {', '.join(map(str, self.smoothing.min_cosine))}"
            )
        if self.smoothing.stop_when == "certified" and not self.smoothing.min_cosine:
            raise UsageError(_NO_STOP)

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"eps": eps, "radius": r} for r in self.spread for eps in self.perturbation.eps)


@dataclass(frozen=True, init=False)
class SmoothConfig(CertifyConfig):
    """`attrcert smooth`: the maps themselves; its rows say how many of their pixels are certified."""

    pixels: Pixels

    asked: ClassVar[str] = "smooth"
    command: ClassVar[str] = "pixels"
    alone: ClassVar[str] = "it writes one file of maps"
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("eps", "min_cosine"), "a map is the same for every one; `attrcert bound --smooth` certifies the maps"
    )

    def check(self) -> None:
        super().check()
        if len(self.spread) > 1:
            raise UsageError(f"smooth takes one radius or sigma, got {len(self.spread)}")
        if self.pixels.certify_pixels is not None and self.smoothing.smooth != "gaussian":
            raise UsageError(
                f"--certify-pixels is for gaussian noise, got {self.smoothing.smooth}: its radius, sigma Phi^-1(p), holds for that alone",
                hint="--smooth gaussian --sigma r/sqrt(d) is about as much noise as --radius r on images of d numbers",
            )

    @property
    def idle(self) -> dict[str, str]:
        return super().idle | ({} if self.pixels.certify_pixels else {"pixel_level": "--certify-pixels"})

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"radius": r} for r in self.spread)

    def _sharing(self, samples: int) -> str:
        together = self.smoothing.simultaneous
        return (
            f"for all pixels of all {samples} samples together" if together else "for all pixels of a sample together"
        )


@dataclass(frozen=True, init=False)
class CertifiedAttackConfig(CertifyConfig):
    """`attrcert attack --smooth`: the same, and how far an attack turns it."""

    turning: Turning

    asked: ClassVar[str] = "attack"
    command: ClassVar[str] = "attack-smooth"
    work: ClassVar[str] = "attrcert.running.evaluating.turning:Turns"

    def check(self) -> None:
        super().check()
        if len(self.spread) > 1:
            raise UsageError(f"attack takes one radius or sigma, got {len(self.spread)}")

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({**case, "attack": TURN} for case in super().cases)


@dataclass(frozen=True, init=False)
class CertifiedMaxEpsConfig(CertifyingAt):
    """`attrcert max-eps --smooth`: the largest eps within which it keeps a cosine."""

    asked: ClassVar[str] = "max-eps"
    work: ClassVar[str] = "attrcert.running.evaluating.smoothing:LargestEps"
    refused: ClassVar[Mapping[str, str]] = {"eps": "max-eps finds it"}

    def check(self) -> None:
        super().check()
        self.need_threshold()
        self.spreads.of(self.smoothing.noise)
        if self.smoothing.stop_when == "certified":
            raise UsageError(_NO_STOP)

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        if self.best:
            return self.thresholds
        return tuple({"radius": r, **threshold} for r in self.spread for threshold in self.thresholds)


@dataclass(frozen=True, init=False)
class MinRadiusConfig(Certifying):
    """`attrcert min-radius`: the smallest radius of a grid at which it keeps a cosine within eps."""

    grid: Grid

    asked: ClassVar[str] = "min-radius"
    work: ClassVar[str] = "attrcert.running.evaluating.smoothing:SmallestRadius"
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(("sigma", "radius"), "min-radius finds it")

    def check(self) -> None:
        super().check()
        self.need_threshold()

    @property
    def spread(self) -> tuple[float, ...]:
        return self.grid.of(self.smoothing.noise)

    @property
    def choosing(self) -> bool:
        return self.grid.search == "smallest"

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"eps": eps, **threshold} for eps in self.perturbation.eps for threshold in self.thresholds)

    def _sharing(self, samples: int) -> str:
        if self.choosing or self.smoothing.simultaneous:
            return super()._sharing(samples)
        return "for each sample and case"
