"""What attacks do."""

import math
from dataclasses import dataclass

from attrcert.attacks import ATTACKS
from attrcert.columns import METRIC_COLUMNS, ON_REQUEST
from attrcert.errors import UsageError
from attrcert.settings.bounding import Theorems
from attrcert.settings.declared import ATTACK, Settings, again, declared, default_of, setting
from attrcert.settings.explaining import full_name
from attrcert.settings.others import Other, others_of
from attrcert.vocabulary import Aim, number_or, parse_number

WORST = "worst"  # the best of all attacks
INSERTED = ("insertion", "adv-insertion")  # metrics that put pixels in


def _metrics() -> tuple[str, ...]:
    return tuple(METRIC_COLUMNS)


@dataclass(frozen=True)
class Attacking(Settings):
    """The attacks, their steps and what is measured of them."""

    attack: tuple[str, ...] = setting(
        ("euclidean",), f"{WORST} is the best of all on maps; prediction changes the label instead; repeatable.",
        ATTACK, many=True, choices=lambda: (*ATTACKS, WORST), basic=True,
    )  # fmt: skip
    steps: int = setting(30, "Steps from each start.", ATTACK, least=0, basic=True)
    step_size: float | None = setting(
        None, "auto (adapted as the attack goes), or a fixed size such as 1/255.",
        ATTACK, read=number_or("auto", None), positive=True, unsaid="auto",
    )  # fmt: skip
    restarts: int = setting(3, "Random starts, beside both signs of the bound's worst perturbation.", ATTACK, least=0)
    random_draws: int = setting(
        100, "Draws of the random search, the baseline T_sampled; 0 leaves it out.", ATTACK, least=0
    )
    keep: str | None = setting(
        None, "Metric by which the best iterate is chosen.", ATTACK, choices=_metrics, unsaid="the attack's own",
    )  # fmt: skip
    target_map: str = setting(
        "frame", "What manipulate aims at: frame, sample:N (that sample's map), or an image file.", ATTACK
    )
    map_weight: float = setting(1.0, "Weight of the map in manipulate's loss.", ATTACK, least=0)
    output_weight: float = setting(1.0, "Weight of the probabilities in it.", ATTACK, least=0)
    direction_beta: str | None = setting(
        None, "Softplus beta of the model that leads the way, e.g. 1, or 10:100 to let it grow.", ATTACK, unsaid="the bound's",
    )  # fmt: skip
    measure_on: str = setting(
        "twin", "twin: the model that is bounded; relu: the original network, whose figures are not compared with the bounds.",
        ATTACK, choices=("twin", "relu"),
    )  # fmt: skip
    metric: tuple[str, ...] = setting(
        _metrics, f"What is measured; repeatable. {', '.join(ON_REQUEST)} are measured only where they are named.", ATTACK, many=True,
        choices=lambda: (*_metrics(), *ON_REQUEST), unsaid="all others",
    )  # fmt: skip
    fill: str = setting(
        "zero", "What stands where pixels are left out: zero, mean (the colour that normalisation maps to 0), or blur.",
        ATTACK, choices=("zero", "mean", "blur"),
    )  # fmt: skip
    shares: int = setting(20, "Steps from no pixel to all pixels.", ATTACK, least=1)
    transfer: tuple[str, ...] = setting(
        (), "Attributions on which to measure the same perturbations; repeatable.", ATTACK, read=full_name, many=True
    )
    transfer_from: tuple[str, ...] = setting(
        (), "Another checkpoint: --attack prediction finds perturbations on it too, and tries them on CHECKPOINT. A file or a name "
        "that CHECKPOINT takes, and behind it the settings that differ from CHECKPOINT's: 'other.pt arch=resnet20 std=0.2,0.2,0.2'; "
        "repeatable.",
        ATTACK, many=True, whole=True, metavar="CHECKPOINT",
    )  # fmt: skip

    def check(self) -> None:
        if not self.attack or len(set(self.attack)) < len(self.attack):
            raise UsageError(f"each attack may be named once, and one at least, got {', '.join(self.attack) or 'none'}")
        if "random" in self.attack and not self.random_draws:
            raise UsageError("the random attack needs random draws, got 0")
        object.__setattr__(self, "transfer", tuple(dict.fromkeys(self.transfer)))
        self.betas(), self.others  # or they are refused

    @property
    def others(self) -> tuple[Other, ...]:
        """The checkpoints of --transfer-from."""
        return others_of(self.transfer_from)

    @property
    def on_maps(self) -> tuple[str, ...]:
        """The attacks that move maps."""
        return tuple(name for name in self.attack if Aim.of(name) is Aim.MAP)

    @property
    def predicting(self) -> bool:
        """Whether one changes the prediction."""
        return self.on_maps != self.attack

    @property
    def inserting(self) -> bool:
        """Whether pixels are put in, by a metric."""
        return bool(set(INSERTED) & set(self.metric))

    @property
    def tried(self) -> tuple[str, ...]:
        """The attacks by the names that rows have: behind that on the prediction, the same found on each other checkpoint."""
        found = tuple(f"{Aim.PREDICTION}:{other.name}" for other in self.others)
        return tuple(told for name in self.attack for told in (name, *(() if name in self.on_maps else found)))

    @property
    def idle(self) -> dict[str, str]:
        """Settings that have no effect on these attacks, and what they are for."""
        aimed = dict.fromkeys(("target_map", "map_weight", "output_weight"), "--attack manipulate")
        stepping = dict.fromkeys(("steps", "step_size", "restarts"), "attacks other than random")
        of_maps = (*declared(Theorems), "random_draws", "keep", "direction_beta", "measure_on")
        return {
            **({} if "manipulate" in self.attack else aimed),
            **(stepping if self.attack == ("random",) else {}),
            **({} if self.on_maps else dict.fromkeys(of_maps, "attacks on maps")),
            **({} if self.predicting else {"transfer_from": "--attack prediction"}),
            **({} if self.inserting else dict.fromkeys(("fill", "shares"), f"--metric {', '.join(INSERTED)}")),
        }

    @property
    def notes(self) -> dict[str, str | None]:
        """What a reader of the summary must know of them."""
        measured = "attacks on the original network, whose prediction is explained; T_e and its kin speak of the twin"
        attacked = "predictions of the network as it is, away from the label, or where there is none from the class predicted at x"
        return {
            "measured": measured if self.measure_on == "relu" and self.on_maps else None,
            "attacked": attacked if self.predicting else None,
            "fill": self.fill if self.inserting else None,
        }

    def betas(self) -> tuple[float, float] | None:
        """The softplus betas at the first and last step, of the model that leads the way; None where it is the bound's own."""
        if self.direction_beta is None:
            return None
        first, colon, last = str(self.direction_beta).partition(":")
        pair = parse_number(first, "--direction-beta"), parse_number(last if colon else first, "--direction-beta")
        if not all(0 < beta < math.inf for beta in pair):
            raise UsageError(f"--direction-beta must be positive, e.g. 1 or 10:100, got {self.direction_beta}")
        return pair


@dataclass(frozen=True)
class Turning(Settings):
    """The attack on smoothed attributions."""

    steps: int = again(Attacking, "steps", default_of(Attacking, "steps"))
    restarts: int = again(Attacking, "restarts", 0)
