"""stderr is for talk: messages, warnings, progress. stdout is for results."""

from typing import Any


def stderr() -> Any:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def talk(message: str, *, style: str = "") -> None:
    from rich.text import Text

    stderr().print(Text(message, style=style))
