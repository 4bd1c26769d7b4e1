"""The content of a report, from CSVs, their manifests and the arrays saved beside them; how it looks is the templates' business."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attrcert.columns import APART, COLUMNS, Row, column_named, headlines
from attrcert.errors import UsageError
from attrcert.reporting.gating.baselines import differing_keys
from attrcert.reporting.gating.promises import broken
from attrcert.reporting.gating.rules import parse_figure
from attrcert.reporting.gating.selections import select_present, statistic
from attrcert.reporting.pages.figures import plots
from attrcert.reporting.pages.galleries import Gallery, galleries, jacobians, pixel_galleries
from attrcert.reporting.pages.plots import Plot
from attrcert.reporting.pages.trade_off import trade_offs
from attrcert.reporting.pages.worst import RunRows, SampleTable, outwards, sample_table
from attrcert.reporting.summaries.overviews import overview_of_file
from attrcert.reporting.summaries.sentences import sentences
from attrcert.reporting.summaries.statistics import grouped
from attrcert.reporting.tables.text_table import TextTable
from attrcert.saved.array_files import Arrays
from attrcert.saved.arrays import DELTAS, JACOBIANS, jacobian_file
from attrcert.saved.map_files import read_maps
from attrcert.saved.runfiles import RunTable, case_text, read_table
from attrcert.vocabulary import MEASURED, Guarantee, Status, part_name

PLAIN = {  # what a reader who knows no theorem should take away
    Guarantee.PROVED: "T_proved and its angle hold for every perturbation in the ball, whatever an attack does.",
    Guarantee.CONFIDENCE: "The certified figures hold for every perturbation in the ball, but for a stated chance of bad luck in the "
    "program's own random draws.",
    Guarantee.CORRECTED: "The corrected figures are estimates from what was measured in the ball: no guarantee.",
    Guarantee.FIRST_ORDER: "T_e and T_c_deg bound the linearised attribution only: estimates that attacks can exceed, no guarantee.",
    Guarantee.EMPIRICAL: "T_hat figures are what an attack reached: the true worst case is at least that.",
}
FAULTS = {  # that runs are compared by
    "bound": Status.VACUOUS,
    "attack": Status.VACUOUS,
    "certify": Status.ABSTAINED,
    "attack-smooth": Status.VACUOUS,
}


@dataclass(frozen=True)
class Part:
    """One run: what was computed on what, what its figures promise, and its tables."""

    name: str
    about: str  # the model and what was asked for
    path: str
    facts: tuple[tuple[str, str], ...]
    promises: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    tables: tuple[TextTable, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """All that a report shows."""

    title: str
    parts: tuple[Part, ...]
    comparisons: tuple[TextTable, ...]
    plots: tuple[Plot, ...]
    galleries: tuple[Gallery, ...]
    missing: tuple[str, ...]
    samples: SampleTable


@dataclass(frozen=True, kw_only=True)
class _Run(RunRows):
    path: Path
    table: RunTable

    @property
    def manifest(self) -> Mapping[str, Any]:
        return self.table.manifest or {}

    def told(self, name: str) -> Mapping[str, Any]:
        """A part of the manifest, which people may have edited."""
        part = self.manifest.get(name)
        return part if isinstance(part, dict) else {}


def make_page(paths: Sequence[Path], *, title: str, most: int, pictures: int, deltas: Sequence[Path] = ()) -> Page:
    """Of the CSVs; `most` rows in the table of samples, `pictures` samples in each gallery, from `deltas` or where manifests say."""
    runs = _runs(paths)
    kinds = grouped(runs, lambda run: run.table.kind)
    shown, missing = _galleries(runs, pictures, deltas)
    return Page(
        title=title or f"attrcert: {', '.join(run.name for run in runs)}",
        parts=tuple(_part(run) for run in runs),
        comparisons=tuple(_comparison(kind, like) for kind, like in kinds.items() if len(like) > 1),
        plots=(*plots([part for run in runs for part in run.parts]), *trade_offs(runs)),
        galleries=shown,
        missing=missing,
        samples=sample_table(runs, most),
    )


def _runs(paths: Sequence[Path]) -> list[_Run]:
    if len(set(paths)) < len(paths):
        raise UsageError("a file is given twice", hint="give each once")
    stems = [path.stem for path in paths]
    runs = []
    for path in paths:
        table = read_table(path, altered_too=True)
        if not len(table):
            raise UsageError(f"{path} has no rows to report", hint="has the run ended? --resume continues it")
        name = path.stem if stems.count(path.stem) == 1 else str(path)
        classes = table.identity.get("classes")
        named = tuple(map(str, classes)) if isinstance(classes, list) else ()
        runs.append(_Run(name, table.command, _rows(table), named, path=path, table=table))
    return runs


def _rows(table: RunTable) -> list[Row]:
    """Rows without their empty cells, which are many."""
    names = list(table.cells)
    return [
        {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}
        for cells in zip(*table.cells.values(), strict=True)
    ]


def _part(run: _Run) -> Part:
    identity, versions = run.table.identity, run.told("versions")
    facts = {"model": identity.get("checkpoint"), "data": identity.get("dataset"), **run.told("facts")}
    more = {
        "command": run.manifest.get("typed") or f"attrcert {identity.get('task') or run.command}",
        "computed": run.manifest.get("ended"),
        "with": ", ".join(f"{name} {version}" for name, version in versions.items()) or None,
        "checkpoint sha256": identity.get("checkpoint_sha256"),
        "data sha256": identity.get("dataset_sha256"),
    }
    return Part(
        name=run.name,
        about=", ".join(filter(None, (_listed(name, identity.get(name)) for name in ("checkpoint", *APART)))),
        path=str(run.path),
        facts=tuple((name, str(value)) for name, value in {**facts, **more}.items() if value is not None),
        promises=tuple(_promises(run)),
        warnings=tuple(_warnings(run)),
        settings=tuple((name, str(value)) for name, value in identity.items() if value is not None),
        tables=overview_of_file(run.command, run.rows, run.path),
        sentences=tuple(sentences(run.rows, run.command, identity)),
    )


def _listed(name: str, told: Any) -> str:
    """One value, or several; a number says of what."""
    values = told if isinstance(told, list) else [told] if told else []
    return ", ".join(str(one) if isinstance(one, str) else part_name(name, one) for one in values)


def _promises(run: _Run) -> list[tuple[str, str]]:
    """What the figures of these rows promise, the strongest first."""
    present = {str(row["guarantee"]) for row in run.rows if row.get("guarantee")}
    told = {name for row in run.rows for name in row}
    present |= {str(column.guarantee) for column in headlines(run.command) if column.name in told}
    scored = {Guarantee.EMPIRICAL: f"{MEASURED[0].upper()}{MEASURED[1:]}."} if run.command == "score" else {}
    return [(guarantee.value, {**PLAIN, **scored}[guarantee]) for guarantee in Guarantee if guarantee in present]


def _warnings(run: _Run) -> list[str]:
    found = [f"incomplete: {run.table.unfinished}"] if run.table.unfinished else []
    if run.table.altered and not run.table.unfinished:
        found.append(f"{run.path.name} was changed after its run had ended: these are not the rows that the run wrote")
    if run.table.manifest is None:
        found.append(f"{run.path.name} has no manifest: model, data and settings are not known")
    if failed := sum(run.table.failed):
        found.append(f"{failed} rows have no figure (error)")
    if exceeded := len(broken(run.rows)):
        found.append(f"an attack exceeded a proved or confidence bound on {exceeded} rows: something is wrong")
    return found + [f"{one.check}: {one.message}" for one in run.table.warnings]


def compared(command: str) -> list[str]:
    """The figures that are put side by side: what is bounded, how often nothing is, and what was reached."""
    columns = sorted((column for column in COLUMNS[command] if column.compared), key=lambda one: one.rank)
    texts = [(column, f"{statistic}({column.name})") for column in columns for statistic in column.compared]
    bounded = [text for column, text in texts if column.guarantee and not column.reached]
    faults = [f"fraction(status == {FAULTS[command]})"] if command in FAULTS else []
    return [*bounded, *faults, *(text for _, text in texts if text not in bounded)]


def _comparison(kind: str, runs: Sequence[_Run]) -> TextTable:
    """A line per case and figure, in the words of gate rules, a column per run."""
    command = runs[0].command
    texts = compared(command)
    figures = [parse_figure(text) for text in texts]
    several = [name for name in APART if any(name in run.table.apart for run in runs)]
    lines: dict[str, dict[str, dict[str, str]]] = {}
    for run in runs:
        for figure in figures:
            for one in select_present(figure, run.table):
                column = column_named(figure.column, command) if figure.column else None
                value = outwards(statistic(figure, one.values), column, 4)
                unbounded = f" ({one.lacking} unbounded)" if one.lacking else ""
                lines.setdefault(case_text(one.key, several), {}).setdefault(figure.text, {})[run.name] = (
                    value + unbounded
                )
    cells = [
        (case if not number else "", text, *(values.get(run.name, "-") for run in runs))
        for case, of_case in lines.items()
        for number, (text, values) in enumerate(sorted(of_case.items(), key=lambda item: texts.index(item[0])))
    ]
    return TextTable(
        title=f"attrcert {kind}",
        header=("where", "figure", *(run.name for run in runs)),
        cells=tuple(cells),
        notes=tuple(_differences(runs)),
    )


def _differences(runs: Sequence[_Run]) -> Iterable[str]:
    """What makes runs incomparable, as the gate sees it."""
    first = runs[0]
    for other in runs[1:]:
        if differing := differing_keys(first.table.identity, other.table.identity):
            texts = "; ".join(text for texts in differing.values() for text in texts)
            yield f"{first.name} and {other.name} were computed differently, and do not compare: {texts}."


def _galleries(runs: Sequence[_Run], each: int, deltas: Sequence[Path]) -> tuple[tuple[Gallery, ...], tuple[str, ...]]:
    """Pictures of the runs whose arrays are there, and which are not."""
    shown: list[Gallery] = []
    missing: list[str] = []
    attacks = [run for run in runs if run.command == "attack"]
    if deltas and len(deltas) != len(attacks):
        raise UsageError(
            f"--deltas must be given for each of the {len(attacks)} attack runs, in order, got {len(deltas)}"
        )
    given = dict(zip((run.name for run in attacks), deltas, strict=False))
    for run in attacks:
        told = run.manifest.get("deltas")
        path = given.get(run.name) or (run.path.parent / str(told) if told else None)
        if path is None:
            missing.append(f"{run.name}: no pictures, since it was run without --save-deltas and --out together")
            continue
        try:
            arrays = Arrays(path, DELTAS)
            shown += [one for part in run.parts for one in galleries(part, arrays, each)]
        except UsageError as error:
            missing.append(f"{run.name}: no pictures: {error.message}")
    for run in (run for run in runs if run.table.command == "pixels"):
        try:
            maps = read_maps(run.path.parent / str(run.manifest.get("maps")))
            shown += pixel_galleries(run.name, run.rows, maps, each, run.classes)
        except UsageError as error:
            missing.append(f"{run.name}: no pictures: {error.message}")
    for run in runs:
        beside = jacobian_file(run.path)
        if os.path.exists(beside):
            try:
                found = jacobians(run.name, run.rows, Arrays(beside, JACOBIANS))
            except UsageError as error:
                missing.append(f"{run.name}: no Jacobian: {error.message}")
            else:
                shown += [found] if found else []
    return tuple(shown), tuple(missing)
