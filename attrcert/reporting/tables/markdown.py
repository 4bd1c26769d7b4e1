"""Tables in markdown: what could be read as markup is shown as it is."""

import re
from collections.abc import Iterable

from attrcert.foreign import printable, printable_lines
from attrcert.reporting.tables.text_table import TextTable


def markdown(table: TextTable) -> str:
    """The table for a README, an issue or a step summary."""
    lines = [f"**{_plain(table.title)}**", "", *(f"- {_plain(fact)}" for fact in table.facts), ""]
    rows = (table.header, ("---",) * len(table.header), *table.cells)
    lines += [
        "| " + " | ".join(_plain(" ".join(cell.split())).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join([*lines, "", *(f"- {_fenced(_shown(printable_lines(note)))}" for note in table.notes), ""])


def paragraphs(texts: Iterable[str]) -> str:
    """Texts of ours, which may name what others called something."""
    return "\n".join(f"{_plain(text)}\n" for text in texts)


def _fenced(note: str) -> str:
    """Lines that are set apart, such as a rule with a mark below it, keep their blanks."""
    return re.sub(r"((?:\n {4,}.*)+)", lambda match: f"\n\n  ```{match[1]}\n  ```", note)


def _plain(text: str) -> str:
    """On one line, without marks of its own."""
    return _shown(printable(text).replace("`", "\\`"))


def _shown(text: str) -> str:
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(").replace("\n", "\n  ")
