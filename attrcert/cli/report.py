"""`attrcert report`: CSVs as one page to look at."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attrcert.cli.console import put, talk
from attrcert.errors import UsageError
from attrcert.saved.files import cannot_write, check_target, make_folder, write_bytes, write_text

if TYPE_CHECKING:
    from attrcert.reporting.pages.content import Page

FORMATS = ("html", "markdown")
PLOT_FORMATS = ("png", "svg")
_output = partial(typer.Option, rich_help_panel="Output", show_default=False)


def report(
    files: Annotated[list[Path], typer.Argument(help="CSVs that --out wrote.", show_default=False)],
    out: Annotated[
        Path | None, _output("--out", "-o", help="The page to write. Default: report.html; markdown goes to stdout.")
    ] = None,
    format_: Annotated[
        str, _output("--format", metavar=f"[{'|'.join(FORMATS)}]", help="Format of the page.", show_default=True)
    ] = "html",
    plots: Annotated[Path | None, _output(help="Also write the figures as PNG and SVG into this folder.")] = None,
    title: Annotated[str, typer.Option(help="Of the page. Default: the runs' names.", show_default=False)] = "",
    worst: Annotated[int, typer.Option(min=1, help="Rows in the table of samples, the worst first.")] = 500,
    pictures: Annotated[
        int, typer.Option(min=0, help="Samples with pictures, of the most and of the least moved.")
    ] = 4,
    deltas: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The --save-deltas file of each attack run, in order. Default: where their manifests say.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make one self-contained page of the CSVs of earlier runs: what was computed and what it guarantees, tables, figures, the
    samples moved most and least as pictures, and a sortable table of the worst samples.

    Pictures need `attack --save-deltas`, Jacobians `bound --save-jacobian`. Several runs are put side by side.
    """
    from attrcert.reporting.pages.content import make_page

    if format_ not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, got {format_!r}")
    target = out or (Path("report.html") if format_ == "html" else None)
    if target is not None:
        _check(target)
    page = make_page(files, title=title, most=worst, pictures=pictures, deltas=deltas or ())
    _write(page, target, format_)
    if plots is not None:
        _draw(page, plots)


def _check(target: Path) -> None:
    """A report replaces a report, and nothing else."""
    from attrcert.reporting.pages.documents import is_report

    check_target(target)
    try:
        if target.exists() and not is_report(target):
            raise UsageError(f"{target} exists and is not a report that attrcert wrote", hint="choose another -o")
    except OSError as error:
        raise cannot_write(target, error) from error


def _write(page: "Page", target: Path | None, format_: str) -> None:
    from attrcert.reporting.pages.documents import html, text

    content = html(page) if format_ == "html" else text(page)
    if target is None:
        put(content)
        return
    write_text(target, content)
    for missing in page.missing:
        talk(missing, style="yellow")
    talk(f"{target}: {target.stat().st_size / 1e6:.1f} MB, {page.samples.note}")


def _draw(page: "Page", folder: Path) -> None:
    from itertools import product

    from attrcert.reporting.pages.plots import MARK

    make_folder(folder)
    files = {folder / f"{plot.name}.{kind}": (plot, kind) for plot, kind in product(page.plots, PLOT_FORMATS)}
    for path in files:
        check_target(path)
        if path.exists() and not _begins_with(path, MARK):
            raise UsageError(f"{path} exists and is not a figure that attrcert drew", hint="choose another --plots")
    for path, (plot, kind) in files.items():
        write_bytes(path, plot.render(kind))
    talk(f"{len(page.plots)} figures in {folder}")


def _begins_with(path: Path, mark: str) -> bool:
    """Whether the mark is near the beginning of a file."""
    try:
        with path.open("rb") as stream:
            return mark.encode() in stream.read(4096)
    except OSError as error:
        raise cannot_write(path, error) from error
