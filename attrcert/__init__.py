"""How far can a feature attribution be moved by a perturbation of size eps? Bounds and attacks, per sample."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrcert.attacks import ATTACKS as ATTACKS
    from attrcert.attributions import ATTRIBUTIONS as ATTRIBUTIONS
    from attrcert.auditing.called import audit as audit
    from attrcert.errors import AttrcertError as AttrcertError
    from attrcert.errors import CheckpointError as CheckpointError
    from attrcert.errors import DataError as DataError
    from attrcert.errors import FileError as FileError
    from attrcert.errors import ModelError as ModelError
    from attrcert.errors import ResumeError as ResumeError
    from attrcert.errors import UsageError as UsageError
    from attrcert.library import attack as attack
    from attrcert.library import bound as bound
    from attrcert.library import doctor as doctor
    from attrcert.library import max_eps as max_eps
    from attrcert.library import min_radius as min_radius
    from attrcert.library import score as score
    from attrcert.library import smooth as smooth
    from attrcert.metrics import METRICS as METRICS
    from attrcert.networks.classifier import Classifier as Classifier
    from attrcert.pages import report as report
    from attrcert.results import Rows as Rows
    from attrcert.results import gate as gate
    from attrcert.running.opening.opening import open_run as open_run
    from attrcert.settings.certifying import CertifiedMaxEpsConfig as CertifiedMaxEpsConfig
    from attrcert.settings.certifying import CertifyConfig as CertifyConfig
    from attrcert.settings.certifying import MinRadiusConfig as MinRadiusConfig
    from attrcert.settings.certifying import SmoothConfig as SmoothConfig
    from attrcert.settings.computing import RunOptions as RunOptions
    from attrcert.settings.scoring import ScoreConfig as ScoreConfig
    from attrcert.settings.sources import DataSpec as DataSpec
    from attrcert.settings.sources import ModelSpec as ModelSpec
    from attrcert.settings.tasks import AttackConfig as AttackConfig
    from attrcert.settings.tasks import BoundConfig as BoundConfig
    from attrcert.settings.tasks import MaxEpsConfig as MaxEpsConfig

_HOMES = {
    **dict.fromkeys(("bound", "attack", "max_eps", "min_radius", "score", "smooth", "doctor"), "attrcert.library"),
    **dict.fromkeys(("Rows", "gate"), "attrcert.results"),
    "report": "attrcert.pages",
    "audit": "attrcert.auditing.called",
    "open_run": "attrcert.running.opening.opening",
    **dict.fromkeys(("BoundConfig", "AttackConfig", "MaxEpsConfig"), "attrcert.settings.tasks"),
    **dict.fromkeys(
        ("CertifyConfig", "CertifiedMaxEpsConfig", "MinRadiusConfig", "SmoothConfig"), "attrcert.settings.certifying"
    ),
    "ScoreConfig": "attrcert.settings.scoring",
    **dict.fromkeys(("ModelSpec", "DataSpec"), "attrcert.settings.sources"),
    "RunOptions": "attrcert.settings.computing",
    "Classifier": "attrcert.networks.classifier",
    "ATTRIBUTIONS": "attrcert.attributions",
    "ATTACKS": "attrcert.attacks",
    "METRICS": "attrcert.metrics",
    **dict.fromkeys(
        ("AttrcertError", "UsageError", "CheckpointError", "ModelError", "DataError", "FileError", "ResumeError"),
        "attrcert.errors",
    ),
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Torch is imported by the names that need it, not by the package."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attrcert' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
