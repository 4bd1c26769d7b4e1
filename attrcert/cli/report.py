"""`attrcert report`: CSVs as one page to look at."""

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from attrcert.cli.console import put, talk
from attrcert.cli.options import Asked, command

if TYPE_CHECKING:
    from attrcert.reporting.pages.content import Page

PLOT_FORMATS = ("png", "svg")


@command("report", example="attrcert report bounds.csv attacks.csv -o report.html")
def report(asked: Asked) -> None:
    """Make one self-contained page of the CSVs of earlier runs: what was computed and what it guarantees, tables, figures, the
    samples moved most and least as pictures, and a sortable table of the worst samples.

    Pictures need `attack --save-deltas` or `smooth --csv`, Jacobians `bound --save-jacobian`. Several runs are put side by side.
    """
    from attrcert.pages import content_of, page_of
    from attrcert.reporting.pages.documents import MARKS
    from attrcert.saved.replacing import check_ours
    from attrcert.settings.reading import Paging

    paging = asked.part(Paging)
    target = paging.target
    if target is not None:
        check_ours(target, MARKS, what="a report that attrcert wrote", other="-o")
    page = page_of(paging)
    _write(page, content_of(page, paging), target)
    if paging.plots is not None:
        _draw(page, paging.plots)


def _write(page: "Page", content: str, target: Path | None) -> None:
    from attrcert.saved.files import write_text

    if target is None:
        put(content)
        return
    write_text(target, content)
    for missing in page.missing:
        talk(missing, style="yellow")
    talk(f"{target}: {target.stat().st_size / 1e6:.1f} MB. {page.samples.note}")


def _draw(page: "Page", folder: Path) -> None:
    from attrcert.reporting.pages.plots import MARK
    from attrcert.saved.files import make_folder, write_bytes
    from attrcert.saved.replacing import check_ours

    make_folder(folder)
    files = {folder / f"{plot.name}.{kind}": (plot, kind) for plot, kind in product(page.plots, PLOT_FORMATS)}
    for path in files:
        check_ours(path, (MARK,), what="a figure that attrcert drew", other="--plots")
    for path, (plot, kind) in files.items():
        write_bytes(path, plot.render(kind))
    talk(f"{len(page.plots)} figures in {folder}")
