"""stderr is for talk: messages, warnings, progress. stdout is for results."""

import sys
from typing import Any

from attrcert.foreign import printable_lines


def stdout() -> Any:
    from rich.console import Console

    return Console(highlight=False)


def stderr() -> Any:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def put(result: str) -> None:
    """A result that is text already: JSON, CSV, markdown. What is said later comes later in a log of both streams, too."""
    sys.stdout.write(f"{result}\n")
    sys.stdout.flush()


def talk(message: str, *, style: str = "") -> None:
    """A line, and below it those that the message sets apart; what others wrote can begin none."""
    from rich.text import Text

    stderr().print(Text(printable_lines(message), style=style))
