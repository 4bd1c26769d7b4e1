"""A report as one HTML page that asks the network for nothing, and as markdown."""

import base64
import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from attrcert.foreign import printable
from attrcert.reporting.pages.content import Page
from attrcert.reporting.pages.worst import SampleTable
from attrcert.reporting.tables.markdown import markdown
from attrcert.reporting.tables.text_table import WORDS, TextTable

TEMPLATES = Path(__file__).parent / "templates"
GENERATOR = "attrcert"
LISTED = 20  # samples in markdown
MARKS = (f'<meta name="generator" content="{GENERATOR} ', f"<!-- {GENERATOR} report -->")  # of a page, and of markdown


def html(page: Page) -> str:
    """Everything from files is escaped; only the page's own script may run, and nothing may be fetched."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html").render(
        page=page,
        words=WORDS,
        generator=f"{GENERATOR} {version('attrcert')}",
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        figures=[(plot, Markup(plot.inline())) for plot in page.plots],
    )


def text(page: Page) -> str:
    """The tables and the worst samples in markdown."""
    return "\n".join(_paragraphs(page))


def _paragraphs(page: Page) -> Iterable[str]:
    yield f"{MARKS[1]}\n# {_plain(page.title)}\n"
    for part in page.parts:
        yield f"## {_plain(part.name)}{_plain(f': {part.about}') if part.about else ''}\n"
        yield from (f"> {_plain(warning)}\n" for warning in part.warnings)
        yield from (f"{_plain(sentence)}\n" for sentence in part.sentences)
        yield "\n".join(f"- **{guarantee}**: {words}" for guarantee, words in part.promises) + "\n"
        yield "\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in part.facts) + "\n"
        yield from (markdown(table) for table in part.tables)
    yield from (markdown(table) for table in page.comparisons)
    yield markdown(_listed(page.samples))


def _listed(samples: SampleTable) -> TextTable:
    shown = samples.cells[:LISTED]
    return TextTable(
        title=f"The worst samples ({len(shown)} rows)",
        header=tuple(column.name for column in samples.columns if column.first),
        cells=tuple(
            tuple(cell.text for cell, column in zip(row, samples.columns, strict=True) if column.first) for row in shown
        ),
    )


def _plain(words: str) -> str:
    return printable(words).replace("<", "&lt;")
