"""How far can a feature attribution be moved by a perturbation of size eps? Bounds, per sample."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrcert.attributions import ATTRIBUTIONS as ATTRIBUTIONS
    from attrcert.linalg.draws import Draws as Draws
    from attrcert.linalg.enclosure import TopSingularValue as TopSingularValue
    from attrcert.loading.classifier import Classifier as Classifier
    from attrcert.running.bound import bound as bound
    from attrcert.running.config import BoundConfig as BoundConfig

_HOMES = {
    "ATTRIBUTIONS": "attrcert.attributions",
    "BoundConfig": "attrcert.running.config",
    "Classifier": "attrcert.loading.classifier",
    "Draws": "attrcert.linalg.draws",
    "TopSingularValue": "attrcert.linalg.enclosure",
    "bound": "attrcert.running.bound",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Torch is imported by the names that need it, not by the package."""
    if name not in _HOMES:
        raise AttributeError(f"module 'attrcert' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
