"""Scores of an attribution: how good its maps are, and how stable. Each is a metric of `attrcert score`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attrcert.columns import Column
from attrcert.columns import register as add_column
from attrcert.columns.score import SCORES as COLUMNS_OF
from attrcert.columns.score import score_columns
from attrcert.registry import Family

if TYPE_CHECKING:
    from attrcert.scores.sight import Score

SCORES: "Family[Score]" = Family(
    "score",
    {
        "rps": "attrcert.scores.perturbation_similarity:PerturbationSimilarity",
        "insertion": "attrcert.scores.insertion:Insertion",
        "deletion": "attrcert.scores.insertion:Deletion",
    },
)


@dataclass(frozen=True)
class About:
    """What is known of a metric before it is imported: whether it perturbs the input, with a row for each eps; whether it needs second
    derivatives; whether the softplus version is measured, and not the network as it is; and which settings have an effect on it.
    """

    by_eps: bool = False
    curved: bool = False
    of_twin: bool = False
    settings: tuple[str, ...] = ()


SHARES = ("fill", "shares")
ABOUT: dict[str, About] = {
    "rps": About(by_eps=True, settings=("random_draws",)),
    "insertion": About(settings=SHARES),
    "deletion": About(settings=SHARES),
}


def register(name: str, member: "type[Score]", about: About, *columns: Column) -> None:
    """One more metric, with the columns that its figures stand in."""
    SCORES.register(name, member)
    ABOUT[name], COLUMNS_OF[name] = about, score_columns(name, *columns)
    for column in COLUMNS_OF[name]:
        add_column(column, "score")
