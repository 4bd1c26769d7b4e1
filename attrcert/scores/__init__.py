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
        "adv-insertion": "attrcert.scores.adversarial_insertion:AdversarialInsertion",
        "local-robustness": "attrcert.scores.local_robustness:LocalRobustness",
        "crc": "attrcert.scores.cosine_criterion:CosineCriterion",
        "stability": "attrcert.scores.relative_stability:RelativeStability",
        "localisation": "attrcert.scores.localisation:Localisation",
    },
    {"ris": "stability", "ros": "stability", "rrs": "stability", "localization": "localisation"},
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


SHARES, DRAWS = ("fill", "shares"), ("random_draws",)
SOLVER = ("linf_method", "proved", "slack", "max_steps", "failure")
ABOUT: dict[str, About] = {
    "rps": About(by_eps=True, settings=DRAWS),
    "insertion": About(settings=SHARES),
    "deletion": About(settings=SHARES),
    "adv-insertion": About(by_eps=True, curved=True, settings=(*SHARES, "steps")),
    "local-robustness": About(by_eps=True, curved=True, of_twin=True, settings=(*DRAWS, *SOLVER, "steps")),
    "crc": About(by_eps=True, curved=True, of_twin=True, settings=(*DRAWS, *SOLVER)),
    "stability": About(by_eps=True, settings=(*DRAWS, "inner_layer")),
    "localisation": About(settings=("boxes", "loc_threshold", "loc_map")),
}


def register(name: str, member: "type[Score]", about: About, *columns: Column) -> None:
    """One more metric, with the columns that its figures stand in."""
    SCORES.register(name, member)
    ABOUT[name], COLUMNS_OF[name] = about, score_columns(name, *columns)
    for column in COLUMNS_OF[name]:
        add_column(column, "score")
