"""stderr is for talk: messages, warnings, progress. stdout is for results."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrcert.foreign import printable, printable_lines

if TYPE_CHECKING:
    from attrcert.reporting.tables.text_table import TextTable


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


def show_tables(tables: "Sequence[TextTable]", sentences: Sequence[str], shape: str) -> None:
    """Results for people, and below them what they come to."""
    from attrcert.reporting.tables import latex, markdown
    from attrcert.reporting.tables.terminal import show

    if shape == "markdown":
        put("\n".join([*map(markdown.markdown, tables), markdown.paragraphs(sentences)]))
        return
    if shape == "latex":
        put("\n".join([*map(latex.latex, tables), latex.paragraphs(sentences)]))
        return
    console = stdout()
    for table in tables:
        show(table, console)
        console.print()
    for sentence in sentences:
        console.print(printable(sentence), style="bold", markup=False)


def talk(message: str, *, style: str = "") -> None:
    """A line: what others wrote can begin none."""
    _say(printable(message), style)


def talk_lines(message: str, *, style: str = "") -> None:
    """A line, and below it those that a message of ours sets apart."""
    _say(printable_lines(message), style)


def warn(message: str) -> None:
    talk(f"warning: {message}", style="yellow")


def silent(message: str, *, style: str = "") -> None:
    """What is said with --quiet."""


def _say(text: str, style: str) -> None:
    from rich.text import Text

    stderr().print(Text(text, style=style))
