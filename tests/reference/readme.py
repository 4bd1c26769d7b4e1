"""The README's tables of options and columns, made of their declarations: `python tests/reference/readme.py` writes them anew.

A table stands between `<!-- options: bound --norm --p -->` (or `<!-- columns: attack -->`) and `<!-- end -->`. Without options, it has
those that `attrcert bound --help` shows.
"""

import re
from pathlib import Path

from attrcert.cli.options import shown
from attrcert.columns import COLUMNS, DEVIATION_ALLOWED, INVERSE, SMOOTH
from attrcert.columns.score import score_row
from attrcert.settings.commands import COMMANDS

README = Path(__file__).parents[2] / "README.md"
PLACE = re.compile(r"(<!-- (options|columns): (.*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def options(command: str, *wanted: str) -> list[tuple[str, str]]:
    known = {offer.spelt: offer for offer in COMMANDS[command].offers}
    names = wanted or [name for name, offer in known.items() if offer.name in shown(command) and not offer.how.argument]
    return [(f"`{name}`", known[name].meaning) for name in names]


def columns(command: str) -> list[tuple[str, str]]:
    parts = {"certify": (*INVERSE, DEVIATION_ALLOWED, *SMOOTH), "score": score_row()}
    own = parts.get(command) or COLUMNS[command]
    return [(f"`{column.name}`", column.meaning) for column in own]


def table(kind: str, words: list[str]) -> str:
    made = options(*words) if kind == "options" else columns(*words)
    lines = [f"| {name} | {meaning.replace('|', '&#124;')} |" for name, meaning in made]
    return "\n".join([f"| {kind.removesuffix('s')} | meaning |", "|---|---|", *lines, ""])


def with_tables(text: str) -> str:
    """The README as the declarations have it."""
    return PLACE.sub(lambda found: f"{found[1]}{table(found[2], found[3].split())}{found[5]}", text)


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
