"""What `attrcert audit` is asked for, and the perturbations that it takes where none are named."""

import math
from dataclasses import dataclass
from pathlib import Path

from attrcert.settings.declared import METHOD, OUTPUT, RUN, Settings, setting
from attrcert.settings.output import path
from attrcert.vocabulary import parse_eps, parse_number

GREY = 1 / 255  # one of the 255 steps of an 8-bit pixel
ROUNDING = 1 / math.sqrt(12)  # grey levels by which rounding to 8 bits changes a pixel, root mean square
HALF = 1 / 2  # and at most
JPEG = 2.0  # grey levels, root mean square: about the least that JPEG does at quality 90
JPEG_90 = "2 to 5"  # measured: medians over 200 images of MNIST, Fashion-MNIST and CIFAR-10 are 2.3, 2.8 and 5.2
LINF = (2.0, 8.0)  # grey levels
HUNDREDTHS = (1.0, 10.0)  # of a standard deviation


@dataclass(frozen=True)
class Yard:
    """What perturbations of inputs of `d` numbers are measured by: grey levels of a pixel, or where inputs are no pixels hundredths of
    the features' standard deviation, `spread`, root mean square over the features.
    """

    d: int
    spread: float | None = None

    @property
    def unit(self) -> float:
        return GREY if self.spread is None else self.spread / 100

    def eps(self, levels: float, norm: str) -> float:
        """Of a change by so many units: root mean square over the numbers in l2, at most in linf."""
        return levels * self.unit * (math.sqrt(self.d) if norm == "l2" else 1)

    def levels(self, eps: float, norm: str) -> float:
        """The inverse."""
        return eps / self.unit / (math.sqrt(self.d) if norm == "l2" else 1)

    def tried(self, norm: str) -> tuple[float, ...]:
        """Where attacks are made where nothing else is asked for."""
        if norm == "linf" and self.spread is None:
            return tuple(self.eps(levels, norm) for levels in LINF)
        return tuple(_short(self.eps(levels, norm)) for levels in (HUNDREDTHS if self.spread else (ROUNDING, JPEG)))

    def slight(self, norm: str) -> float:
        """What nobody would notice: rounding to 8 bits, or a hundredth of the standard deviation."""
        rounding = ROUNDING if norm == "l2" else HALF
        return _short(self.eps(rounding if self.spread is None else HUNDREDTHS[0], norm))

    @property
    def told(self) -> str:
        """What is counted."""
        if self.spread is None:
            return "in grey levels (of 255) by which a pixel changes"
        return f"in hundredths of the features' standard deviation ({self.spread:.3g} on average)"

    def compared(self, levels: float) -> str:
        """With what rounding and JPEG do to pixels."""
        if self.spread is not None:
            return ""
        rounding, jpeg = f"rounding to 8 bits ({ROUNDING:.2g})", f"JPEG at quality 90 ({JPEG_90})"
        for most, words in (
            (ROUNDING / 2, f"less than {rounding}"),
            (2 * ROUNDING, f"about {rounding}"),
            (0.9 * JPEG, f"less than {jpeg}"),
            (3 * JPEG, f"about {jpeg}"),
        ):
            if levels < most:
                return f", {words}"
        return f", more than {jpeg}"


@dataclass(frozen=True)
class Auditing(Settings):
    """How long an audit may take, what it tries, and where it goes."""

    minutes: float = setting(
        10.0, "Time for all parts together; they share it by what a sample was seen to take.", RUN,
        read=parse_number, positive=True, basic=True,
    )  # fmt: skip
    eps_l2: tuple[float, ...] = setting(
        (), "Sizes of perturbation in l2, in pixel units, of other data in units of the inputs; repeatable.", METHOD,
        read=parse_number, many=True, basic=True,
        unsaid="by the input's size: what rounding to 8 bits does, and 2 grey levels a pixel, as JPEG at quality 90; of other data "
        "1 % and 10 % of the features' standard deviation",
    )  # fmt: skip
    eps_linf: tuple[float, ...] = setting(
        (), "Sizes of perturbation in linf; repeatable.", METHOD, read=parse_number, many=True, basic=True,
        unsaid="2/255, 8/255; of other data 1 % and 10 % of the features' standard deviation",
    )  # fmt: skip
    out: Path = setting(
        Path("audit"), "Folder for the rows, the report and the verdict; an audit that is there goes on.", OUTPUT,
        read=path, flags=("--out", "-o"), basic=True,
    )  # fmt: skip
    overwrite: bool = setting(False, "Replace the audit that --out holds.", OUTPUT, basic=True)

    def check(self) -> None:
        for eps in (*self.eps_l2, *self.eps_linf):
            parse_eps(eps)

    def attacked(self, norm: str, yard: Yard) -> tuple[float, ...]:
        """Where attacks are made."""
        given: tuple[float, ...] = getattr(self, f"eps_{norm}")
        return given or yard.tried(norm)

    def proved(self, norm: str, yard: Yard) -> tuple[float, ...]:
        """Where a bound is to be proved: what nobody would notice, or less where attacks are made there, and tenths of it."""
        largest = min(yard.slight(norm), *self.attacked(norm, yard))
        return _short(largest / 100), _short(largest / 10), largest


def _short(eps: float) -> float:
    return float(f"{eps:.2g}")
