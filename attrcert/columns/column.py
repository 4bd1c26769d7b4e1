"""What is declared of a column of rows, once: all else (summaries, gates, pages, the catalogue) asks it here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Any, Literal

from attrcert.vocabulary import Aim, Guarantee

ANY_ANGLE, ANY_COSINE = 180.0, -1.0  # degrees, and their cosine: what holds of any two maps
DEGREES = "degrees"
OF_ROW: Literal["row"] = "row"  # a guarantee that each row tells
Cell = str | int | float | bool | None
Row = Mapping[str, Cell]
Direction = Literal["up", "down"]


@dataclass(frozen=True)
class Column:
    """A column of rows.

    What it says: `guarantee` is what its figure promises (`OF_ROW`: as the row tells), `worse` the direction in which it gets worse,
    `lacking` what a usable row counts as that has none because nothing bounds it (not where the figure does not apply), `words` all
    that a text can be, `least` and `most` what a number can be. `asked` is the entry of a run's identity without which it has no such
    figure, `only` the cell of a row without which that row has none, `aim` which attacks alone have it, `since` the schema that it came
    with, `added` that it was registered from outside, so that files may lack it, `case` that it tells the cases of a run apart.

    What it is compared with: `bounds` is the attack's figure that it limits, or the threshold that it keeps; `judges` the column
    whose bound a verdict is about; `follows` the figure that it is made of.

    How it is shown: a `headline` is in summaries, in the order of `rank`, with `note` below (its guarantee's meaning if
    there is none) and `empty` where samples lack it; `axis` and `curve` name it in figures; `compared` are its statistics where runs
    stand side by side; a page shows those with a `place` first, and ranks samples by those that `lead`.
    """

    name: str
    kind: type
    meaning: str
    guarantee: Guarantee | Literal["row"] | None = None
    worse: Direction | None = None
    unit: str = ""
    lacking: float | None = None
    words: tuple[str, ...] = ()
    least: float = -inf
    most: float = inf
    asked: tuple[str, Cell] | None = None
    only: tuple[str, Cell] | None = None
    since: int = 1
    added: bool = False
    case: bool = False
    aim: Aim | None = None
    bounds: str = ""
    judges: str = ""
    follows: str = ""
    headline: bool = False
    rank: int = 100
    note: str | None = None
    empty: str = ""
    axis: str = ""
    curve: str = ""
    compared: tuple[str, ...] = ()
    place: int | None = None
    leads: bool = False

    @property
    def reached(self) -> bool:
        """Whether it was found, and not bounded."""
        return self.guarantee is Guarantee.EMPIRICAL

    @property
    def aimed(self) -> tuple[str, Cell] | None:
        """An attack that it is for."""
        attacks = {Aim.MAP: "euclidean", Aim.PREDICTION: "prediction"}
        return ("attack", attacks[self.aim]) if self.aim else None

    @property
    def promised(self) -> Guarantee | None:
        """What its figures promise whatever the row."""
        return self.guarantee if isinstance(self.guarantee, Guarantee) else None


def figure(
    name: str,
    guarantee: Guarantee | Literal["row"] | None,
    meaning: str,
    *,
    worse: Direction = "up",
    least: float = 0.0,
    **more: Any,
) -> Column:
    """A number that is better small, or large."""
    return Column(name, float, meaning, guarantee, worse, least=least, **more)


def angle(name: str, guarantee: Guarantee | Literal["row"], meaning: str, **more: Any) -> Column:
    """In degrees; a bound that does not hold allows any."""
    lacking = None if guarantee is Guarantee.EMPIRICAL else ANY_ANGLE
    return figure(name, guarantee, meaning, unit=DEGREES, lacking=lacking, most=ANY_ANGLE, **more)


def words(names: type[StrEnum]) -> tuple[str, ...]:
    return tuple(name.value for name in names)
