"""Tables of a benchmark, on the terminal and in a file."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Grid:
    """A title, what it says of all rows, a header and the rows."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def show(self, console: Console) -> None:
        table = Table(*self.header, title=self.title, caption=self.note)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)

    def markdown(self) -> str:
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return f"## {self.title}\n\n{self.note}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def save(grids: Sequence[Grid], path: Path, seconds: float) -> None:
    head = (
        f"# attrcert's benchmarks\n\n`make bench` on {platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"{seconds / 60:.0f} minutes. Every ratio is of two times measured in that run.\n"
    )
    path.write_text("\n".join([head, *(grid.markdown() for grid in grids)]))
