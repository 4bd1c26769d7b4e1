"""Tables on a terminal."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from attrcert.foreign import printable, printable_lines
from attrcert.reporting.tables.text_table import WORDS, TextTable

STYLES = {"passed": "green", "failed": "bold red", "refuted": "bold red", "error": "bold red", "incomplete": "yellow"}


def show(table: TextTable, console: Console) -> None:
    """Title and facts, the grid, the notes; what others wrote moves no cursor and colours nothing."""
    console.print(Text(printable(table.title), style="bold"))
    for fact in table.facts:
        console.print(Text(printable(fact), style="dim"))
    grid = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in table.header:
        grid.add_column(Text(printable(name)), justify="left" if name in WORDS else "right", no_wrap=True)
    for cells in table.cells:
        grid.add_row(*(Text(printable(cell), style=STYLES.get(cell, "")) for cell in cells))
    # a number is never cut, however narrow the terminal
    width = console.width
    console.width = max(width, Measurement.get(console, console.options.update(max_width=1000), grid).maximum)
    console.print(grid)
    console.width = width
    for note in table.notes:
        console.print(Text(printable_lines(note)))
