"""An audit's page: the report of its rows, with the verdict on top."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from attrcert.reporting.pages.content import make_page
from attrcert.reporting.pages.documents import html

WORST, PICTURES = 200, 4
BEFORE = "<main>"  # of the report


def page(files: Sequence[Path], verdict: Sequence[str], title: str) -> str:
    """Self-contained; what files hold is escaped."""
    report = html(make_page(files, title=title, most=WORST, pictures=PICTURES))
    lines = Markup("\n").join(Markup("<p>{}</p>").format(sentence) for sentence in verdict)
    section = Markup('<section id="verdict" aria-label="Verdict">\n<h2>Verdict</h2>\n{}\n</section>').format(lines)
    head, main, rest = report.partition(BEFORE)
    assert main
    return f"{head}{main}\n{section}\n{rest}"
