"""`attrcert report` as a function."""

from pathlib import Path
from typing import Any

from attrcert.reporting.pages.content import Page, make_page
from attrcert.reporting.pages.documents import MARKS, html, text
from attrcert.saved.files import write_text
from attrcert.saved.replacing import check_ours
from attrcert.settings.declared import made
from attrcert.settings.reading import Paging


def report(files: Any, out: str | Path | None = None, **settings: Any) -> str:
    """The page of CSVs as text, written to `out` where that is given; settings are those of the command line (title, worst, ...)."""
    listed = [files] if isinstance(files, str | Path) else list(files)
    paging = made(Paging, {**settings, "files": listed})
    if out is not None:
        check_ours(Path(out), MARKS, what="a report that attrcert wrote", other="out")
    content = content_of(page_of(paging), paging)
    if out is not None:
        write_text(Path(out), content)
    return content


def page_of(asked: Paging) -> Page:
    return make_page(asked.files, title=asked.title, most=asked.worst, pictures=asked.pictures, deltas=asked.deltas)


def content_of(page: Page, asked: Paging) -> str:
    return html(page) if asked.format == "html" else text(page)
