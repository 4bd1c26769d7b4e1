"""What is measured of attributions, and the task that measures it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from attrcert.columns import METRIC, Cell
from attrcert.errors import UsageError
from attrcert.scores import ABOUT, SCORES, About
from attrcert.settings.attacking import Attacking
from attrcert.settings.declared import DATA, METHOD, Settings, again, declared, default_of, option, setting
from attrcert.settings.explaining import Perturbation
from attrcert.settings.presets import PRESETS
from attrcert.settings.tasks import BoundConfig
from attrcert.vocabulary import NormKind

SIZES = (4, 8, 16)  # of joo2023towards, in grey levels
LARGEST_SHARE = 0.999


@dataclass(frozen=True)
class Nearness(Perturbation):
    """The perturbations of metrics that perturb."""

    norm: str = again(Perturbation, "norm", NormKind.LINF.value)
    eps: tuple[float, ...] = again(
        Perturbation, "eps", tuple(size / 255 for size in SIZES), unsaid=", ".join(f"{size}/255" for size in SIZES)
    )


def _full_name(text: str, name: str) -> str:
    return SCORES.name(text, name)


@dataclass(frozen=True)
class Scoring(Settings):
    """The metrics, and what each of them can be asked for."""

    metric: tuple[str, ...] = setting(
        ("insertion", "deletion", "rps"), "What is measured; repeatable: rows for each.",
        METHOD, read=_full_name, many=True, choices=lambda: tuple(SCORES), basic=True,
    )  # fmt: skip
    fill: str = again(Attacking, "fill", default_of(Attacking, "fill"), panel=METHOD, basic=True)
    shares: int = again(Attacking, "shares", default_of(Attacking, "shares"), panel=METHOD)
    random_draws: int = setting(
        10, "Random perturbations of a sample at each eps; Quantus takes 200 for stability.", METHOD, least=1
    )
    steps: int = setting(
        PRESETS["joo"].settings["steps"], "Steps of the attacks of adv-insertion and local-robustness.", METHOD, least=0
    )
    inner_layer: str | None = setting(
        None, "The layer whose output rrs compares, by its name in the network.", METHOD,
        unsaid="the last convolution; without one, what the last linear layer is given",
    )  # fmt: skip

    boxes: str | None = setting(
        None, "True boxes, for localisation: a COCO .json, or CUB's bounding_boxes.txt. Images are matched by their "
        "files' names; where the data have none, an image's id is its place, from 0.", DATA, metavar="FILE",
    )  # fmt: skip
    loc_threshold: float = setting(
        0.2,
        "Localisation takes the box of the largest part of the map above this share of its range.",
        METHOD,
        least=0,
        most=LARGEST_SHARE,
    )
    loc_map: str = setting(
        "plain", "plain: |g|, summed over channels; art: the gradient of the loss, smoothed as singh2020attributional does.",
        METHOD, choices=("plain", "art"),
    )  # fmt: skip

    def check(self) -> None:
        if not self.metric or len(set(self.metric)) < len(self.metric):
            raise UsageError(f"each metric may be named once, and one at least, got {', '.join(self.metric) or 'none'}")
        if "localisation" in self.metric and not self.boxes:
            raise UsageError(
                "--metric localisation needs --boxes", hint="--boxes FILE, a COCO .json or CUB's bounding_boxes.txt"
            )

    @property
    def about(self) -> dict[str, About]:
        """What is known of each metric that is asked for."""
        return {name: ABOUT[name] for name in self.metric}


@dataclass(frozen=True, init=False)
class ScoreConfig(BoundConfig):
    """`attrcert score`: how good and how stable attributions are, by metrics."""

    perturbation: Nearness
    scoring: Scoring

    command: ClassVar[str] = "score"
    done: ClassVar[str] = "scored"
    work: ClassVar[str] = "attrcert.running.evaluating.scoring:Scores"
    refused: ClassVar[Mapping[str, str]] = {
        "loss_hessian": "the attributions of logits are scored",
        **dict.fromkeys(
            ("k", "ball", "eta_draws", "label_constraint", "margin_classes"), "no figure of a score depends on it"
        ),
    }

    def check(self) -> None:
        super().check()
        explained = self.explanation
        if self.scoring.loc_map == "art" and (explained.attribution, explained.target) != ("saliency", "predicted"):
            raise UsageError(
                "--loc-map art is the gradient of the predicted class's loss and takes no other --attribution or --target, got "
                f"{explained.attribution} of {explained.target}"
            )
        if self.perturbs and self.perturbation.delta_norm.kind is NormKind.LP:
            raise UsageError("scores are for l2 and linf, got norm lp")

    @property
    def differentiates_twice(self) -> bool:
        return any(about.curved for about in self.scoring.about.values())

    @property
    def perturbs(self) -> bool:  # type: ignore[override]
        return any(about.by_eps for about in self.scoring.about.values())

    @property
    def idle(self) -> dict[str, str]:
        users: dict[str, list[str]] = {}
        for metric, about in ABOUT.items():
            for name in (*about.settings, *(declared(Nearness) if about.by_eps else ())):
                users.setdefault(name, []).append(metric)
        unused = {name: metrics for name, metrics in users.items() if not set(metrics) & set(self.scoring.metric)}
        return {
            **super().idle,
            **{name: f"{option('metric')} {', '.join(metrics)}" for name, metrics in unused.items()},
        }

    def notes(self, samples: int) -> dict[str, str | None]:
        about = self.scoring.about
        measured: dict[bool, list[str]] = {}
        for name, one in about.items():
            measured.setdefault(one.of_twin, []).append(name)
        words = {False: "the network as it is", True: "its softplus version"}
        told = "; ".join(f"{', '.join(names)}: {words[twin]}" for twin, names in measured.items())
        filled = any("fill" in one.settings for one in about.values())
        scoring = self.scoring
        boxes = f"{scoring.boxes}; threshold {scoring.loc_threshold:g} of the {scoring.loc_map} map"
        return {
            "boxes": boxes if "localisation" in about else None,
            "fill": self.scoring.fill if filled else None,
            "measured": told if self.differentiates_twice and False in measured else None,
        }

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple(
            {METRIC.name: name, **case}
            for name, about in self.scoring.about.items()
            for case in ([{"eps": eps} for eps in self.perturbation.eps] if about.by_eps else [{}])
        )
