"""The user's own attribution, from its name: a function of a file or module, or a class of Captum; and what tells it apart."""

import hashlib
import inspect
import sys
from collections.abc import Callable, Collection
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrcert.attributions import CAPTUM, Given, is_own
from attrcert.attributions.captum_methods import CaptumMethod
from attrcert.attributions.own import FORM, Function
from attrcert.errors import AttributionError, ModelError
from attrcert.loading.architectures import factory
from attrcert.settings.explaining import Explanation


def own_function(explanation: Explanation) -> Function:
    """Ready to be called with (model, x, target); this runs the code of the user's file."""
    if isinstance(explanation.attribution, Given):
        return partial(explanation.attribution.function, **explanation.attribution_args)
    place, _, name = explanation.attribution.rpartition(":")
    if place == CAPTUM:
        method = CaptumMethod(name, explanation.attribution_args)
        method.check()
        return method
    return partial(_read(explanation.attribution)[0], **explanation.attribution_args)


def own_source(names: Collection[str]) -> dict[str, Any]:
    """Of all own attributions: the digest of the file or of the function's own text, or Captum's version."""
    own = sorted(filter(is_own, names))
    return {"attribution_source": [_source(name) for name in own]} if own else {}


def forget() -> None:
    """Files are read again when they are next named: the user may have changed them since the last run."""
    _read.cache_clear()


def _source(name: str) -> str:
    if isinstance(name, Given):  # what it has from elsewhere is not in it
        try:
            return hashlib.sha256(inspect.getsource(name.function).encode()).hexdigest()
        except (OSError, TypeError):
            return "unknown"
    captum = name.rpartition(":")[0] == CAPTUM
    return f"captum {version(CAPTUM)}" if captum else _read(name)[1]


@cache
def _read(name: str) -> tuple[Callable[..., Any], str]:
    """The function, and the digest of the file that it is in."""
    place = name.rpartition(":")[0]
    try:
        found = factory(name)
    except ModelError as error:
        raise AttributionError(f"--attribution {name}: {error.message}", hint=error.hint or FORM) from error
    path = Path(place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None) or "")
    return found, hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()
