"""What is known without computing rows: a formula's value, on stdout."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from attrcert.cli.console import put
from attrcert.cli.options import Asked
from attrcert.errors import UsageError
from attrcert.settings.output import Output


def say(asked: Asked, facts: Sequence[dict[str, Any]], line: Callable[[dict[str, Any]], str]) -> None:
    """A closed form on stdout: a line of each fact for people, or all as JSON, where what has no end is null."""
    results = asked.part(Output)
    if results.require:
        raise UsageError("a closed form has no rows that --require could judge")
    if results.format not in ("table", "json"):
        raise UsageError(f"a closed form has no rows: --format must be table or json, got {results.format}")
    if results.format == "table":
        put("\n".join(map(line, facts)))
        return
    finite = [{name: None if cell == math.inf else cell for name, cell in fact.items()} for fact in facts]
    put(json.dumps(finite, indent=1))
