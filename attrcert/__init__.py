"""How far can a feature attribution be moved by a perturbation of size eps? Bounds and attacks, per sample."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrcert.attacks import ATTACKS as ATTACKS
    from attrcert.attributions import ATTRIBUTIONS as ATTRIBUTIONS
    from attrcert.catalogue import families as families
    from attrcert.draws import Draws as Draws
    from attrcert.linalg.enclosure import TopSingularValue as TopSingularValue
    from attrcert.loading.checkpoints import ModelSpec as ModelSpec
    from attrcert.loading.datasets import DataSpec as DataSpec
    from attrcert.metrics import METRICS as METRICS
    from attrcert.networks.classifier import Classifier as Classifier
    from attrcert.reporting.summaries.bounds import summarise as summarise
    from attrcert.running.opening.runs import RunOptions as RunOptions
    from attrcert.running.opening.runs import attack as attack
    from attrcert.running.opening.runs import bound as bound
    from attrcert.running.opening.runs import examine as examine
    from attrcert.running.opening.runs import open_run as open_run
    from attrcert.running.settings.config import AttackConfig as AttackConfig
    from attrcert.running.settings.config import BoundConfig as BoundConfig
    from attrcert.saved.rowfiles import RowFile as RowFile

_HOMES = {
    "ATTACKS": "attrcert.attacks",
    "ATTRIBUTIONS": "attrcert.attributions",
    "AttackConfig": "attrcert.running.settings.config",
    "BoundConfig": "attrcert.running.settings.config",
    "Classifier": "attrcert.networks.classifier",
    "DataSpec": "attrcert.loading.datasets",
    "Draws": "attrcert.draws",
    "METRICS": "attrcert.metrics",
    "ModelSpec": "attrcert.loading.checkpoints",
    "RowFile": "attrcert.saved.rowfiles",
    "RunOptions": "attrcert.running.opening.runs",
    "TopSingularValue": "attrcert.linalg.enclosure",
    "attack": "attrcert.running.opening.runs",
    "bound": "attrcert.running.opening.runs",
    "examine": "attrcert.running.opening.runs",
    "families": "attrcert.catalogue",
    "open_run": "attrcert.running.opening.runs",
    "summarise": "attrcert.reporting.summaries.bounds",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Torch is imported by the names that need it, not by the package."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attrcert' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
