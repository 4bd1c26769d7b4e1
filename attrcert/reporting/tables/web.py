"""Tables in HTML, for notebooks: what others wrote is text, and no markup."""

from collections.abc import Iterable
from html import escape

from attrcert.foreign import printable, printable_lines
from attrcert.reporting.tables.text_table import TextTable


def web(table: TextTable) -> str:
    """Title and facts, the grid, the notes."""
    facts = "".join(f"<div><small>{escape(printable(fact))}</small></div>" for fact in table.facts)
    notes = "".join(f"<div><small>{escape(printable_lines(note))}</small></div>" for note in table.notes)
    head = _row(table, "th", table.header)
    body = "".join(_row(table, "td", cells) for cells in table.cells)
    grid = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f"<div><b>{escape(printable(table.title))}</b></div>{facts}{grid}{notes}"


def _row(table: TextTable, tag: str, cells: Iterable[str]) -> str:
    sides = ("left" if table.is_text(place) else "right" for place in range(len(table.header)))
    return (
        "<tr>"
        + "".join(
            f'<{tag} style="text-align: {side}">{escape(printable(cell))}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        )
        + "</tr>"
    )
