"""`attrcert audit` as a function. It is apart from the others, which need no page and no figures."""

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from attrcert.auditing.auditing import Audit, Audited, Listener
from attrcert.auditing.auditing import audit as audited
from attrcert.library import split
from attrcert.running.opening.opening import data_spec, model_spec
from attrcert.settings.auditing import Auditing
from attrcert.settings.declared import made
from attrcert.settings.sources import DataSpec, ModelSpec, usual_data


def audit(model: Any = None, data: Any = None, **settings: Any) -> Audit:
    """The verdict and the rows of `attrcert audit`, called like `attrcert.bound`; without `out` no file is kept."""
    of_model, of_data, _ = split("audit", settings, ModelSpec, DataSpec)
    specs = model_spec(model, **of_model), data_spec(data, **usual_data(model, data, of_data))
    listener = Listener(warn=lambda message: warnings.warn(message, stacklevel=2))
    if settings.get("out") is not None:
        return audited(Audited(*specs, made(Auditing, settings), settings), listener)
    with tempfile.TemporaryDirectory() as home:
        asked = made(Auditing, {**settings, "out": Path(home)})
        return replace(audited(Audited(*specs, asked, settings), listener), folder=None)
