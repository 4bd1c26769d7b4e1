"""What a run computes: a task has the settings that it needs, in parts, and says its columns, its cases and who computes its rows."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from attrcert.attributions import SMOOTHED, is_own
from attrcert.columns import COLUMNS, Cell, Column, attack_columns
from attrcert.errors import UsageError
from attrcert.registry import unknown
from attrcert.settings.attacking import Attacking
from attrcert.settings.bounding import Largest, Theorems, Thresholds
from attrcert.settings.declared import Setting, Settings, declared, option, taken
from attrcert.settings.explaining import OWN_SETTINGS, Arithmetic, Averaging, Explanation, Perturbation, Twin
from attrcert.vocabulary import NormKind

T = TypeVar("T", bound="Task")


@dataclass(frozen=True, init=False)
class Task:
    """Made of settings by their names, whichever part they belong to: BoundConfig(eps=0.1, norm="linf")."""

    explanation: Explanation
    perturbation: Perturbation
    arithmetic: Arithmetic
    twin: Twin

    refused: ClassVar[Mapping[str, str]] = {}  # settings that mean nothing here, and why
    alone: ClassVar[str] = ""  # why there cannot be several attributions, where there cannot
    done: ClassVar[str] = "bounded"  # what it does to attributions, as its tables say
    perturbs: ClassVar[bool] = True  # whether anything depends on the ball

    def __init__(self, **given: Any) -> None:
        known, parts = settings_of(type(self)), parts_of(type(self))
        for name in given:
            if name in self.refused:
                raise UsageError(f"{option(name)} means nothing here: {self.refused[name]}")
            if name not in known and name not in parts:
                raise unknown("setting", name, known)
        for name, kind in parts.items():  # a part may be given whole, as dataclasses.replace does
            object.__setattr__(self, name, replace(given.get(name) or kind(), **taken(kind, given)))
        self.check()

    @property
    @abstractmethod
    def command(self) -> str:
        """Under which its rows are saved."""

    @property
    @abstractmethod
    def work(self) -> str:
        """package.module:Class that computes them."""

    def check(self) -> None:
        """What must hold of several parts together."""

    @property
    def singles(self) -> tuple["Task", ...]:
        """The tasks of one attribution and one norm each that it is made of."""
        return (self,)

    def replacing(self: T, **given: Any) -> T:
        """The same with other settings."""
        return replace(self, **given)

    def flat(self) -> dict[str, Any]:
        """All settings by name, also those that mean nothing here."""
        return {
            name: getattr(getattr(self, part), name)
            for part, kind in parts_of(type(self)).items()
            for name in declared(kind)
        }

    def identity(self) -> dict[str, Any]:
        """Everything that a result depends on; the label tells the arguments of an attribution."""
        told = {name: value for name, value in self.flat().items() if name != "attribution_args"}
        return {**told, "attribution": self.label}

    @property
    def label(self) -> str:
        """The attribution with the parameters that change its value."""
        return self.explanation.label

    @property
    def averaged(self) -> Averaging | None:
        """The noise of an attribution that is an average over it."""
        return None

    @property
    def of_loss(self) -> bool:
        """Whether the gradient of the loss is explained."""
        return False

    @property
    def differentiates_twice(self) -> bool:
        """Whether ReLUs must run as softplus."""
        return False

    @property
    def evaluations(self) -> int:
        """How often the attribution of a sample is computed, at least."""
        return 1

    @property
    def forms_matrices(self) -> bool:
        """Whether d x d matrices are formed, which can take long."""
        return False

    def about(self, classes: str, *others: "Task") -> str:
        """What is explained, here and by others, of the class that these words name."""
        return f"{', '.join(one.label for one in (self, *others))} of {classes}"

    @property
    def explained(self) -> set[str]:
        """All attributions that are computed."""
        return {self.explanation.attribution} | ({self.averaged.smooth_base} if self.averaged else set())

    @property
    def idle(self) -> dict[str, str]:
        """Settings, also of the model and of the computation, that have no effect as the others are, and what they are for."""
        return {
            **({} if any(map(is_own, self.explained)) else {"attribution_args": "attributions of your own"}),
            **{
                setting: name
                for name, own in OWN_SETTINGS.items()
                for setting in own.values()
                if name not in self.explained
            },
            **(
                {}
                if self.differentiates_twice
                else {"softplus_beta": "bounds that need a Hessian, and here the network runs as it is"}
            ),
            **({} if self.forms_matrices else {"max_hours": "--norm linf --linf-method row-sums"}),
        }

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        """What the rows of one sample differ in."""
        return tuple({"eps": eps} for eps in self.perturbation.eps)

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS[self.command]

    def notes(self, samples: int) -> dict[str, str | None]:
        """What a reader of the summary must know beside the attribution and the ball, of a run of so many samples."""
        return {}


def parts_of(task: type[Task]) -> dict[str, type[Settings]]:
    """The parts that a task has, by name."""
    return {one.name: one.type for one in fields(task) if isinstance(one.type, type) and issubclass(one.type, Settings)}


def homes(task: type[Task]) -> dict[str, type[Settings]]:
    """The part that each setting of a task is in, also of those that the task refuses."""
    return {name: part for part in parts_of(task).values() for name in declared(part)}


def settings_of(task: type[Task]) -> dict[str, Setting]:
    """All settings of a task by name."""
    return {name: declared(part)[name] for name, part in homes(task).items() if name not in task.refused}


@dataclass(frozen=True, init=False)
class BoundConfig(Task):
    """`attrcert bound`: first-order and proved bounds."""

    noise: Averaging
    bounding: Theorems
    largest: Largest

    command: ClassVar[str] = "bound"
    work: ClassVar[str] = "attrcert.running.evaluating.bounding:Bounds"

    def check(self) -> None:
        for asked, name in (
            (self.bounding.ball, "the ball-wide estimate is"),
            (self.bounding.proved, "proved bounds are"),
        ):
            if asked and self.perturbation.delta_norm.kind is NormKind.LP:
                raise UsageError(f"{name} for l2 and linf, got norm lp")
        if self.of_loss and self.explanation.attribution not in ("saliency", "loss-gradient"):
            raise UsageError(
                "--loss-hessian bounds the gradient of the loss and takes no other attribution, "
                f"got {self.explanation.attribution}"
            )

    @property
    def label(self) -> str:
        if self.of_loss:
            return "loss-gradient"
        return self.explanation.label if self.averaged is None else self.averaged.label(self.explanation)

    @property
    def averaged(self) -> Averaging | None:
        return self.noise if self.explanation.attribution in SMOOTHED else None

    @property
    def idle(self) -> dict[str, str]:
        unused = super().idle
        if not self.explained & set(SMOOTHED):
            unused |= dict.fromkeys(declared(Averaging), " and ".join(SMOOTHED))
        unused |= {spread: name for name, spread in SMOOTHED.items() if name not in self.explained}
        if self.bounding.label_constraint == "off":
            unused["margin_classes"] = "--label-constraint check, tighten and compare"
        return unused | ({} if self.perturbation.norm == "linf" else {"linf_method": "--norm linf"})

    @property
    def of_loss(self) -> bool:
        return self.bounding.loss_hessian

    @property
    def differentiates_twice(self) -> bool:
        return not self.of_loss

    @property
    def forms_matrices(self) -> bool:
        linf = self.perturbation.delta_norm.kind is NormKind.LINF
        return self.differentiates_twice and linf and "row-sums" in self.bounding.linf_method


@dataclass(frozen=True, init=False)
class AttackConfig(BoundConfig):
    """`attrcert attack`: bounds, and how far attacks get."""

    attacking: Attacking

    command: ClassVar[str] = "attack"
    work: ClassVar[str] = "attrcert.running.evaluating.attacking:Attacks"
    refused: ClassVar[Mapping[str, str]] = {"loss_hessian": "attacks move the attributions of logits"}

    def check(self) -> None:
        super().check()
        if self.perturbation.delta_norm.kind is NormKind.LP:
            raise UsageError("attacks are for l2 and linf, got norm lp")

    @property
    def explained(self) -> set[str]:
        return super().explained | set(self.attacking.transfer)

    @property
    def idle(self) -> dict[str, str]:
        return {**super().idle, **self.attacking.idle}

    @property
    def differentiates_twice(self) -> bool:
        return bool(self.attacking.on_maps)

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"eps": eps, "attack": attack} for eps in self.perturbation.eps for attack in self.attacking.tried)

    @property
    def columns(self) -> tuple[Column, ...]:
        others = [other.column for other in self.attacking.others]
        return attack_columns(self.attacking.transfer, self.attacking.metric, others)

    @property
    def done(self) -> str:  # type: ignore[override]
        return "bounded" if self.attacking.on_maps else "compared"

    def notes(self, samples: int) -> dict[str, str | None]:
        return dict(self.attacking.notes)


@dataclass(frozen=True, init=False)
class MaxEpsConfig(BoundConfig):
    """`attrcert max-eps`: first-order and proved bounds, inverted."""

    thresholds: Thresholds

    command: ClassVar[str] = "max-eps"
    work: ClassVar[str] = "attrcert.running.evaluating.inverting:Inversions"
    refused: ClassVar[Mapping[str, str]] = {
        "eps": "max-eps finds it",
        "loss_hessian": "the bound of the loss is not inverted",
        **dict.fromkeys(
            ("ball", "eta_draws", "label_constraint", "margin_classes"), "no figure of max-eps depends on it"
        ),
    }

    def check(self) -> None:
        super().check()
        if not self.thresholds.pairs:
            raise UsageError(
                "max-eps needs a threshold",
                hint="e.g. --max-angle 30, --max-deviation 0.5, or --smooth with --min-cosine 0.9",
            )
        if self.bounding.proved and self.thresholds.corrected:
            raise UsageError("--corrected searches with an estimate and --proved with a bound: choose one")

    @property
    def cases(self) -> tuple[dict[str, Cell], ...]:
        return tuple({"threshold_kind": kind, "threshold": value} for kind, value in self.thresholds.pairs)
