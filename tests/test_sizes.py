"""No file of the package is over 300 lines and no function's body over 40, its docstring not counted."""

import ast
from collections.abc import Iterator
from pathlib import Path

import attrcert

PACKAGE = Path(attrcert.__file__).parent
MOST_LINES, MOST_IN_A_BODY = 300, 40
# files, and functions as file:function, that may be longer, and why
ALLOWED: dict[str, str] = {}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def too_long(name: str, source: str) -> Iterator[str]:
    if len(source.splitlines()) > MOST_LINES:
        yield name
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > MOST_IN_A_BODY:
            yield f"{name}:{node.name}"


def found() -> set[str]:
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    return {place for name, source in files.items() for place in too_long(name, source)}


def test_files_and_bodies_are_short():
    assert not found() - set(ALLOWED)


def test_what_may_be_long_is_long():
    assert not set(ALLOWED) - found()


def test_a_line_more_than_allowed_is_seen_and_a_docstring_is_not_counted():
    def written(lines: int) -> str:
        return 'def f():\n    """Says\n    what it does.\n    """\n' + "    pass\n" * lines

    assert list(too_long("f.py", written(MOST_IN_A_BODY))) == []
    assert list(too_long("f.py", written(MOST_IN_A_BODY + 1))) == ["f.py:f"]
    assert list(too_long("f.py", "x = 1\n" * MOST_LINES)) == []
    assert list(too_long("f.py", "x = 1\n" * (MOST_LINES + 1))) == ["f.py"]
