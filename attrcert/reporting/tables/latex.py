"""Tables in LaTeX, with the rules of booktabs: what could be read as a command is shown as it is."""

import re
from collections.abc import Iterable

from attrcert.foreign import printable
from attrcert.reporting.tables.text_table import TextTable

WIDE = 90  # letters of a line that fit on a page
PREAMBLE = r"% \usepackage{booktabs}"
ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "`": r"\textasciigrave{}", '"': "''", "°": r"$^\circ$", "--": r"-{}-",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}  # fmt: skip
SPECIAL = re.compile("|".join(map(re.escape, ESCAPES)))


def latex(table: TextTable) -> str:
    """A float with its title as the caption; a wide grid is turned, or goes on in another."""
    lines = [PREAMBLE, r"\begin{table}", r"\centering", rf"\caption{{{escaped(table.title)}}}"]
    for part in table.fitted(lambda one: _letters(one) <= WIDE):
        lines += ["", *_grid(part)]
    said = [rf"\par {escaped(text)}" for text in (*table.facts, *table.notes)]
    return "\n".join(
        [*lines, *([r"\par\smallskip\footnotesize\raggedright"] if said else []), *said, r"\end{table}", ""]
    )


def escaped(text: str) -> str:
    """On one line, without commands and ligatures."""
    return SPECIAL.sub(lambda found: ESCAPES[found[0]], " ".join(printable(text).split()))


def paragraphs(texts: Iterable[str]) -> str:
    return "\n".join(f"{escaped(text)}\n" for text in texts)


def _grid(table: TextTable) -> Iterable[str]:
    sides = "".join("l" if table.is_text(place) else "r" for place in range(len(table.header)))
    yield rf"\begin{{tabular}}{{{sides}}}"
    yield r"\toprule"
    yield _line(table.header)
    yield r"\midrule"
    yield from map(_line, table.cells)
    yield r"\bottomrule"
    yield r"\end{tabular}"


def _line(cells: Iterable[str]) -> str:
    text = " & ".join(map(escaped, cells))
    return ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"  # or it belonged to the end of the line before


def _letters(table: TextTable) -> int:
    """Of its longest line."""
    return sum(2 + max(map(len, column)) for column in zip(table.header, *table.cells, strict=True))
