"""Other checkpoints on which perturbations are found: each is named by one text, a file and what is not as with CHECKPOINT."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attrcert.errors import UsageError
from attrcert.registry import unknown
from attrcert.settings.declared import declared, taken
from attrcert.settings.sources import ModelSpec

OPTION = "--transfer-from"
ARGUMENT = "arch_arg"  # repeatable
OWN = ("arch", ARGUMENT, "output", "mean", "std", "checkpoint_key")  # that another checkpoint may have


@dataclass(frozen=True)
class Other:
    """A checkpoint with settings of its own, under a name for rows and columns."""

    name: str
    checkpoint: str
    given: Mapping[str, Any]

    @staticmethod
    def of(text: str) -> "Other":
        """Read `file`, or `"file arch=... std=..."`; a setting without a value leaves it out."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{OPTION} {text!r} cannot be read: {error}") from error
        if not words:
            raise UsageError(f"{OPTION} must name a checkpoint, got nothing")
        checkpoint, *rest = words
        given: dict[str, Any] = {}
        for word in rest:
            key, equals, value = word.partition("=")
            key = key.lstrip("-").replace("-", "_")
            if not equals:
                raise UsageError(
                    f"{OPTION} takes a checkpoint and NAME=VALUE behind it, got {word!r}",
                    hint="a path with blanks needs quotes of its own",
                )
            if key not in OWN:
                raise unknown(f"a setting in {OPTION}", key, OWN, where="")
            if key == ARGUMENT:
                given.setdefault("arch_args", []).append(value)
            else:
                given[key] = value or None
        return Other(re.sub(r"[^\w.+-]", "_", Path(checkpoint).stem), checkpoint, taken(ModelSpec, given))

    @property
    def column(self) -> str:
        """What the names of its columns begin with."""
        return re.sub(r"\W", "_", self.name)

    def spec(self, usual: ModelSpec, *, inherits: bool) -> ModelSpec:
        """What is not said is as with CHECKPOINT, if it `inherits` anything."""
        own = usual if inherits else ModelSpec(max_input=usual.max_input, download=usual.download)
        told = {name: self.given[name] for name in declared(ModelSpec) if name in self.given}
        return replace(own, checkpoint=self.checkpoint, **told)


def others_of(texts: Iterable[str]) -> tuple[Other, ...]:
    """All, each under a name of its own."""
    found = tuple(map(Other.of, texts))
    columns = [one.column for one in found]
    for one in found:
        if columns.count(one.column) > 1:
            raise UsageError(f"{OPTION} names two checkpoints {one.name!r}", hint="give each once; rename a file")
    return found
