"""What is measured of attributions, and the task that measures it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from attrcert.columns import METRIC, Cell
from attrcert.errors import UsageError
from attrcert.scores import ABOUT, SCORES, About
from attrcert.settings.declared import METHOD, Settings, again, declared, option, setting
from attrcert.settings.explaining import Perturbation
from attrcert.settings.tasks import BoundConfig
from attrcert.vocabulary import NormKind

SIZES = (4, 8, 16)  # of joo2023towards, in grey levels


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
    fill: str = setting(
        "zero", "What stands where pixels are left out: zero, mean (the colour that normalisation maps to 0), or blur.",
        METHOD, choices=("zero", "mean", "blur"), basic=True,
    )  # fmt: skip
    shares: int = setting(20, "Steps from no pixel to all pixels.", METHOD, least=1)
    random_draws: int = setting(10, "Random perturbations of a sample at each eps.", METHOD, least=1)

    def check(self) -> None:
        if not self.metric or len(set(self.metric)) < len(self.metric):
            raise UsageError(f"each metric may be named once, and one at least, got {', '.join(self.metric) or 'none'}")

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
            (
                "k",
                "ball",
                "proved",
                "eta_draws",
                "label_constraint",
                "margin_classes",
                "linf_method",
                "slack",
                "max_steps",
            ),
            "no score depends on it",
        ),
    }

    @property
    def differentiates_twice(self) -> bool:
        return any(about.curved for about in self.scoring.about.values())

    @property
    def perturbs(self) -> bool:  # type: ignore[override]
        return any(about.by_eps for about in self.scoring.about.values())

    @property
    def idle(self) -> dict[str, str]:
        used = {name for about in self.scoring.about.values() for name in about.settings}
        users: dict[str, list[str]] = {}
        for metric, about in ABOUT.items():
            for name in (*about.settings, *(declared(Nearness) if about.by_eps else ())):
                users.setdefault(name, []).append(metric)
        near = declared(Nearness) if self.perturbs else ()
        return {
            **super().idle,
            **{
                name: f"{option('metric')} {', '.join(metrics)}"
                for name, metrics in users.items()
                if name not in (*used, *near)
            },
        }

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple(
            {METRIC.name: name, **case}
            for name, about in self.scoring.about.items()
            for case in ([{"eps": eps} for eps in self.perturbation.eps] if about.by_eps else [{}])
        )
