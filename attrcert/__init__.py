"""How far can a feature attribution be moved by a perturbation of size eps? Bounds and attacks, per sample."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrcert.attacks import ATTACKS as ATTACKS
    from attrcert.attributions import ATTRIBUTIONS as ATTRIBUTIONS
    from attrcert.draws import Draws as Draws
    from attrcert.linalg.enclosure import TopSingularValue as TopSingularValue
    from attrcert.loading.checkpoints import ModelSpec as ModelSpec
    from attrcert.loading.classifier import Classifier as Classifier
    from attrcert.loading.datasets import DataSpec as DataSpec
    from attrcert.metrics import METRICS as METRICS
    from attrcert.reporting.summaries import summarise as summarise
    from attrcert.rowfiles import RowFile as RowFile
    from attrcert.running.catalogue import families as families
    from attrcert.running.config import AttackConfig as AttackConfig
    from attrcert.running.config import BoundConfig as BoundConfig
    from attrcert.running.runs import RunOptions as RunOptions
    from attrcert.running.runs import attack as attack
    from attrcert.running.runs import bound as bound
    from attrcert.running.runs import examine as examine
    from attrcert.running.runs import open_run as open_run

_HOMES = {
    "ATTACKS": "attrcert.attacks",
    "ATTRIBUTIONS": "attrcert.attributions",
    "AttackConfig": "attrcert.running.config",
    "BoundConfig": "attrcert.running.config",
    "Classifier": "attrcert.loading.classifier",
    "DataSpec": "attrcert.loading.datasets",
    "Draws": "attrcert.draws",
    "METRICS": "attrcert.metrics",
    "ModelSpec": "attrcert.loading.checkpoints",
    "RowFile": "attrcert.rowfiles",
    "RunOptions": "attrcert.running.runs",
    "TopSingularValue": "attrcert.linalg.enclosure",
    "attack": "attrcert.running.runs",
    "bound": "attrcert.running.runs",
    "examine": "attrcert.running.runs",
    "families": "attrcert.running.catalogue",
    "open_run": "attrcert.running.runs",
    "summarise": "attrcert.reporting.summaries",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Torch is imported by the names that need it, not by the package."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attrcert' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
