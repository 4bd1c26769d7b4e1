"""Imports point one way, functions import only in the command line, and asking for help does not import torch."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import attrcert

PACKAGE = Path(attrcert.__file__).parent
# a layer sees the layers before it and itself; the names of one layer do not see each other
LAYERS = (
    {"errors", "foreign", "references"},
    {"vocabulary", "papers", "sizes"},
    {"columns", "draws"},
    {"types", "pictures"},
    {"registry", "saved"},
    {"linalg", "geometry", "statistics"},
    {"ascent"},
    {"metrics", "networks"},
    {"attributions"},
    {"bounds", "attacks"},
    {"scores"},
    {"settings"},
    {"loading"},
    {"running"},
    {"results", "pages"},
    {"catalogue", "library"},
    {"auditing"},
    {"cli"},
)
REPORTING_SEES = {"errors", "foreign", "vocabulary", "columns", "saved", "pictures", "reporting"}
# the same within a part: what stands in one set does not see the others of it
ROOMS = {
    "bounds": ({"first_order", "proved", "smoothed"},),
    "running": ({"checks"}, {"evaluating"}, {"opening"}, {"keeping", "engines"}),
    "reporting": ({"tables"}, {"summaries", "gating"}, {"pages"}),
}
SHOWING = {"results", "pages", "library", "auditing", "cli"}  # they see the reports
FRONT = {"__init__", "__main__"}
HEAVY = {"torch", "torchvision"}


def allowed(part: str) -> set[str]:
    """The parts of the package that `part` may import."""
    if part == "reporting":
        return REPORTING_SEES
    if part in FRONT:
        return set().union(*LAYERS) | {"reporting"}
    place = next(i for i, layer in enumerate(LAYERS) if part in layer)
    below = set().union(*LAYERS[:place]) | {part}
    return below | {"reporting"} if part in SHOWING else below


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(path: Path) -> str:
    """`errors` of attrcert/errors.py, `linalg` of attrcert/linalg/maps.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[str]:
    """Every dotted name that an import statement anywhere in the tree reaches; `from a import b` gives a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                home = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join([*home[: len(home) - node.level + 1], *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def wrong_directions(source: str, module: str, part: str, *, is_package: bool = False) -> set[str]:
    seen = {
        name.split(".")[1]
        for name in imports(ast.parse(source), module, is_package=is_package)
        if name.startswith("attrcert.")
    }
    parts = {path.stem if path.suffix == ".py" else path.name for path in PACKAGE.iterdir()} | set().union(*LAYERS)
    return (seen & (parts | {"reporting"})) - allowed(part)


def wrong_rooms(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """The rooms of its own part that a module imports though they are not before its own."""
    part, room = module.split(".")[1], module.split(".")[2]
    order = ROOMS[part]
    place = next(i for i, rooms in enumerate(order) if room in rooms)
    reached = imports(ast.parse(source), module, is_package=is_package)
    seen = {name.split(".")[2] for name in reached if name.startswith(f"attrcert.{part}.")}
    return seen - {room} - set().union(*order[:place])


def inside_functions(tree: ast.AST) -> list[int]:
    """Lines of import statements inside functions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        inner.lineno for node in functions for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


def at_start(tree: ast.Module) -> ast.Module:
    """What runs when the module is imported: without functions and without `if TYPE_CHECKING`."""

    class Trimmed(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        visit_AsyncFunctionDef = visit_FunctionDef

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if "TYPE_CHECKING" in ast.unparse(node.test) else node

    return Trimmed().visit(tree)


FILES = sorted(PACKAGE.rglob("*.py"))


def source_files() -> list:
    return [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in FILES]


@pytest.mark.parametrize("path", source_files())
def test_imports_point_one_way(path):
    source = path.read_text()
    found = wrong_directions(source, module_name(path), part_of(path), is_package=path.stem == "__init__")
    assert not found, f"{path.name} must not import {', '.join(sorted(found))}"


@pytest.mark.parametrize("path", [p for p in source_files() if part_of(p.values[0]) != "cli"])
def test_functions_import_nothing_outside_the_command_line(path):
    assert inside_functions(ast.parse(path.read_text())) == []


@pytest.mark.parametrize("path", source_files())
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_a_class_has_a_name_of_its_own():
    trees = [(path, ast.parse(path.read_text())) for path in FILES]
    homes = [(node.name, path) for path, tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    names = [name for name, _ in homes]
    twice = [f"{name} in {path.relative_to(PACKAGE)}" for name, path in homes if names.count(name) > 1]
    assert not twice


IN_ROOMS = [
    path for path in FILES if part_of(path) in ROOMS and path.relative_to(PACKAGE).parts[1:] != ("__init__.py",)
]


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in IN_ROOMS])
def test_rooms_see_the_rooms_before_them(path):
    found = wrong_rooms(path.read_text(), module_name(path), is_package=path.stem == "__init__")
    assert not found, f"{path.name} must not import {', '.join(sorted(found))}"


def test_every_part_of_the_package_has_a_layer():
    parts = {part_of(path) for path in FILES}
    assert parts <= set().union(*LAYERS) | FRONT | {"reporting"}


def test_nothing_reached_by_importing_the_command_line_imports_torch():
    by_name = {module_name(path): path for path in FILES}
    waiting, seen = ["attrcert.cli.app", "attrcert.settings.commands"], set()
    while waiting:
        module = waiting.pop()
        if module in seen or module not in by_name:
            continue
        seen.add(module)
        path = by_name[module]
        reached = set(imports(at_start(ast.parse(path.read_text())), module, is_package=path.stem == "__init__"))
        assert not {name.split(".")[0] for name in reached} & HEAVY, f"{module} imports torch at its top"
        # importing a.b.c runs a and a.b first
        waiting += [".".join(name.split(".")[:n]) for name in reached | {module} for n in range(1, 5)]
    assert {"attrcert.cli.bound", "attrcert.settings.tasks", "attrcert.vocabulary", "attrcert"} <= seen


@pytest.mark.parametrize("path", [p for p in source_files() if part_of(p.values[0]) == "cli"])
def test_the_command_line_never_names_torch(path):
    reached = imports(ast.parse(path.read_text()), module_name(path), is_package=path.stem == "__init__")
    assert not {name.split(".")[0] for name in reached} & HEAVY


@pytest.mark.parametrize(
    ("source", "part", "wrong"),
    [
        ("from attrcert.cli import options", "running", {"cli"}),
        ("def f():\n    import attrcert.running.opening.runs", "loading", {"running"}),
        ("from attrcert import loading", "linalg", {"loading"}),
        ("from attrcert.geometry.angles import x", "linalg", {"geometry"}),
        ("from ..running import checks", "reporting", {"running"}),
        ("from attrcert.registry import unknown", "reporting", {"registry"}),
        ("if TYPE_CHECKING:\n    from attrcert.types import Batch", "vocabulary", {"types"}),
        ("from attrcert.saved.records import parse", "reporting", set()),
        ("from attrcert.linalg.maps import Dense", "bounds", set()),
    ],
)
def test_the_direction_check_sees_every_form_of_import(source, part, wrong):
    assert wrong_directions(source, f"attrcert.{part}.example", part) == wrong


@pytest.mark.parametrize(
    ("source", "module", "wrong"),
    [
        ("from attrcert.running.opening import runs", "running.evaluating.cells", {"opening"}),
        ("from attrcert.running.keeping.heatmaps import x", "running.engines.engine", {"keeping"}),
        ("from ..pages import content", "reporting.gating.rules", {"pages"}),
        ("from attrcert.running.checks.findings import Finding", "running.opening.runs", set()),
    ],
)
def test_the_check_of_rooms_sees_wrong_directions(source, module, wrong):
    assert wrong_rooms(source, f"attrcert.{module}") == wrong
