"""The other checkpoints of a task: loaded as CHECKPOINT is, and checked on the same samples."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attrcert.errors import AttrcertError, ModelError
from attrcert.loading import bundled
from attrcert.loading.checkpoints import LoadedModel, load_model
from attrcert.loading.libraries import library_of
from attrcert.networks.classifier import Classifier
from attrcert.running.checks.doctor import before_run
from attrcert.running.checks.findings import Finding, Level
from attrcert.settings.others import OPTION, Other
from attrcert.settings.sources import ModelSpec


@dataclass(frozen=True)
class Rivals:
    """By the names of their columns, and what a manifest says of where they came from."""

    classifiers: Mapping[str, Classifier] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @staticmethod
    def of(others: Sequence[Other], usual: ModelSpec, scale: Tensor | None, **place: Any) -> "Rivals":
        """What is not said of them is as in `usual`; a model that brings its own architecture takes nothing from there."""
        found: dict[str, LoadedModel] = {}
        for other in others:
            alone = library_of(other.checkpoint) or other.checkpoint in bundled.models()
            with _blamed(other.name):
                found[other.column] = load_model(other.spec(usual, inherits=not alone), **place)
        networks = {name: one.classifier.original() for name, one in found.items()}
        for f in networks.values():  # nobody else has them
            f.network.eval().requires_grad_(False)
        if scale is not None:
            networks = {name: f.of_divided(scale.tolist()) for name, f in networks.items()}
        return Rivals(networks, {name: one.facts for name, one in found.items()})

    def check(self, x: Tensor, labels: list[int | None], classes: int) -> list[Finding]:
        """They take the same inputs and know the same classes; and what there is to worry about."""
        found = []
        for name, f in self.classifiers.items():
            with _blamed(name):
                found += [replace(one, message=f"{name}: {one.message}") for one in before_run(f, x, labels, ())[1]]
                with torch.no_grad():
                    own = f(x[:1]).shape[1]
                if own != classes:
                    raise ModelError(f"it must have the {classes} classes of CHECKPOINT, got {own}")
        return [one for one in found if one.level is Level.WARN]


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """An error says of which checkpoint it is."""
    try:
        yield
    except AttrcertError as error:
        raise type(error)(f"{OPTION} {name}: {error.message}", hint=error.hint) from error
