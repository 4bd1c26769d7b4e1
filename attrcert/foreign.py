"""Text that others wrote (names of tensors, classes and files, messages of libraries) where it leaves the program."""

import os
import re
import shlex
from collections.abc import Iterable

_FORMULA = re.compile(r"'*[=+\-@]")  # what a spreadsheet computes, and what stands for it here
_OURS = "\n  "  # the line break of our own messages


def printable(text: str) -> str:
    """The text on one line: what moves a cursor, ends a line, hides or turns its neighbours, or is half a character is shown as its
    escape, such as \\x1b, \\n, \\u202e or \\udc80.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def printable_lines(text: str) -> str:
    """The same for a text of ours, whose line breaks, each followed by two blanks, stay; others' words in it are printable already."""
    return _OURS.join(printable(line) for line in text.split(_OURS))


def shell(words: Iterable[str]) -> str:
    """A command to copy: every word is quoted, and one that cannot be printed is written as bash and zsh read it."""
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    """Its bytes: a file's name need not be text."""
    plain = re.compile(rb"[\w./=:,+-]", re.ASCII)
    signs = (bytes([byte]) for byte in os.fsencode(word))
    return "$'" + "".join(sign.decode() if plain.match(sign) else f"\\x{sign[0]:02x}" for sign in signs) + "'"


def guarded(text: str) -> str:
    """A cell of a CSV: on one line, and never a formula, which a spreadsheet would compute."""
    line = printable(text)
    return f"'{line}" if _FORMULA.match(line) else line


def unguarded(cell: str) -> str:
    """What `guarded` was given, but for its escapes."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
