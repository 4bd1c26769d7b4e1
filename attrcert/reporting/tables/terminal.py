"""Tables on a terminal."""

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from attrcert.foreign import printable, printable_lines
from attrcert.reporting.tables.text_table import TextTable

WRAPPED = ("rule", "where")  # columns whose text may go on below
STYLES = {"passed": "green", "failed": "bold red", "refuted": "bold red", "error": "bold red", "incomplete": "yellow"}


def show(table: TextTable, console: Console) -> None:
    """Title and facts, the grid, the notes; what others wrote moves no cursor and colours nothing."""
    console.print(Text(printable(table.title), style="bold"))
    for fact in table.facts:
        console.print(Text(printable(fact), style="dim"))
    for place, part in enumerate(table.fitted(lambda one: _least(one, console) <= console.width)):
        if place:
            console.print()
        width = console.width
        console.width = max(width, _least(part, console))  # a number is never cut, however narrow the terminal
        console.print(_grid(part))
        console.width = width
    for note in table.notes:
        console.print(Text(printable_lines(note)))


def _grid(table: TextTable) -> Table:
    grid = Table(show_edge=False, pad_edge=False, header_style="bold")
    for place, name in enumerate(table.header):
        wraps = not table.turned and name in WRAPPED
        side: JustifyMethod = "left" if table.is_text(place) else "right"
        whole = max(cell_len(printable(row[place])) for row in (table.header, *table.cells))
        least = None if wraps else whole  # rich would take words apart all the same
        grid.add_column(Text(printable(name)), justify=side, no_wrap=not wraps, overflow="fold", min_width=least)
    for cells in table.cells:
        grid.add_row(*(Text(printable(cell), style=STYLES.get(cell, "")) for cell in cells))
    return grid


def _least(table: TextTable, console: Console) -> int:
    """How wide a terminal must be for its grid."""
    return Measurement.get(console, console.options.update(max_width=1000), _grid(table)).minimum
