"""Of what a network gives, the entry that holds the logits."""

from collections.abc import Callable, Mapping
from typing import Any

from attrcert.errors import ModelError

LOGITS = "logits"


def entry(output: Any, wanted: str | None, is_logits: Callable[[Any], bool]) -> Any:
    """The one that is wanted; else the one called logits, or of a tuple the only one that can be logits."""
    named = _named(output)
    if wanted is not None and wanted in named:
        return named[wanted]
    if wanted is None and is_logits(named.get(LOGITS, getattr(output, LOGITS, None))):
        return named.get(LOGITS, getattr(output, LOGITS, None))
    fitting = [part for part in named.values() if is_logits(part)]
    if wanted is None and len(fitting) == 1 and not isinstance(output, Mapping):
        return fitting[0]
    raise ModelError(
        f"the model gives a {type(output).__name__} with the entries {', '.join(named)}; "
        f"one of them must be picked, got {wanted}",
        hint=f"e.g. --output {next(iter(named))}" if named else "",
    )


def _named(output: Any) -> dict[str, Any]:
    if isinstance(output, Mapping):
        return {str(name): part for name, part in output.items()}
    return {str(place): part for place, part in enumerate(output)} if isinstance(output, tuple | list) else {}
