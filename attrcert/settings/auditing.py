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
LINF = (2 * GREY, 8 * GREY)


@dataclass(frozen=True)
class Auditing(Settings):
    """How long an audit may take, what it tries, and where it goes."""

    minutes: float = setting(
        10.0, "Time for all parts together; they share it by what a sample was seen to take.", RUN,
        read=parse_number, positive=True, basic=True,
    )  # fmt: skip
    eps_l2: tuple[float, ...] = setting(
        (), "Sizes of perturbation in l2, in pixel units; repeatable.", METHOD, read=parse_number, many=True, basic=True,
        unsaid="by the input's size: what rounding to 8 bits does, and 2 grey levels a pixel, as JPEG at quality 90",
    )  # fmt: skip
    eps_linf: tuple[float, ...] = setting(
        LINF, "Sizes of perturbation in linf; repeatable.", METHOD, read=parse_number, many=True, basic=True,
        unsaid="2/255, 8/255",
    )  # fmt: skip
    out: Path = setting(
        Path("audit"), "Folder for the rows, the report and the verdict; an audit that is there goes on.", OUTPUT,
        read=path, flags=("--out", "-o"), basic=True,
    )  # fmt: skip
    overwrite: bool = setting(False, "Replace the audit that --out holds.", OUTPUT, basic=True)

    def check(self) -> None:
        for eps in (*self.eps_l2, *self.eps_linf):
            parse_eps(eps)

    def attacked(self, norm: str, d: int) -> tuple[float, ...]:
        """Where attacks are made, on inputs of d numbers."""
        given: tuple[float, ...] = getattr(self, f"eps_{norm}")
        return given or (_short(ROUNDING * GREY * math.sqrt(d)), _short(JPEG * GREY * math.sqrt(d)))

    def proved(self, norm: str, d: int) -> tuple[float, ...]:
        """Where a bound is to be proved: what rounding to 8 bits does, or less where attacks are made there, and tenths of it."""
        rounding = ROUNDING * math.sqrt(d) if norm == "l2" else HALF
        largest = min(_short(rounding * GREY), *self.attacked(norm, d))
        return _short(largest / 100), _short(largest / 10), largest


def grey_levels(eps: float, norm: str, d: int) -> float:
    """What it changes of a pixel: at most in linf; in l2 root mean square over d numbers."""
    return eps / GREY / (math.sqrt(d) if norm == "l2" else 1)


def compared(levels: float) -> str:
    """With what rounding and JPEG do."""
    rounding, jpeg = f"rounding to 8 bits ({ROUNDING:.2g})", f"JPEG at quality 90 ({JPEG_90})"
    for most, words in (
        (ROUNDING / 2, f"less than {rounding}"),
        (2 * ROUNDING, f"about {rounding}"),
        (0.9 * JPEG, f"less than {jpeg}"),
        (3 * JPEG, f"about {jpeg}"),
    ):
        if levels < most:
            return words
    return f"more than {jpeg}"


def _short(eps: float) -> float:
    return float(f"{eps:.2g}")
